package controllers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// TestTheStateOfAMachineThatIsLetGoGoesToo follows the remedy to keep a VM: it removes the finalizer of the machine.
// The state may be deleted before or after that, by the garbage collector or with the namespace. The test deletes it,
// because no garbage collector runs here.
func TestTheStateOfAMachineThatIsLetGoGoesToo(t *testing.T) {
	s := newSite(t, nil)

	for name, stateFirst := range map[string]bool{"one": false, "two": true} {
		m := s.CreateMachine(name, nil)
		s.ExpectProvisioned(m)

		states := s.ListStates()
		check.Equal(t, "states", len(states), 1)
		secret := &states[0]

		if stateFirst {
			s.Delete(secret)
		}

		_, err := s.NewSession().UpdateVM(t.Context(), engine.ID(strings.TrimPrefix(m.Spec.ProviderID, "olvm://")),
			&engine.VM{Comment: new("kept by an administrator")})
		check.Error(t, err, "")
		s.Delete(m)

		message := s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.DeletionBlockedReason)
		check.Contains(t, "remedy", message, "To keep it, remove the finalizer "+infrav1.MachineFinalizer)
		change(s, m, func(m *infrav1.OLVMMachine) { m.Finalizers = nil })
		s.ExpectGone(m)

		if !stateFirst {
			s.Delete(secret)
		}

		s.Eventually("the state of "+name+" goes", func() error {
			err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
			if apierrors.IsNotFound(err) {
				return nil
			}

			return fmt.Errorf("it is there: %w", err)
		})
	}

	check.Length(t, "VMs that are kept", s.Sim.ListVMs(), 2)
}

// TestTheStateOfAMachineThatIsThereStays deletes the state of a running machine.
func TestTheStateOfAMachineThatIsThereStays(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.Delete(&s.ListStates()[0])

	check.Equal(t, "states while the machine is there", len(s.ListStates()), 1)
	s.Delete(m)
	s.ExpectGone(m)
	check.Length(t, "VMs", s.Sim.ListVMs(), 0)
	check.Equal(t, "states", len(s.ListStates()), 0)
}

// TestAStateThatIsRestoredBeforeItsObjectStays covers a state whose owner does not exist yet. The garbage collector
// deletes such a Secret.
func TestAStateThatIsRestoredBeforeItsObjectStays(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)

	restored := s.ListStates()[0].DeepCopy()
	restored.ObjectMeta = metav1.ObjectMeta{
		Namespace: restored.Namespace, Name: "tfstate-default-two", Labels: restored.Labels,
		Annotations: restored.Annotations, Finalizers: restored.Finalizers, OwnerReferences: restored.OwnerReferences,
	}
	restored.OwnerReferences[0].Name, restored.OwnerReferences[0].UID = "two", "of-the-backup"
	s.Create(restored)
	s.Delete(restored)

	// Once the controller has handled a later state, it has handled this one.
	s.Delete(&s.ListStates()[0])
	s.Delete(m)
	s.ExpectGone(m)
	check.Error(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(restored), restored), "")
	check.Equal(t, "finalizers", restored.Finalizers, []string{tfstate.Finalizer})

	change(s, restored, func(secret *corev1.Secret) { secret.Finalizers = nil })
}
