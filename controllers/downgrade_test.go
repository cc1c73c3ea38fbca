package controllers

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestFieldsOfALaterVersionOutliveAnOlderManager simulates a downgrade: the CRD of a later version stays, with fields
// unknown to this manager. The manager reconciles a machine, and writes its spec and status without these fields. The
// CRD of the later version is the current one with two more fields, because there has been no release yet.
func TestFieldsOfALaterVersionOutliveAnOlderManager(t *testing.T) {
	s := newSite(t, nil)
	s.addFieldsOfALaterVersion("olvmmachines.infrastructure.cluster.x-k8s.io")

	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	id := m.Spec.ProviderID

	// The manager restores the provider ID in the spec. After the change of the memory, it writes the condition
	// UpToDate to the status.
	spec := []byte(`{"spec":{"ofALaterVersion":"spec","providerID":"","virtualMachine":{"memory":"9GB"}}}`)
	status := []byte(`{"status":{"ofALaterVersion":"status"}}`)

	s.Eventually("the fields are served", func() error {
		return errors.Join(
			s.Client.Status().Patch(t.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, status)),
			s.Client.Patch(t.Context(), m.DeepCopy(), client.RawPatch(types.MergePatchType, spec)),
			s.hasFieldsOfALaterVersion(m))
	})
	s.Eventually("the manager has worked on it", func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if m.Spec.ProviderID != id {
			return fmt.Errorf("the provider ID is %q", m.Spec.ProviderID)
		}

		return nil
	})
	s.ExpectCondition(m, infrav1.UpToDateCondition, "True/"+infrav1.UpToDateReason)
	check.Error(t, s.hasFieldsOfALaterVersion(m), "")
}

// addFieldsOfALaterVersion adds an optional field to spec and status of a CRD.
func (s *site) addFieldsOfALaterVersion(name string) {
	s.Eventually("the CRD has more fields", func() error {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")

		if err := s.Client.Get(s.T.Context(), client.ObjectKey{Name: name}, crd); err != nil {
			return err
		}

		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil || len(versions) != 1 {
			return fmt.Errorf("%d versions: %w", len(versions), err)
		}

		version, _ := versions[0].(map[string]any)

		for _, part := range []string{"spec", "status"} {
			path := []string{"schema", "openAPIV3Schema", "properties", part, "properties", "ofALaterVersion"}
			if err := unstructured.SetNestedMap(version, map[string]any{"type": "string"}, path...); err != nil {
				return err
			}
		}

		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			return err
		}

		return s.Client.Update(s.T.Context(), crd)
	})
}

// hasFieldsOfALaterVersion returns an error unless the API server has stored these fields.
func (s *site) hasFieldsOfALaterVersion(m *infrav1.OLVMMachine) error {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(infrav1.GroupVersion.WithKind("OLVMMachine"))

	if err := s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(m), stored); err != nil {
		return err
	}

	for _, part := range []string{"spec", "status"} {
		if value, _, _ := unstructured.NestedString(stored.Object, part, "ofALaterVersion"); value != part {
			return fmt.Errorf("%s has %q", part, value)
		}
	}

	return nil
}
