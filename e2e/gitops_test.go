package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestClustersFromGit applies the example repository in a loop, like GitOps tools, and changes its objects in between.
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

	w.manifests = strings.NewReplacer("namespace: prod", "namespace: "+w.namespace,
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
