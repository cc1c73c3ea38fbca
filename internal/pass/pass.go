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

// ErrGone reports that the object disappeared with its last finalizer, so its status was not written.
var ErrGone = errors.New("the object is gone")

// errOutdated reports that another client has changed the object since it was read, so nothing was written.
var errOutdated = errors.New("the object has changed since it was read")

// Pass is one pass over an object. A controller makes all changes of the object in memory. WriteWithStatus writes them
// at the end. WriteObject writes them earlier, if something must exist at once. Both refuse an object that has changed
// since it was read. Then another pass starts.
type Pass struct {
	tracker *Tracker
	client  client.Client
	key     client.ObjectKey
	object  client.Object
	// before is the object at the beginning of the pass. stored is the object after the last write.
	before, stored client.Object
}

func newPass(tracker *Tracker, c client.Client, key client.ObjectKey, object client.Object) *Pass {
	before := CopyObject(object)

	return &Pass{tracker: tracker, client: c, key: key, object: object, before: before, stored: before}
}

// ObjectBefore returns the object at the beginning of the pass. Callers must not change it.
func (p *Pass) ObjectBefore() client.Object { return p.before }

// WriteObject writes the changes of the object except its status.
func (p *Pass) WriteObject(ctx context.Context) error {
	err := p.writePart(ctx, part{
		is: func(name string) bool { return name != "status" && name != "kind" && name != "apiVersion" },
		patch: func(ctx context.Context, object client.Object, patch client.Patch) error {
			return p.client.Patch(ctx, object, patch, FieldOwner)
		},
	})
	if err != nil {
		return err
	}

	return p.releaseFilledIn(ctx)
}

// WriteWithStatus writes the changes of the object, and then those of its status. Between these writes, it calls
// conclude to set the status, because conditions contain the object's generation after the first write. It removes from
// messages what differs from try to try. It also shortens texts and lists to the limits of the API server. It returns
// ErrGone if the object disappeared with its last finalizer.
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
		patch: func(ctx context.Context, object client.Object, patch client.Patch) error {
			return p.client.Status().Patch(ctx, object, patch, FieldOwner)
		},
	})
}

// End ends the pass. If another client has changed the object during the pass, End requests another pass. It also
// removes the error of such a change from err.
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
		*result = ctrl.Result{} // controller-runtime warns if there is a result besides an error
	case others:
		*result = ctrl.Result{RequeueAfter: atOnce}
	}
}

// removeOutdated removes errOutdated from an error or an aggregate.
func removeOutdated(err error) error {
	outdated := func(err error) bool { return errors.Is(err, errOutdated) }

	var all kerrors.Aggregate
	if errors.As(err, &all) {
		return kerrors.FilterOut(all, outdated)
	}

	return nil
}

// part is the part of an object that one request writes.
type part struct {
	// is reports whether a top-level field belongs to the part.
	is    func(name string) bool
	patch func(context.Context, client.Object, client.Patch) error
}

// writePart writes the changes in a part of the object.
func (p *Pass) writePart(ctx context.Context, part part) error {
	if equality.Semantic.DeepEqual(p.stored, p.object) {
		return nil
	}

	content, err := buildPatch(p.stored, p.object, part.is)
	if err != nil || content == nil {
		return err
	}

	// The answer contains the stored status, which must not replace the status in memory. The answer is decoded into an
	// empty object. In another object, fields that the answer lacks would stay.
	target := newEmpty(p.object)
	err = part.patch(ctx, target, client.RawPatch(types.MergePatchType, content))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", errOutdated, err)
	} else if err != nil {
		return fmt.Errorf("failed to write %s: %w", p.key, err)
	}

	p.stored = target
	p.noteAnswer(target)

	return nil
}

// noteAnswer takes the version and the owners of the object from the API server's answer to a write.
func (p *Pass) noteAnswer(answer client.Object) {
	p.tracker.noteWritten(p.key, answer.GetResourceVersion())

	for _, object := range []client.Object{p.object, p.stored} {
		object.SetResourceVersion(answer.GetResourceVersion())
		object.SetGeneration(answer.GetGeneration())
		object.SetManagedFields(answer.GetManagedFields())
	}
}

// buildPatch returns the merge patch of a part, or nil without a change. The patch is valid only for the version of the
// object that was read.
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

// encodePart returns a part of an object in JSON.
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

// newEmpty returns an empty object with the same type and name.
func newEmpty(object client.Object) client.Object {
	empty := reflect.New(reflect.TypeOf(object).Elem()).Interface()
	out := empty.(client.Object) //nolint:forcetypeassert // it is of the type of object
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())

	return out
}

// CopyObject returns a deep copy of an object, with the same type.
func CopyObject(object client.Object) client.Object {
	return object.DeepCopyObject().(client.Object) //nolint:forcetypeassert,errcheck // see above
}
