package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
)

// generation is what successor ends names with.
var generation = regexp.MustCompile(`-[0-9a-f]{8}$`)

// family is the name that a template and all its successors begin with.
func family(template string) string { return generation.ReplaceAllString(template, "") }

// sameGeneration is the name of a template or successor with that specification, of which machines may be made already;
// empty where there is none.
func sameGeneration(there []infrav1.OLVMMachineTemplate, template string, spec infrav1.OLVMMachineTemplateSpec) string {
	for i := range there {
		if family(there[i].Name) == family(template) && there[i].DeletionTimestamp.IsZero() &&
			equality.Semantic.DeepEqual(there[i].Spec, spec) {
			return there[i].Name
		}
	}

	return ""
}

// successor is a template with another specification, under a name that follows from it: the same again makes no other.
func successor(
	template *infrav1.OLVMMachineTemplate, spec infrav1.OLVMMachineTemplateSpec,
) (*infrav1.OLVMMachineTemplate, error) {
	content, err := json.Marshal(spec.Template.Spec)
	if err != nil {
		return nil, fmt.Errorf("failed to encode an OLVMMachineTemplate: %w", err)
	}

	sum := sha256.Sum256(content)

	return &infrav1.OLVMMachineTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "OLVMMachineTemplate"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: template.Namespace, Labels: template.Labels,
			Name: fmt.Sprintf("%s-%x", family(template.Name), sum[:4]),
		},
		Spec: spec,
	}, nil
}

// templateOf is the OLVMMachineTemplate that an owner of machines in the management cluster uses.
func templateOf(
	ctx context.Context, in *mgmtcluster.Cluster, owner *unstructured.Unstructured,
) (*infrav1.OLVMMachineTemplate, error) {
	_, reference := machineFields(owner.GetKind())
	name, _, _ := unstructured.NestedString(owner.Object, reference...)
	var template infrav1.OLVMMachineTemplate
	if err := in.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: name}, &template); err != nil {
		return nil, fmt.Errorf("%s %s: failed to get its OLVMMachineTemplate: %w", owner.GetKind(), owner.GetName(),
			err)
	}

	return &template, nil
}

// templatesOf are the OLVMMachineTemplates among manifests, with the API server's defaults, by the names of the owners
// of machines that use them.
func templatesOf(
	ctx context.Context, in *mgmtcluster.Cluster, objects []*unstructured.Unstructured,
) (map[string]*infrav1.OLVMMachineTemplate, error) {
	templates := map[string]*infrav1.OLVMMachineTemplate{}

	for _, object := range objects {
		if object.GetKind() != "OLVMMachineTemplate" {
			continue
		}

		template := &infrav1.OLVMMachineTemplate{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, template); err != nil {
			return nil, fmt.Errorf("OLVMMachineTemplate %s: %w", object.GetName(), err)
		}

		template.Name, template.GenerateName = "", object.GetName()+"-"
		if err := in.Create(ctx, template, client.DryRunAll); err != nil {
			return nil, fmt.Errorf("OLVMMachineTemplate %s: %w", object.GetName(), err)
		}

		templates[object.GetName()] = template
	}

	out := map[string]*infrav1.OLVMMachineTemplate{}

	for _, object := range objects {
		if _, reference := machineFields(object.GetKind()); reference != nil {
			used, _, _ := unstructured.NestedString(object.Object, reference...)
			if out[object.GetName()] = templates[used]; templates[used] == nil {
				return nil, fmt.Errorf("%s %s: there is no OLVMMachineTemplate %s beside it", object.GetKind(),
					object.GetName(), used)
			}
		}
	}

	return out, nil
}

// machineFields are where the version and the name of the template of machines are in a kind; nil where it has none.
func machineFields(kind string) (version, reference []string) {
	switch kind {
	case "KubeadmControlPlane":
		return []string{"spec", "version"}, []string{"spec", "machineTemplate", "spec", "infrastructureRef", "name"}
	case "MachineDeployment":
		return []string{"spec", "template", "spec", "version"},
			[]string{"spec", "template", "spec", "infrastructureRef", "name"}
	}

	return nil, nil
}

// followTemplates has the manifests name the OLVMMachineTemplates that Upgrade has made, where the cluster has been
// rolled out since it was created. Create itself replaces no machine: a cluster file that asks for that is an error.
func (c *creation) followTemplates(ctx context.Context) error {
	in := c.management.Cluster

	err := in.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: c.File.Name}, &clusterv1.Cluster{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}

	wanted, err := templatesOf(ctx, in, c.File.Objects)
	if err != nil {
		return err
	}

	for _, object := range c.File.Objects {
		version, _ := machineFields(object.GetKind())
		if version == nil {
			continue
		}

		live := object.DeepCopy()
		if err := in.Get(ctx, client.ObjectKeyFromObject(object), live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("failed to get %s %s: %w", object.GetKind(), object.GetName(), err)
		}

		template, err := templateOf(ctx, in, live)
		if err != nil {
			return err
		}

		now, _, _ := unstructured.NestedString(live.Object, version...)
		asked, _, _ := unstructured.NestedString(object.Object, version...)
		spec := wanted[object.GetName()].Spec.Template.Spec
		if now != asked || !equality.Semantic.DeepEqual(spec, template.Spec.Template.Spec) {
			return fmt.Errorf("%s %s has other machines than %s asks for; replace them with olvmctl upgrade %s -n %s "+
				"-f %s", object.GetKind(), object.GetName(), c.File.Path, c.File.Name, in.Namespace, c.File.Path)
		}

		if err := renameTemplate(c.File.Objects, object, template.Name); err != nil {
			return err
		}
	}

	return nil
}

// renameTemplate gives the OLVMMachineTemplate of an owner of machines among manifests another name.
func renameTemplate(objects []*unstructured.Unstructured, owner *unstructured.Unstructured, to string) error {
	_, reference := machineFields(owner.GetKind())
	from, _, _ := unstructured.NestedString(owner.Object, reference...)
	if err := unstructured.SetNestedField(owner.Object, to, reference...); err != nil {
		return fmt.Errorf("%s %s: %w", owner.GetKind(), owner.GetName(), err)
	}

	for _, object := range objects {
		if object.GetKind() == "OLVMMachineTemplate" && object.GetName() == from {
			object.SetName(to)
		}
	}

	return nil
}
