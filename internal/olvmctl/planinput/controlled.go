package planinput

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/schema"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
)

// checkRecorded refuses a manifest that changes the controllers' records of a running object. The controllers and the
// garbage collector of Kubernetes would destroy machines because of it, and no plan of manifests can show that.
func (m *Input) checkRecorded(live *unstructured.Unstructured) error {
	object, found := m.sourceOf[liveKey(live)]
	if !found {
		return nil
	}

	return errors.Join(checkOwners(object, live), checkRecords(object, live))
}

// checkControlled is checkRecorded for objects that plans read only if the manifests have them, and for specifications
// written by controllers.
func (m *Input) checkControlled(ctx context.Context, c client.Reader) error {
	var errs []error

	for _, object := range m.sources {
		if live := m.LiveOf(object.Unstructured); live != nil {
			errs = append(errs, m.checkSpecs(object, live))
			continue
		}

		if !hasOwners(object) {
			continue
		}

		live, unread, err := readPart(ctx, c, object.Unstructured)

		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case live == nil:
			errs = append(errs, problemAt(object, ownersPath, "%s, so that its owners may change; remove them", unread))
		default:
			errs = append(errs, checkOwners(object, live))
		}
	}

	wrong, err := m.checkConfigs(ctx, c)

	return errors.Join(errors.Join(errs...), wrong, err)
}

// problemAt returns a problem with a field of an object.
func problemAt(object source.Object, path, format string, args ...any) error {
	return problemOf(object, schema.Problem{
		Line: schema.LineOf(object.Node, path), Path: path, Message: fmt.Sprintf(format, args...),
	})
}

const ownersPath = "metadata.ownerReferences"

// hasOwners reports whether a manifest of Cluster API has owners.
func hasOwners(object source.Object) bool {
	_, found, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", "ownerReferences")

	return found && strings.HasSuffix(object.GroupVersionKind().Group, clusterv1.GroupVersion.Group)
}

// checkOwners refuses other owners of a running object. The garbage collector deletes an object without an existing
// owner.
func checkOwners(object source.Object, live *unstructured.Unstructured) error {
	if !hasOwners(object) || slices.Equal(uidsOf(object.GetOwnerReferences()), uidsOf(live.GetOwnerReferences())) {
		return nil
	}

	return problemAt(object, ownersPath, "the object in the management cluster has other owners, and Kubernetes "+
		"deletes an object if its owners do not exist; remove them")
}

func uidsOf(owners []metav1.OwnerReference) []types.UID {
	var out []types.UID
	for _, owner := range owners {
		out = append(out, owner.UID)
	}

	slices.Sort(out)

	return out
}

// recordsOf are the domains of the labels and annotations by which the controllers know the machines of an owner, by
// kind. One of these labels has no domain.
var recordsOf = map[string][]string{
	"Machine": {
		clusterv1.GroupVersion.Group, "controlplane." + clusterv1.GroupVersion.Group, "machine-template-hash",
	},
	"MachineSet": {
		clusterv1.GroupVersion.Group, "machinedeployment.clusters.x-k8s.io", "machine-template-hash",
	},
	"MachineDeployment":   {"topology." + clusterv1.GroupVersion.Group},
	"KubeadmControlPlane": {"topology." + clusterv1.GroupVersion.Group},
	"OLVMMachine":         {clusterv1.GroupVersion.Group, infrav1.GroupVersion.Group},
}

// askedOfMachines are the annotations of Machines by which people ask for something. The plan shows their effect.
var askedOfMachines = []string{
	clusterv1.DeleteMachineAnnotation, clusterv1.PausedAnnotation, clusterv1.MachineSkipRemediationAnnotation,
}

// checkRecords refuses other values of the controllers' labels and annotations.
func checkRecords(object source.Object, live *unstructured.Unstructured) error {
	var errs []error

	check := func(field string, written, live map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(written)) {
			domain, _, _ := strings.Cut(name, "/")
			isRecord := slices.Contains(recordsOf[object.GetKind()], domain) && !slices.Contains(askedOfMachines, name)

			if has, found := live[name]; isRecord && (!found || has != written[name]) {
				errs = append(errs, problemAt(object, field, "%s differs in the management cluster, and the "+
					"controllers know the machines of an owner by it; remove it", name))
			}
		}
	}
	check("metadata.labels", object.GetLabels(), live.GetLabels())
	check("metadata.annotations", object.GetAnnotations(), live.GetAnnotations())

	return errors.Join(errs...)
}

// checkSpecs refuses another specification of a MachineSet with a MachineDeployment, or of an OLVMInventoryVM, and
// another infrastructure of a Machine. The MachineDeployment writes the specification back, after the MachineSet has
// destroyed machines.
func (m *Input) checkSpecs(object source.Object, live *unstructured.Unstructured) error {
	controller := metav1.GetControllerOf(live)

	switch {
	case object.GetKind() == "MachineSet" && controller != nil:
		current := m.LiveAsWritten(object.Unstructured)
		if current == nil {
			return problemAt(object, "apiVersion", "the management cluster does not have it in this version, so that "+
				"it may change, and %s %s controls it; remove the MachineSet", controller.Kind, controller.Name)
		}

		found := FirstDifference(object.Object["spec"], current.Object["spec"], "spec")
		if found == "" {
			return nil
		}

		return problemAt(object, found, "it differs in the management cluster, and %s %s controls it; remove the "+
			"MachineSet, and change the %s", controller.Kind, controller.Name, controller.Kind)
	case object.GetKind() == "OLVMInventoryVM":
		if found := FirstDifference(object.Object["spec"], live.Object["spec"], "spec"); found != "" {
			return problemAt(object, found, "it differs in the management cluster, and the manager alone writes it; "+
				"remove the OLVMInventoryVM")
		}
	case object.GetKind() == "Machine":
		path := []string{"spec", "infrastructureRef"}

		wants, has := ReferenceAt(object.Unstructured, path...), ReferenceAt(live, path...)
		if wants != (Reference{}) && wants != has {
			return problemAt(object, strings.Join(path, "."), "it is %s %s in the management cluster, and a Machine "+
				"cannot change its VM; write back what it was", has.Kind, has.Name)
		}
	}

	return nil
}

// checkConfigs refuses another KubeadmConfig of a control plane machine, because the control plane replaces it then.
func (m *Input) checkConfigs(ctx context.Context, c client.Reader) (wrong, err error) {
	var errs []error

	for _, object := range m.sources {
		key := KubeadmConfigKey{object.GetKind(), object.GetNamespace(), object.GetName()}
		if object.GetKind() != "KubeadmConfig" || m.KubeadmConfigs[key] != object.Unstructured {
			continue
		}

		machine := m.controlPlaneMachineOf(key)
		if machine == "" {
			continue
		}

		live, unread, err := readPart(ctx, c, object.Unstructured)
		if apierrors.IsNotFound(err) {
			unread, err = "the management cluster lacks it", nil
		}

		if err != nil {
			return nil, err
		}

		found := unread
		if live != nil {
			if path := FirstDifference(object.Object["spec"], live.Object["spec"], "spec"); path != "" {
				found = path + " differs in the management cluster"
			}
		}

		if found != "" {
			errs = append(errs, problemOf(object, schema.Problem{Message: fmt.Sprintf(
				"%s, and Machine %s is made of it: its control plane may replace the machine; remove the KubeadmConfig",
				found, machine)}))
		}
	}

	return errors.Join(errs...), nil
}

// controlPlaneMachineOf names the running control plane machine made of a KubeadmConfig; "" for none.
func (m *Input) controlPlaneMachineOf(config KubeadmConfigKey) string {
	for _, owner := range m.Owners {
		live := m.LiveOf(owner)
		if live == nil || live.GetKind() != "Machine" || live.GetNamespace() != config.Namespace {
			continue
		}

		ref := ReferenceAt(live, "spec", "bootstrap", "configRef")
		_, isControlPlane := live.GetLabels()[clusterv1.MachineControlPlaneLabel]

		if isControlPlane && ref.Kind == config.Kind && ref.Name == config.Name && ref.IsOfBootstrap() {
			return live.GetNamespace() + "/" + live.GetName()
		}
	}

	return ""
}
