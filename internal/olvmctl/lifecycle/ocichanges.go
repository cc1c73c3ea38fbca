package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file changes existing clusters on OCI: it describes rollouts, and releases resources before a deletion.

// DescribeRollouts implements Provider. Cluster API replaces all machines of an owner with a new version or template.
func (*OCI) DescribeRollouts(_ context.Context, u *upgrade, owners []*owner) ([]string, error) {
	changes := slices.ContainsFunc(owners, func(one *owner) bool { return len(one.patch) > 0 })
	if changes && u.Version != "" && u.File == nil && u.VMTemplate == "" {
		return nil, fmt.Errorf("--kubernetes-version: machines of %s require another image; specify its OCID with "+
			"--vm-template, or a cluster file with -f", u.Version)
	}

	var out []string

	for _, one := range owners {
		if len(one.patch) == 0 {
			continue
		}

		out = append(out, fmt.Sprintf("%s: all its machines are replaced, with version %s and OCIMachineTemplate %s",
			one.name, versionOf(one.object), templateNameOf(one.object)))
	}

	return out, nil
}

// DescribeRemaining implements Provider. It names one machine of the owner with another version or template.
func (*OCI) DescribeRemaining(ctx context.Context, u *upgrade, one *owner) (string, error) {
	var machines clusterv1.MachineList
	err := u.List(ctx, &machines, client.InNamespace(u.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: u.Name,
	})
	if err != nil {
		return "", fmt.Errorf("failed to list the Machines: %w", err)
	}

	asked, template := versionOf(one.object), templateNameOf(one.object)

	for i := range machines.Items {
		machine := &machines.Items[i]
		if !ownedBy(machine, one.object) {
			continue
		}

		made := newOCIObject("OCIMachine")
		key := client.ObjectKey{Namespace: u.Namespace, Name: machine.Spec.InfrastructureRef.Name}
		if err := u.Get(ctx, key, made); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("failed to get OCIMachine %s: %w", key, err)
		}

		from := made.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]
		if machine.Spec.Version != asked || from != template {
			return fmt.Sprintf("Machine %s has version %s and OCIMachineTemplate %s", machine.Name,
				machine.Spec.Version, from), nil
		}
	}

	return "", nil
}

// ownedBy reports whether a machine belongs to a control plane or a MachineDeployment.
func ownedBy(machine *clusterv1.Machine, owner *unstructured.Unstructured) bool {
	_, control := machine.Labels[clusterv1.MachineControlPlaneLabel]

	return control && owner.GetKind() == "KubeadmControlPlane" ||
		machine.Labels[clusterv1.MachineDeploymentNameLabel] == owner.GetName()
}

// ReleaseSteps implements Provider. It deletes the load balancers of Services. OCI cannot delete the network of the
// cluster while load balancers use it. Nothing removes them once the nodes are gone.
func (*OCI) ReleaseSteps(d *deletion) []Step {
	return []Step{{
		name: "Deleting the load balancers of Services",
		run: func(ctx context.Context) error {
			workload, err := d.connectWorkload(ctx)
			if err != nil {
				d.Display.PrintLine("cannot list the Services of the cluster: %v", err)
				return nil
			}

			err = deleteBalancers(ctx, d, workload)
			if err != nil && ctx.Err() == nil {
				d.Display.PrintLine("load balancers may remain, which block the deletion of the network: %v", err)
				return nil
			}

			return err
		},
	}}
}

// deleteBalancers deletes the Services with load balancers, and waits until the load balancers are gone.
func deleteBalancers(ctx context.Context, d *deletion, workload client.Client) error {
	return d.Display.WaitFor(ctx, min(d.Timeout, releaseLimit), func(ctx context.Context) error {
		var services corev1.ServiceList
		if err := workload.List(ctx, &services); err != nil {
			return fmt.Errorf("failed to list the Services: %w", err)
		}

		var left []string

		for i := range services.Items {
			service := &services.Items[i]
			if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}

			left = append(left, client.ObjectKeyFromObject(service).String())
			if err := workload.Delete(ctx, service); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("failed to delete Service %s: %w", left[len(left)-1], err)
			}
		}

		if len(left) > 0 {
			return fmt.Errorf("deleting the load balancers of Services %s", strings.Join(left, ", "))
		}

		return nil
	})
}

// releaseLimit bounds the wait for the deletion of load balancers.
const releaseLimit = 5 * time.Minute
