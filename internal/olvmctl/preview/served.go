package preview

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/schema"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
)

// checkFields refuses fields that kinds do not have.
func checkFields(objects []source.Object) error {
	var errs []error

	for _, object := range objects {
		for _, problem := range schema.UnknownFields(object.Unstructured, object.Node) {
			errs = append(errs, problemOf(object, problem))
		}
	}

	return errors.Join(errs...)
}

// problemOf names file and line of a problem.
func problemOf(object source.Object, problem schema.Problem) error {
	where := object.Where()
	if problem.Line > 0 {
		where = fmt.Sprintf("%s: line %d", object.From, problem.Line)
	}

	return errors.New(oneLine(fmt.Sprintf("%s: %s %s/%s: %s", where, object.GetKind(), object.GetNamespace(),
		object.GetName(), problem)))
}

// CheckServed says what an API server would refuse of the manifests: the one of the management cluster in a dry run, if
// the user may write there, else the CRDs of this release. c is nil for no management cluster. It remembers a line that
// says which.
func (m *Manifests) CheckServed(ctx context.Context, c client.Client) error {
	if len(m.sources) == 0 {
		return nil
	}

	dryRun := c != nil
	m.checkedBy = "The manifests were checked by the CRDs of this release"

	var errs []error

	for _, object := range m.sources {
		if !strings.HasSuffix(object.GroupVersionKind().Group, "cluster.x-k8s.io") {
			continue
		}

		if dryRun {
			switch err := serverSays(ctx, c, object); {
			case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, "FieldValueForbidden"):
				dryRun = false
				m.checkedBy += "; a dry run by the API server needs the right to write them"
			case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // the namespace or the kind is still to come
			case err != nil:
				problem := schema.Problem{Message: "the API server refuses it: " + err.Error()}
				errs = append(errs, problemOf(object, problem))

				continue
			default:
				continue
			}
		}

		problems, err := schema.Violations(ctx, object.Unstructured, m.liveOf(object.Unstructured), object.Node)
		if err != nil {
			return err
		}

		for _, problem := range problems {
			errs = append(errs, problemOf(object, problem))
		}
	}

	if dryRun {
		m.checkedBy = "The API server of the management cluster has checked the manifests in a dry run"
	}

	return errors.Join(errs...)
}

// serverSays applies an object in a dry run: nothing is written.
func serverSays(ctx context.Context, c client.Client, object source.Object) error {
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.DryRunAll,
		client.ForceOwnership, client.FieldOwner("olvmctl-plan"))
}
