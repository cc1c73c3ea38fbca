package pass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
)

// ErrGone is why a status is not written: with the last finalizer the object went.
var ErrGone = errors.New("the object is gone")

// errOutdated is why nothing is written: somebody else has changed the object since it was read.
var errOutdated = errors.New("the object has changed since it was read")

// Pass is one look at an object. All changes of the object are made in memory, and written by Write, or before by
// WriteObject where something must be there at once. Both refuse an object that has changed since it was read; another
// pass begins then.
type Pass struct {
	tracker *Tracker
	client  client.Client
	key     client.ObjectKey
	object  client.Object
	// before is the object at the beginning, and stored as it was written last.
	before, stored client.Object
}

func newPass(tracker *Tracker, c client.Client, key client.ObjectKey, object client.Object) *Pass {
	before := CopyObject(object)

	return &Pass{tracker: tracker, client: c, key: key, object: object, before: before, stored: before}
}

// ObjectBefore is the object as it was at the beginning. It must not be changed.
func (p *Pass) ObjectBefore() client.Object { return p.before }

// WriteObject writes what has changed of the object, but for its status.
func (p *Pass) WriteObject(ctx context.Context) error {
	return p.writePart(ctx, part{
		is:    func(name string) bool { return name != "status" && name != "kind" && name != "apiVersion" },
		patch: p.client.Patch,
	})
}

// WriteWithStatus writes what has changed of the object, and then of its status. In between it calls conclude, which
// may set the status: conditions name the generation that the object has by then. Write takes out of the messages what
// differs from try to try, and cuts texts and lists to what the API server takes. The error is ErrGone if the object
// went with its last finalizer.
func (p *Pass) WriteWithStatus(ctx context.Context, conclude func()) error {
	if err := p.WriteObject(ctx); err != nil {
		return err
	}

	conclude()
	steadytext.SteadyMessages(p.object)
	steadytext.BoundStatus(p.object)

	if !p.object.GetDeletionTimestamp().IsZero() && len(p.object.GetFinalizers()) == 0 {
		return ErrGone
	}

	return p.writePart(ctx, part{
		is: func(name string) bool { return name == "status" },
		patch: func(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
			return p.client.Status().Patch(ctx, object, patch)
		},
	})
}

// End ends the pass. It has the object looked at again where somebody else has changed it meanwhile, and takes the
// error that such a change brought from err.
func (p *Pass) End(result *ctrl.Result, err *error) {
	others := p.tracker.endPass(p.key)
	if *err != nil && errors.Is(*err, errOutdated) {
		*err = removeOutdated(*err)
		if *err == nil {
			*result = ctrl.Result{RequeueAfter: retryOutdated}
		}
	}

	switch {
	case *err != nil:
		*result = ctrl.Result{} // controller-runtime warns of a result beside an error
	case others:
		*result = ctrl.Result{RequeueAfter: atOnce}
	}
}

// removeOutdated takes errOutdated from an error or an aggregate.
func removeOutdated(err error) error {
	outdated := func(err error) bool { return errors.Is(err, errOutdated) }

	var all kerrors.Aggregate
	if errors.As(err, &all) {
		return kerrors.FilterOut(all, outdated)
	}

	return nil
}

// part is what one request writes of an object.
type part struct {
	// is reports whether a field at the top belongs to it.
	is    func(name string) bool
	patch func(context.Context, client.Object, client.Patch, ...client.PatchOption) error
}

// writePart writes what has changed of a part.
func (p *Pass) writePart(ctx context.Context, part part) error {
	if equality.Semantic.DeepEqual(p.stored, p.object) {
		return nil
	}

	content, err := buildPatch(p.stored, p.object, part.is)
	if err != nil || content == nil {
		return err
	}

	// The answer has the stored status, which is not to replace the one in memory. It is decoded into an empty object:
	// what it does not have would stay in another one.
	target := newEmpty(p.object)
	err = part.patch(ctx, target, client.RawPatch(types.MergePatchType, content))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", errOutdated, err)
	} else if err != nil {
		return fmt.Errorf("failed to write %s: %w", p.key, err)
	}

	p.tracker.noteWritten(p.key, target.GetResourceVersion())

	if err := p.disownFields(ctx, target, content, part); err != nil {
		return err
	}

	p.object.SetResourceVersion(target.GetResourceVersion())
	p.object.SetGeneration(target.GetGeneration())
	target.SetManagedFields(p.object.GetManagedFields())
	p.stored = target

	return nil
}

// buildPatch is the merge patch of a part, which holds for the version of the object that was read only; nil where
// nothing has changed.
func buildPatch(before, after client.Object, is func(string) bool) ([]byte, error) {
	from, err := encodePart(before, is)
	if err != nil {
		return nil, err
	}

	to, err := encodePart(after, is)
	if err != nil {
		return nil, err
	}

	patch, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("failed to compare %s with what is stored: %w", after.GetName(), err)
	}

	var changes map[string]any
	if err := json.Unmarshal(patch, &changes); err != nil || len(changes) == 0 {
		return nil, err
	}

	metadata, ok := changes["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		changes["metadata"] = metadata
	}

	metadata["resourceVersion"] = before.GetResourceVersion()

	return json.Marshal(changes)
}

// encodePart is a part of an object in JSON.
func encodePart(object client.Object, is func(string) bool) ([]byte, error) {
	whole, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("failed to encode %s: %w", object.GetName(), err)
	}

	var fields map[string]json.RawMessage
	if err := json.Unmarshal(whole, &fields); err != nil {
		return nil, fmt.Errorf("failed to encode %s: %w", object.GetName(), err)
	}

	for name := range fields {
		if !is(name) {
			delete(fields, name)
		}
	}

	return json.Marshal(fields)
}

// newEmpty is an object of the same type and name.
func newEmpty(object client.Object) client.Object {
	empty := reflect.New(reflect.TypeOf(object).Elem()).Interface()
	out := empty.(client.Object) //nolint:forcetypeassert // it is of the type of object
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())

	return out
}

// CopyObject is a deep copy; each object of Kubernetes copies itself to its own type.
func CopyObject(object client.Object) client.Object {
	return object.DeepCopyObject().(client.Object) //nolint:forcetypeassert,errcheck // see above
}
