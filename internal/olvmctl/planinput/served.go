package planinput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/schema"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
)

// checkKinds rejects kinds unknown to all API servers. Otherwise a plan would skip a kind with wrong capitals, or with
// a version not served by Cluster API.
func checkKinds(objects []source.Object) error {
	var errs []error

	served := schema.Kinds()

	for _, object := range objects {
		kind := object.GroupVersionKind()
		at := slices.IndexFunc(served, func(known runtimeschema.GroupVersionKind) bool {
			return strings.EqualFold(known.Group+"/"+known.Kind, kind.Group+"/"+kind.Kind)
		})

		if at < 0 {
			if similar := similarKind(kind, served); similar != "" {
				message := fmt.Sprintf("no such kind; did you mean %s?", similar)
				errs = append(errs, problemOf(object, schema.Problem{Message: message}))
			}

			continue
		}

		// addManifest names another version of our own kinds.
		isOwn := served[at].Group == api.Group && served[at].GroupKind() == kind.GroupKind()
		if isOwn || slices.Contains(served, kind) {
			continue
		}

		message := fmt.Sprintf("no such kind; use apiVersion: %s and kind: %s", served[at].GroupVersion(),
			served[at].Kind)
		errs = append(errs, problemOf(object, schema.Problem{Message: message}))
	}

	return errors.Join(errs...)
}

// similarKind returns the kind of the same group probably meant by a kind, or "". Other providers share groups, so
// their kinds must differ in more than two letters.
func similarKind(kind runtimeschema.GroupVersionKind, served []runtimeschema.GroupVersionKind) string {
	for _, known := range served {
		if known.Group == kind.Group && levenshtein.Distance(known.Kind, kind.Kind, nil) <= 2 {
			return known.Kind
		}
	}

	return ""
}

// checkFields rejects unknown fields.
func checkFields(objects []source.Object) error {
	var errs []error

	for _, object := range objects {
		for _, problem := range schema.UnknownFields(object.Unstructured, object.Node) {
			errs = append(errs, problemOf(object, problem))
		}
	}

	return errors.Join(errs...)
}

// problemOf returns a problem with the file and the line of its object.
func problemOf(object source.Object, problem schema.Problem) error {
	where := object.DescribeSource()
	if problem.Line > 0 {
		where = fmt.Sprintf("%s: line %d", object.From, problem.Line)
	}

	return errors.New(plaintext.OneLine(fmt.Sprintf("%s: %s %s/%s: %s", where, object.GetKind(), object.GetNamespace(),
		object.GetName(), problem)))
}

const (
	byServer  = "Validated by the API server of the management cluster in a dry run"
	byLive    = "Validated with the CRDs of the management cluster"
	byRelease = "Validated with the CRDs of this release"
	noDryRun  = "; a dry run by the API server requires permission to write the manifests"
)

// CheckServed returns the objections of an API server to the manifests. If the user may write to the management
// cluster, it uses dry runs. Otherwise it uses the CRDs of the management cluster, or else those of this release. c is
// nil if there is no management cluster. It records the method in CheckedBy.
func (m *Input) CheckServed(ctx context.Context, c client.Client) error {
	if len(m.sources) == 0 {
		return nil
	}

	var errs []error

	var live schema.CRDs

	dryRun := c != nil

	for _, object := range m.sources {
		if !strings.HasSuffix(object.GroupVersionKind().Group, "cluster.x-k8s.io") {
			continue
		}

		if dryRun {
			switch err := dryRunApply(ctx, c, object); {
			case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, "FieldValueForbidden"):
				dryRun = false
			case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // the namespace or the kind does not exist yet
			case err != nil:
				problem := schema.Problem{Message: "the API server rejects it: " + err.Error()}
				errs = append(errs, problemOf(object, problem))

				continue
			default:
				continue
			}
		}

		if c != nil && !dryRun && live == nil {
			var err error
			if live, err = m.readCRDs(ctx, c); err != nil {
				return err
			}
		}

		problems, err := schema.FindViolations(
			ctx, live, object.Unstructured, m.LiveAsWritten(object.Unstructured), object.Node,
		)
		if err != nil {
			return err
		}

		for _, problem := range problems {
			errs = append(errs, problemOf(object, problem))
		}
	}

	m.CheckedBy = checkedBy(c != nil, dryRun, live)

	return errors.Join(errs...)
}

// checkedBy returns a line about who has checked the manifests.
func checkedBy(connected, dryRun bool, live schema.CRDs) string {
	switch {
	case dryRun:
		return byServer
	case len(live) > 0:
		return byLive + noDryRun
	case connected:
		return byRelease + noDryRun + ", and the CRDs of the management cluster require permission to read CRDs"
	}

	return byRelease
}

// readCRDs reads the CRDs of the kinds in the manifests. It skips CRDs missing in the management cluster, and CRDs the
// user may not read.
func (m *Input) readCRDs(ctx context.Context, c client.Client) (schema.CRDs, error) {
	out, seen := schema.CRDs{}, map[string]bool{}

	for _, object := range m.sources {
		kind := object.GroupVersionKind()
		if seen[kind.String()] || !strings.HasSuffix(kind.Group, "cluster.x-k8s.io") {
			continue
		}

		seen[kind.String()] = true

		resource, _ := meta.UnsafeGuessKindToResource(kind)
		if mapping, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil {
			resource = mapping.Resource
		}

		read := &unstructured.Unstructured{}
		read.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))

		err := c.Get(ctx, client.ObjectKey{Name: resource.GroupResource().String()}, read)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}

		if err != nil {
			return nil, fmt.Errorf("failed to read the CRD of %s in the management cluster: %w", kind.Kind, err)
		}

		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, &crd); err != nil {
			return nil, fmt.Errorf("failed to read the CRD of %s in the management cluster: %w", kind.Kind, err)
		}

		if err := out.Add(&crd); err != nil {
			return nil, err
		}
	}

	return out, nil
}

// dryRunApply applies an object as a dry run, which writes nothing.
func dryRunApply(ctx context.Context, c client.Client, object source.Object) error {
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.DryRunAll,
		client.ForceOwnership, client.FieldOwner("olvmctl-plan"))
}
