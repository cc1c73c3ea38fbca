package controllers

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// lastApplied is the annotation with the last manifest that kubectl has applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// ways are the usual ways to apply a manifest. Each applies it unchanged, and returns the API server's response.
var ways = map[string]func(*site, *unstructured.Unstructured) (*unstructured.Unstructured, error){
	"kubectl apply": applyThreeWay,
	"kubectl apply --server-side": func(s *site, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return applyServerSide(s, o)
	},
	"with force": func(s *site, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return applyServerSide(s, o, client.ForceOwnership)
	},
}

// applyServerSide applies a manifest with server-side apply.
func applyServerSide(
	s *site, object *unstructured.Unstructured, options ...client.PatchOption,
) (*unstructured.Unstructured, error) {
	out := object.DeepCopy()
	//nolint:staticcheck // a manifest is no apply configuration
	err := s.Client.Patch(s.T.Context(), out, client.Apply, append(options, client.FieldOwner("gitops"))...)

	return out, err
}

// applyThreeWay applies a manifest as kubectl does for custom resources, with the same library.
func applyThreeWay(s *site, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}

	modified := object.DeepCopy()
	annotations := modified.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}

	annotations[lastApplied] = string(content)
	modified.SetAnnotations(annotations)

	by := client.FieldOwner("kubectl-client-side-apply")
	current := object.DeepCopy()
	err = s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(object), current)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	} else if err != nil {
		return modified, s.Client.Create(s.T.Context(), modified, by)
	}

	wanted, err := json.Marshal(modified)
	if err != nil {
		return nil, err
	}

	has, err := json.Marshal(current)
	if err != nil {
		return nil, err
	}

	before := []byte(current.GetAnnotations()[lastApplied])
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, wanted, has)
	if err != nil {
		return nil, err
	}

	return current, s.Client.Patch(s.T.Context(), current, client.RawPatch(types.MergePatchType, patch), by)
}

// peerManifests returns manifests in the style of Oracle's CLI.
func peerManifests(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("testdata/peer.yaml")
	check.Error(t, err, "")

	objects, err := manifest.Read(content)
	check.Error(t, err, "")

	return objects
}

// TestManifestsOfOraclesCLICanBeAppliedAgain applies each manifest several times. Meanwhile, the manager fills in empty
// fields.
func TestManifestsOfOraclesCLICanBeAppliedAgain(t *testing.T) {
	for name, apply := range ways {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)

			for _, object := range peerManifests(t) {
				object.SetNamespace(s.Namespace)
				s.applyAgain(object, apply)
			}
		})
	}
}

// applyAgain applies a manifest three times. After the first time, a Cluster adopts an OLVMCluster, and restores its
// own endpoint each time.
func (s *site) applyAgain(
	object *unstructured.Unstructured,
	apply func(*site, *unstructured.Unstructured) (*unstructured.Unstructured, error),
) {
	s.T.Helper()
	what := object.GetKind() + " " + object.GetName()

	for range 3 {
		_, err := apply(s, object)
		check.Error(s.T, err, "")

		if object.GetKind() != "OLVMCluster" {
			continue
		}

		c := &infrav1.OLVMCluster{ObjectMeta: s.NewMeta(object.GetName())}
		s.takeUp(c)
		s.Eventually(what+" has its endpoint", func() error {
			if err := s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				return err
			}

			if want := (infrav1.APIEndpoint{Host: "10.20.30.160", Port: 6443}); c.Spec.ControlPlaneEndpoint != want {
				return fmt.Errorf("it has %+v", c.Spec.ControlPlaneEndpoint)
			}

			return nil
		})
		s.ExpectCondition(c, infrav1.EndpointConfiguredCondition, "True/"+infrav1.EndpointConfiguredReason)
		check.Equal(s.T, what+": finalizers", c.Finalizers, []string{infrav1.ClusterFinalizer})
		check.Length(s.T, what+": owners", c.OwnerReferences, 1)
	}
}

// takeUp stands in for Cluster API: a Cluster with an endpoint adopts an OLVMCluster.
func (s *site) takeUp(c *infrav1.OLVMCluster) {
	s.T.Helper()
	check.Error(s.T, s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(c), c), "")

	if len(c.OwnerReferences) > 0 {
		return
	}

	owner := s.newOwner(c.Name)
	owner.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.20.30.160", Port: 6443}
	s.Create(owner)
	change(s, c, func(c *infrav1.OLVMCluster) {
		c.OwnerReferences = ownedBy(owner)
		c.Labels = map[string]string{clusterv1.ClusterNameLabel: c.Name}
	})
}

// TestAnEmptyProviderIDIsRestored applies a manifest with an empty providerID to a running machine.
func TestAnEmptyProviderIDIsRestored(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	id := m.Spec.ProviderID
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"providerID": ""}}}
	object.SetGroupVersionKind(infrav1.GroupVersion.WithKind("OLVMMachine"))
	object.SetNamespace(m.Namespace)
	object.SetName(m.Name)

	for name, apply := range ways {
		for range 2 {
			// The manager releases the field right after restoring it. Until then, applying is a conflict.
			s.Eventually("the manifest is applied by "+name, func() error {
				_, err := apply(s, object)
				return err
			})
			s.Eventually("the provider ID is back after "+name, func() error {
				if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
					return err
				}

				if m.Spec.ProviderID != id {
					return fmt.Errorf("it is %q", m.Spec.ProviderID)
				}

				return nil
			})
		}
	}

	check.Length(t, "VMs", s.Sim.ListVMs(), 1)
}

// TestAToolThatOwnsTheSpecDoesNotFightWithTheManager re-applies the specs of a cluster and of a machine, as GitOps
// tools do. The manager has nothing to undo, and loses none of its own fields.
func TestAToolThatOwnsTheSpecDoesNotFightWithTheManager(t *testing.T) {
	for _, force := range []bool{true, false} {
		t.Run(fmt.Sprintf("force %t", force), func(t *testing.T) {
			s := newSite(t, nil)
			m := s.CreateMachine("one", nil)
			s.ExpectProvisioned(m)
			s.ExpectCondition(m, infrav1.UpToDateCondition, "True/"+infrav1.UpToDateReason)
			s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/"+infrav1.ReadyCondition)

			var options []client.PatchOption
			if force {
				options = append(options, client.ForceOwnership)
			}

			machine := manifestOf(t, m, "OLVMMachine")
			unstructured.RemoveNestedField(machine.Object, "spec", "providerID")
			cluster := manifestOf(t, s.OLVM, "OLVMCluster")

			for _, object := range []*unstructured.Unstructured{machine, cluster} {
				first, err := applyServerSide(s, object, options...)
				check.Error(t, err, "")

				for range 20 {
					again, err := applyServerSide(s, object, options...)
					check.Error(t, err, "")
					check.Equal(t, "the generation", again.GetGeneration(), first.GetGeneration())
					check.Equal(t, "the spec", fmt.Sprint(again.Object["spec"]), fmt.Sprint(first.Object["spec"]))
					check.Equal(t, "finalizers", again.GetFinalizers(), first.GetFinalizers())
					check.Equal(t, "annotations", again.GetAnnotations(), first.GetAnnotations())
					check.Equal(t, "owners", again.GetOwnerReferences(), first.GetOwnerReferences())
				}

				check.Set(t, "finalizers", fmt.Sprint(first.GetFinalizers()))
			}

			before := m.DeepCopy()
			check.Error(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m), "")
			check.Equal(t, "the provider ID", m.Spec.ProviderID, before.Spec.ProviderID)
			check.Equal(t, "annotations", m.Annotations, before.Annotations)
			s.ExpectCondition(m, infrav1.UpToDateCondition, "True/"+infrav1.UpToDateReason)
		})
	}
}

// manifestOf returns an object as a repository stores it: its name and its spec.
func manifestOf(t *testing.T, object client.Object, kind string) *unstructured.Unstructured {
	t.Helper()
	content, err := json.Marshal(object)
	check.Error(t, err, "")

	var whole map[string]any
	check.Error(t, json.Unmarshal(content, &whole), "")

	out := &unstructured.Unstructured{Object: map[string]any{"spec": whole["spec"]}}
	out.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())

	return out
}
