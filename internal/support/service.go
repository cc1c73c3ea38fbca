package support

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// Service is one support service of a cluster.
type Service struct {
	// Name is the service's name in status.services. Field is the service's field in an OLVMSupportServices object.
	Name, Field string
	// Replicas is the number of VMs.
	Replicas int
	VM       infrav1alpha1.SupportVM
	// Only one of these fields is set: Balancer for a load balancer, JumpHost for a jump host, OIDC for Dex.
	Balancer *infrav1alpha1.SupportLoadBalancer
	JumpHost *infrav1alpha1.SupportJumpHost
	OIDC     *infrav1alpha1.SupportOIDC
}

// VirtualIPField returns the field that contains a load balancer's virtual address.
func (s Service) VirtualIPField() string { return s.Field + ".virtualIP" }

// JumpHostName is the name of the service for a jump host.
const JumpHostName = "jump-host"

// Kind is the kind of objects for support services.
const Kind = "OLVMSupportServices"

// CollectServices returns the services of an OLVMSupportServices object in a fixed order. It returns none for nil.
func CollectServices(of *infrav1alpha1.OLVMSupportServices) []Service {
	if of == nil {
		return nil
	}

	var out []Service

	for i := range of.Spec.LoadBalancers {
		balancer := &of.Spec.LoadBalancers[i]
		out = append(out, Service{
			Name:     "lb-" + balancer.Name,
			Field:    fmt.Sprintf("spec.loadBalancers[%d]", i),
			Replicas: max(int(balancer.Replicas), 1),
			VM:       balancer.SupportVM,
			Balancer: balancer,
		})
	}

	if host := of.Spec.JumpHost; host != nil {
		out = append(out, Service{
			Name:     JumpHostName,
			Field:    "spec.jumpHost",
			Replicas: 1,
			VM:       host.SupportVM,
			JumpHost: host,
		})
	}

	if oidc := of.Spec.OIDC; oidc != nil {
		out = append(out, Service{
			Name:     "oidc",
			Field:    "spec.oidc",
			Replicas: 1,
			VM:       oidc.SupportVM,
			OIDC:     oidc,
		})
	}

	return out
}

// VM is a VM of a support service.
type VM struct {
	// Name is the name of the VM's OLVMMachine.
	Name string
	// FailureDomain is the failure domain of the VM; "" leaves it to the template.
	FailureDomain string
}

// VMs returns the VMs of a service in the Cluster with the given name.
func (s Service) VMs(cluster string) []VM {
	var out []VM

	for i := range s.Replicas {
		vm := VM{Name: fmt.Sprintf("%s-%s-%d", cluster, s.Name, i)}
		if domains := s.VM.FailureDomains; len(domains) > 0 {
			vm.FailureDomain = domains[i%len(domains)]
		}

		out = append(out, vm)
	}

	return out
}

// Node is a machine of the cluster in the form that support services need.
type Node struct {
	Name         string
	Address      netip.Addr
	ControlPlane bool
}

// sortNodes returns nodes sorted by name.
func sortNodes(nodes []Node) []Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
}

// NewMachine returns the OLVMMachine of a VM. It refuses a template whose VMs come from an inventory.
func (s Service) NewMachine(
	of *infrav1alpha1.OLVMSupportServices, vm VM, template *infrav1.OLVMMachineTemplate,
) (*infrav1.OLVMMachine, error) {
	if template.Spec.Template.Spec.FromInventory != nil {
		return nil, s.NewInvalidError(
			"machineTemplateName",
			"OLVMMachineTemplate %s takes VMs from an inventory, but these are only for nodes; use a template that "+
				"creates VMs",
			template.Name,
		)
	}

	labels := maps.Clone(template.Spec.Template.ObjectMeta.Labels)
	if labels == nil {
		labels = map[string]string{}
	}

	maps.Copy(labels, map[string]string{
		clusterv1.ClusterNameLabel:        of.Spec.ClusterName,
		infrav1alpha1.SupportServiceLabel: s.Name,
	})

	if filter, ok := of.Labels[clusterv1.WatchLabel]; ok {
		labels[clusterv1.WatchLabel] = filter
	}

	annotations := maps.Clone(template.Spec.Template.ObjectMeta.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}

	annotations[clusterv1.TemplateClonedFromNameAnnotation] = template.Name
	annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] =
		infrav1.GroupVersion.WithKind("OLVMMachineTemplate").GroupKind().String()
	if vm.FailureDomain != "" {
		annotations[infrav1alpha1.SupportDomainAnnotation] = vm.FailureDomain
	}

	return &infrav1.OLVMMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   of.Namespace,
			Name:        vm.Name,
			Labels:      labels,
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(of, infrav1alpha1.GroupVersion.WithKind(Kind)),
			},
		},
		Spec: *template.Spec.Template.Spec.DeepCopy(),
	}, nil
}

// ExplainOutdated returns how a VM differs from the request of its service, or "" if it does not differ.
func (s Service) ExplainOutdated(machine *infrav1.OLVMMachine, vm VM) string {
	switch from := machine.Annotations[clusterv1.TemplateClonedFromNameAnnotation]; {
	case from != s.VM.MachineTemplateName:
		return fmt.Sprintf("it comes from OLVMMachineTemplate %s, but the spec names %s", from,
			s.VM.MachineTemplateName)
	case machine.Annotations[infrav1alpha1.SupportDomainAnnotation] != vm.FailureDomain:
		return fmt.Sprintf("the spec names failure domain %q", vm.FailureDomain)
	}

	return ""
}

// GetServiceName returns the name of the support service in an object's label, or "".
func GetServiceName(object metav1.Object) string {
	return object.GetLabels()[infrav1alpha1.SupportServiceLabel]
}

// NewStandInMachine returns a Machine that stands in for the missing Machine of a support service's OLVMMachine. For
// other OLVMMachines, it returns nil. No real Machine owns such an OLVMMachine, so that Cluster API does not wait for a
// node.
func NewStandInMachine(m *infrav1.OLVMMachine) *clusterv1.Machine {
	owner := metav1.GetControllerOf(m)
	if GetServiceName(m) == "" || owner == nil || owner.Kind != Kind {
		return nil
	}

	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels},
		Spec: clusterv1.MachineSpec{
			ClusterName:   m.Labels[clusterv1.ClusterNameLabel],
			Bootstrap:     clusterv1.Bootstrap{DataSecretName: ptr.To(SecretName(m.Name))},
			FailureDomain: m.Annotations[infrav1alpha1.SupportDomainAnnotation],
		},
	}
}

// SecretName returns the name of the Secret with the user data of a support service's machine.
func SecretName(machine string) string { return machine + "-support" }
