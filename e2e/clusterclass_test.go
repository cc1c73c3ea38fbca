package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newTopologyWorkload applies the shipped ClusterClass, and a cluster of this class with one worker. A machine is
// replaced one second after it loses its Node.
func newTopologyWorkload(t *testing.T, name string, subnet int) *workload {
	t.Helper()
	w := prepare(t, name)
	w.applyTemplates(subnet, nil, func(object *unstructured.Unstructured) {
		if object.GetKind() == "Cluster" {
			loseQuickly(t, object)
			place(t, object, subnet)
		}
	}, "clusterclass-olvm.yaml", "cluster-template-topology.yaml")

	return w
}

// applyTemplates applies shipped templates with one control plane machine and one worker. The parameter more contains
// variables that most templates lack.
func (w *workload) applyTemplates(
	subnet int, more map[string]string, change func(*unstructured.Unstructured), files ...string,
) {
	w.t.Helper()

	for _, file := range files {
		objects := w.readTemplate(subnet, more, file)
		for _, object := range objects {
			object.SetNamespace(w.namespace)
			change(object)
		}

		w.eventually(file+" is applied", func() error { // the webhook of Clusters waits until the class is reconciled
			return localplane.Apply(w.t.Context(), suite.plane.Client, objects...)
		})
	}
}

// readTemplate returns the objects of a shipped template. It sets the variables of most templates and those in more.
func (w *workload) readTemplate(subnet int, more map[string]string, file string) []*unstructured.Unstructured {
	w.t.Helper()
	variables := map[string]string{
		"CLUSTER_NAME":                 w.name,
		"NAMESPACE":                    w.namespace,
		"KUBERNETES_VERSION":           "v1.36.1",
		"CONTROL_PLANE_MACHINE_COUNT":  "1",
		"WORKER_MACHINE_COUNT":         "1",
		"CONTROL_PLANE_ENDPOINT_HOST":  "127.20.S.5",
		"OLVM_SERVER_URL":              suite.plane.Engine.URL,
		"OLVM_VM_TEMPLATE":             "ol9-k8s",
		"OLVM_NETWORK":                 "kvm-vlan",
		"OLVM_VNIC_PROFILE":            "kvm-vlan",
		"OLVM_SUBNET":                  "127.20.S.0/24",
		"OLVM_GATEWAY":                 "127.20.S.1",
		"OLVM_DNS_SERVER":              "127.20.S.1",
		"OLVM_CONTROL_PLANE_ADDRESSES": "127.20.S.10-127.20.S.19",
		"OLVM_WORKER_ADDRESSES":        "127.20.S.100-127.20.S.109,127.20.S.120",
	}
	maps.Copy(variables, more)

	content, err := os.ReadFile(filepath.Join(suite.tools.Root(), "config", "templates", file))
	if err != nil {
		w.t.Fatal(err)
	}

	text := string(content)

	// a class serves many clusters, so it does not contain such variables
	if strings.HasPrefix(file, "cluster-template") {
		text = expand(text, func(name, fallback string) string {
			value, ok := variables[name]
			if !ok && fallback == "" {
				w.t.Errorf("%s asks for %s", file, name)
			}

			if !ok {
				value = fallback
			}

			return strings.NewReplacer("127.20.S.", fmt.Sprintf("127.20.%d.", subnet), "fd00:S:",
				fmt.Sprintf("fd00:%d:", subnet)).
				Replace(value)
		})
	}

	objects, err := manifest.Read([]byte(text))
	if err != nil {
		w.t.Fatal(err)
	}

	return objects
}

// variable matches a variable of a template, with its default.
var variable = regexp.MustCompile(`\$\{([A-Z0-9_]+)(?::=([^${}]*))?\}`)

// expand fills in the variables of a template. It first fills in variables inside the defaults of other variables.
func expand(template string, value func(name, fallback string) string) string {
	for variable.MatchString(template) {
		template = variable.ReplaceAllStringFunc(template, func(match string) string {
			groups := variable.FindStringSubmatch(match)
			return value(groups[1], groups[2])
		})
	}

	return template
}

func loseQuickly(t *testing.T, cluster *unstructured.Unstructured) {
	t.Helper()
	path := []string{"spec", "topology", "workers", "machineDeployments"}
	deployments, _, err := unstructured.NestedSlice(cluster.Object, path...)
	if err != nil || len(deployments) != 1 {
		t.Fatalf("the Cluster has %d MachineDeployments, %v", len(deployments), err)
	}

	deployments[0].(map[string]any)["healthCheck"] = map[string]any{"checks": map[string]any{
		"unhealthyNodeConditions": []any{
			map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(1)},
		},
	}}
	if err := unstructured.SetNestedSlice(cluster.Object, deployments, path...); err != nil {
		t.Fatal(err)
	}
}

// worker returns the only worker Machine.
func (w *workload) worker() (*clusterv1.Machine, error) {
	var machines clusterv1.MachineList
	err := w.plane.Client.List(
		context.Background(), &machines, client.InNamespace(w.namespace),
		client.HasLabels{clusterv1.MachineDeploymentNameLabel},
	)
	if err != nil {
		return nil, err
	}

	if len(machines.Items) != 1 {
		return nil, fmt.Errorf("%d workers", len(machines.Items))
	}

	return &machines.Items[0], nil
}

// loseAWorker deletes a worker's VM in the engine, and waits until its MachineHealthCheck replaces the Machine.
func (w *workload) loseAWorker() {
	w.t.Helper()
	ctx := context.Background()
	lost, err := w.worker()
	if err != nil {
		w.t.Fatal(err)
	}

	id := strings.TrimPrefix(lost.Spec.ProviderID, "olvm://")
	if err := suite.engine.StopVM(ctx, engine.ID(id), true); err != nil {
		w.t.Fatal(err)
	}

	w.eventually("the VM is deleted", func() error { return suite.engine.DeleteVM(ctx, engine.ID(id)) })
	w.eventually("the Machine is replaced", func() error {
		for _, vm := range w.vms() {
			if vm.Name == lost.Name && vm.ID.String() != id {
				w.t.Fatalf("the VM of Machine %s was made again", lost.Name)
			}
		}

		worker, err := w.worker()
		if err == nil && worker.UID == lost.UID {
			return errors.New("it is still there")
		}

		return err
	})
}

// rebootAWorker powers off a worker's VM in the engine. It waits until the remediation by its MachineHealthCheck starts
// the VM, and the same Machine is healthy again.
func (w *workload) rebootAWorker() {
	w.t.Helper()
	ctx := context.Background()
	template := &infrav1alpha1.OLVMRemediationTemplate{}
	template.Namespace, template.Name = w.namespace, "reboot-first"
	template.Spec.Template.Spec.Strategy.Type = infrav1alpha1.RebootStrategy
	w.must(w.plane.Client.Create(ctx, template))
	w.remediateWith(clusterv1.MachineHealthCheckRemediationTemplateReference{
		APIVersion: infrav1alpha1.GroupVersion.String(), Kind: "OLVMRemediationTemplate", Name: template.Name,
	})

	lost, err := w.worker()
	w.must(err)
	id := engine.ID(strings.TrimPrefix(lost.Spec.ProviderID, "olvm://"))
	w.must(suite.engine.StopVM(ctx, id, true))

	remediation := &infrav1alpha1.OLVMRemediation{}
	key := client.ObjectKey{Namespace: w.namespace, Name: lost.Name}
	w.eventually("Cluster API asks for the remediation", func() error {
		return w.plane.Client.Get(ctx, key, remediation)
	})
	w.eventually("the node is healthy, and the remediation ends", func() error {
		err := w.plane.Client.Get(ctx, key, remediation)
		if apierrors.IsNotFound(err) {
			return nil
		}

		return cmp.Or(err, fmt.Errorf("its status is %+v", remediation.Status))
	})

	healed, err := w.worker()
	w.must(err)
	check.Equal(w.t, "the UID of the Machine", healed.UID, lost.UID)
	w.remediateWith(clusterv1.MachineHealthCheckRemediationTemplateReference{})
}

// must fails the test if err is not nil.
func (w *workload) must(err error) {
	w.t.Helper()

	if err != nil {
		w.t.Fatal(err)
	}
}

// remediateWith sets the template of the workers' MachineHealthCheck. Without a template, the MachineHealthCheck
// replaces machines.
func (w *workload) remediateWith(template clusterv1.MachineHealthCheckRemediationTemplateReference) {
	w.t.Helper()

	health := &clusterv1.MachineHealthCheck{}
	key := client.ObjectKey{Namespace: w.namespace, Name: w.name + "-md-0"}
	w.eventually("the MachineHealthCheck is written", func() error {
		if err := w.plane.Client.Get(context.Background(), key, health); err != nil {
			return err
		}

		health.Spec.Remediation.TemplateRef = template

		return w.plane.Client.Update(context.Background(), health)
	})
}

// rollWorkersOut changes a variable of the topology, and waits until all workers come from the new template.
func (w *workload) rollWorkersOut(memory string) {
	w.t.Helper()
	ctx := context.Background()
	before, err := w.worker()
	if err != nil {
		w.t.Fatal(err)
	}

	w.eventually("the variable is written", func() error {
		cluster, err := w.cluster()
		if err != nil {
			return err
		}

		for i, variable := range cluster.Spec.Topology.Variables {
			if variable.Name == "workerMachines" {
				cluster.Spec.Topology.Variables[i].Value.Raw = []byte(
					strings.Replace(string(variable.Value.Raw), "16GB", memory, 1),
				)
			}
		}

		return w.plane.Client.Update(ctx, cluster)
	})
	w.eventually("the workers are rolled out", func() error {
		worker, err := w.worker()
		if err != nil {
			return err
		}

		m := &infrav1.OLVMMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: worker.Spec.InfrastructureRef.Name},
		}
		if err := w.plane.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if worker.UID == before.UID || m.Spec.VirtualMachine.Memory != memory ||
			!ptr.Deref(m.Status.Initialization.Provisioned, false) {
			return fmt.Errorf("the worker is %s with %s", worker.Name, m.Spec.VirtualMachine.Memory)
		}

		return nil
	})
}
