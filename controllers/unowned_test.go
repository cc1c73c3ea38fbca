package controllers

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// stray creates an OLVMMachine without an owning Machine.
func (s *site) stray(name string) *infrav1.OLVMMachine {
	s.T.Helper()
	out := &infrav1.OLVMMachine{ObjectMeta: s.NewMeta(name), Spec: s.MachineSpec()}
	s.Create(out)

	return out
}

// TestAnOLVMMachineThatNoMachineOwnsSaysSo covers an OLVMMachine created by hand.
func TestAnOLVMMachineThatNoMachineOwnsSaysSo(t *testing.T) {
	s := newSite(t, nil)
	m := s.stray("stray")
	message := s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.NoMachineReason)
	check.Contains(t, "message", message, "No Machine owns this OLVMMachine")
	check.Length(t, "VMs", s.Sim.ListVMs(), 0)

	// The OLVMMachine does not block the deletion of its cluster.
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)
	s.Delete(m)
	s.ExpectGone(m)
}

// TestAClusterNamesTheMachinesThatNobodyDeletes covers a machine with a VM but without its Machine, as after a restore.
// It follows the remedy in the message.
func TestAClusterNamesTheMachinesThatNobodyDeletes(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("lost", nil)
	s.ExpectProvisioned(m)
	change(s, m, func(m *infrav1.OLVMMachine) { m.OwnerReferences = nil })
	s.Delete(s.OLVM)

	message := s.ExpectCondition(s.OLVM, infrav1.DeletingCondition, "True/"+infrav1.WaitingForMachinesDeletionReason)
	check.Contains(t, "message", message,
		"Without an owning Machine, no controller deletes lost. Run: kubectl -n "+s.Namespace+
			" delete olvmmachine lost")

	check.Error(t, s.Client.Delete(t.Context(), m), "")
	s.ExpectGone(m)
	s.ExpectGone(s.OLVM)
	check.Error(t, client.IgnoreNotFound(s.Client.Delete(t.Context(), s.OLVM)), "")
	s.ExpectEmptyEngine()
}
