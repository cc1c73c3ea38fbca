package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// TestClustersFromGit applies the example repository in a loop, like GitOps tools. Between these applications, it
// changes the objects.
func TestClustersFromGit(t *testing.T) {
	t.Parallel()
	w := prepare(t, "prod")
	kubectl, err := suite.tools.Path("plane", "kubectl")
	if err != nil {
		t.Fatal(err)
	}

	built, err := exec.CommandContext(t.Context(), kubectl, "kustomize",
		filepath.Join(suite.tools.Root(), "docs", "gitops", "clusters", "prod")).Output()
	if err != nil {
		t.Fatal(err)
	}

	// Arguments of the kubelet are a list in v1beta2, and a map in v1beta1.
	w.manifests = strings.NewReplacer("  kubeadmConfigSpec:\n", "  kubeadmConfigSpec:\n    joinConfiguration:\n"+
		"      nodeRegistration:\n        kubeletExtraArgs:\n        - name: v\n          value: \"2\"\n", "namespace: prod", "namespace: "+w.namespace,
		"kind: Namespace\nmetadata:\n  name: prod", "kind: Namespace\nmetadata:\n  name: "+w.namespace,
		"10.20.30.", "127.20.78.", "https://engine.example.com/ovirt-engine", suite.plane.Engine.URL).
		Replace(string(built))
	apply := func(ctx context.Context) (string, error) {
		command := exec.CommandContext(ctx, kubectl, "--kubeconfig", w.plane.Kubeconfig, "apply", "--server-side",
			"--field-manager=gitops", "--force-conflicts", "-f", "-")
		command.Stdin = strings.NewReader(w.manifests)
		out, err := command.CombinedOutput()

		return string(out), err
	}
	w.eventually("the repository is applied", func() error {
		if out, err := apply(t.Context()); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}

		return nil
	})
	w.expectMachines(1, 1)
	key := client.ObjectKey{Namespace: w.namespace, Name: "prod-md-0"}
	generation := func() int64 {
		var md clusterv1.MachineDeployment
		if err := w.plane.Client.Get(context.Background(), key, &md); err != nil {
			t.Fatal(err)
		}

		return md.Generation
	}
	before := generation()
	if out, err := apply(t.Context()); err != nil || generation() != before {
		t.Errorf("a second time changes something: %v\n%s", err, out)
	}

	if plan, code := w.plan(t, w.manifests, "--kubeconfig", w.plane.Kubeconfig); code != 0 {
		t.Errorf("the plan of what runs: exit code %d, %+v", code, plan)
	}

	t.Run("manifests of another apiVersion", func(t *testing.T) {
		testenv.SkipInShort(t, "makes several plans; internal/olvmctl/preview has the same with a fake API server")
		w.plansOlderManifests(t, apply)
	})

	w.eventually("somebody scales by hand", func() error {
		var md clusterv1.MachineDeployment
		if err := w.plane.Client.Get(context.Background(), key, &md); err != nil {
			return err
		}

		md.Spec.Replicas = ptr.To[int32](2)

		return w.plane.Client.Update(context.Background(), &md)
	})
	w.eventually("the plan shows the drift", func() error {
		plan, code := w.plan(t, w.manifests, "--kubeconfig", w.plane.Kubeconfig)
		if code != 2 || plan.Changed != 1 || len(plan.Owners) != 1 {
			return fmt.Errorf("exit code %d, %+v", code, plan)
		}

		return nil
	})
	loop, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)

		for loop.Err() == nil {
			if out, err := apply(loop); err != nil && loop.Err() == nil {
				t.Errorf("%v\n%s", err, out)
			}

			select {
			case <-loop.Done():
			case <-time.After(2 * time.Second):
			}
		}
	}()
	w.expectMachines(1, 1)
	w.eventually("the loop has repaired it", func() error {
		var md clusterv1.MachineDeployment
		if err := w.plane.Client.Get(context.Background(), key, &md); err != nil {
			return err
		}

		if ptr.Deref(md.Spec.Replicas, 0) != 1 {
			return errors.New("it has 2 replicas")
		}

		return nil
	})
	stop()
	<-ended
	w.delete()
}

// plansOlderManifests compares a running cluster with manifests in v1beta1, as Cluster API converts them: unchanged and
// changed. It then applies them, so that managedFields name the fields of v1beta1.
func (w *workload) plansOlderManifests(t *testing.T, apply func(context.Context) (string, error)) {
	t.Helper()

	newer, older := w.manifests, inV1Beta1(t, w.manifests)
	plans := func(name, manifests, reason string) {
		t.Helper()

		plan, code := w.plan(t, manifests, "--kubeconfig", w.plane.Kubeconfig, "--offline")
		if reason == "" {
			check.Equal(t, name+": exit code", code, 0)
			check.Length(t, fmt.Sprintf("%s: owners %+v", name, plan.Owners), plan.Owners, 0)

			return
		}

		check.Equal(t, name+": exit code", code, 2)
		check.Contains(t, name, fmt.Sprint(plan.Owners), reason)
	}
	plans("nothing changes", older, "")
	plans("an argument of the kubelet", strings.Replace(older, `v: "2"`, `v: "4"`, 1), "kubeletExtraArgs.v changes")
	plans("no argument of the kubelet", strings.Replace(older, `v: "2"`, "{}", 1), "kubeletExtraArgs")

	w.manifests = older
	defer func() { w.manifests = newer }()

	if out, err := apply(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	plans("nothing changes but the version", newer, "")
	plans("an argument of the older manifest is gone", strings.Replace(newer,
		"        - name: v\n          value: \"2\"\n", "          []\n", 1), "kubeletExtraArgs")
}

// inV1Beta1 returns manifests with the owners of machines in v1beta1.
func inV1Beta1(t *testing.T, manifests string) string {
	t.Helper()

	objects, err := manifest.Read([]byte(manifests))
	check.Error(t, err, "")

	for _, object := range objects {
		switch object.GetKind() {
		case "MachineDeployment":
			object.SetAPIVersion("cluster.x-k8s.io/v1beta1")
			moveField(t, object, "spec.template.spec.bootstrap.configRef.apiGroup",
				"spec.template.spec.bootstrap.configRef.apiVersion", "bootstrap.cluster.x-k8s.io/v1beta1")
			moveField(t, object, "spec.template.spec.infrastructureRef.apiGroup",
				"spec.template.spec.infrastructureRef.apiVersion", "infrastructure.cluster.x-k8s.io/v1")
		case "KubeadmControlPlane":
			object.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta1")
			moveField(t, object, "spec.machineTemplate.spec", "spec.machineTemplate.infrastructureRef", map[string]any{
				"apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "OLVMMachineTemplate", "name": "prod-control-plane",
			})
			moveField(t, object, "spec.rollout", "spec.rolloutBefore", map[string]any{"certificatesExpiryDays": int64(21)})
			moveField(t, object, "spec.kubeadmConfigSpec.joinConfiguration",
				"spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.kubeletExtraArgs", map[string]any{"v": "2"})
		}
	}

	var out bytes.Buffer
	check.Error(t, manifest.Write(&out, objects), "")

	return out.String()
}

// moveField replaces a field of an object by another.
func moveField(t *testing.T, object *unstructured.Unstructured, from, to string, value any) {
	t.Helper()
	unstructured.RemoveNestedField(object.Object, strings.Split(from, ".")...)
	check.Error(t, unstructured.SetNestedField(object.Object, value, strings.Split(to, ".")...), "")
}
