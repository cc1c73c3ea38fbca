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
	// Name as status.services has it, and Field of the OLVMSupportServices that asks for it.
	Name, Field string
	// Replicas is how many VMs it has.
	Replicas int
	VM       infrav1alpha1.SupportVM
	// One of them is set: Balancer for a load balancer, JumpHost for a jump host, OIDC for Dex.
	Balancer *infrav1alpha1.SupportLoadBalancer
	JumpHost *infrav1alpha1.SupportJumpHost
	OIDC     *infrav1alpha1.SupportOIDC
}

// VirtualIPField is the field with the virtual address of a load balancer.
func (s Service) VirtualIPField() string { return s.Field + ".virtualIP" }

// JumpHostName is the name of the service that is a jump host.
const JumpHostName = "jump-host"

// Kind of the objects that ask for support services.
const Kind = "OLVMSupportServices"

// Services are those that an OLVMSupportServices asks for, in their order; none for nil.
func Services(of *infrav1alpha1.OLVMSupportServices) []Service {
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
	// Name of its OLVMMachine.
	Name string
	// FailureDomain in which it is to be; empty where its template says.
	FailureDomain string
}

// VMs are those of a service of a Cluster.
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

// Node is a machine of the cluster that support services know of.
type Node struct {
	Name         string
	Address      netip.Addr
	ControlPlane bool
}

// sorted are nodes by their names.
func sorted(nodes []Node) []Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
}

// NewMachine is the OLVMMachine of a VM. The template must be for VMs that are made.
func (s Service) NewMachine(
	of *infrav1alpha1.OLVMSupportServices, vm VM, template *infrav1.OLVMMachineTemplate,
) (*infrav1.OLVMMachine, error) {
	if template.Spec.Template.Spec.FromInventory != nil {
		return nil, s.Invalid("machineTemplateName", "OLVMMachineTemplate %s takes VMs of an inventory, which are for "+
			"nodes; name one that makes VMs", template.Name)
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

// Outdated says why a VM is not as its service asks for; empty where it is.
func (s Service) Outdated(machine *infrav1.OLVMMachine, vm VM) string {
	switch from := machine.Annotations[clusterv1.TemplateClonedFromNameAnnotation]; {
	case from != s.VM.MachineTemplateName:
		return fmt.Sprintf("it is of OLVMMachineTemplate %s, and %s is asked for", from, s.VM.MachineTemplateName)
	case machine.Annotations[infrav1alpha1.SupportDomainAnnotation] != vm.FailureDomain:
		return fmt.Sprintf("failure domain %q is asked for", vm.FailureDomain)
	}

	return ""
}

// ServiceOf is the support service that the label of an object names; empty for none.
func ServiceOf(object metav1.Object) string {
	return object.GetLabels()[infrav1alpha1.SupportServiceLabel]
}

// MachineOf stands for the Machine of an OLVMMachine that is of a support service: no Machine owns it, so that Cluster
// API counts no node that never comes. It is nil for other OLVMMachines.
func MachineOf(m *infrav1.OLVMMachine) *clusterv1.Machine {
	owner := metav1.GetControllerOf(m)
	if ServiceOf(m) == "" || owner == nil || owner.Kind != Kind {
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

// SecretName is the Secret with what the VM of a support service is told.
func SecretName(machine string) string { return machine + "-support" }
