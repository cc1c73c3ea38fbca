package controllers

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// useEngine makes the OLVMCluster and its credentials refer to another engine, as a wrong Kustomize overlay may do.
func useEngine(s *site, sim *ovirtsim.Server) {
	s.T.Helper()
	change(s, &corev1.ConfigMap{ObjectMeta: s.NewMeta("ca")}, func(ca *corev1.ConfigMap) {
		ca.Data = map[string]string{"ca.crt": string(sim.CA())}
	})
	change(s, &corev1.Secret{ObjectMeta: s.NewMeta("creds")}, func(secret *corev1.Secret) {
		secret.Data["password"] = []byte(sim.Password())
		secret.Data[infrav1.AllowedServerURLsKey] = []byte(sim.URL())
	})
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.OLVMOvirtAPIServer.ServerURL = sim.URL() })
}

// TestAnotherEngineLosesNothing covers a serverURL that reaches another engine with the same credentials.
func TestAnotherEngineLosesNothing(t *testing.T) {
	s := newSite(t, nil)
	other, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(other.Close)

	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.Eventually("the engine is recorded", func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		if s.OLVM.Status.OLVMDatacenter == nil || s.OLVM.Status.OLVMDatacenter.EngineID == "" {
			return fmt.Errorf("status.olvmDatacenter is %v", s.OLVM.Status.OLVMDatacenter)
		}

		return nil
	})

	recorded := s.OLVM.Status.OLVMDatacenter.EngineID
	useEngine(s, other)

	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineChangedReason)
	check.Contains(t, "message", message, recorded)
	check.Contains(t, "message", message, infrav1.AcceptEngineAnnotation+"=")
	check.Contains(t, "message", message, "spec.olvmOvirtAPIServer.serverURL")

	// The deletion of a machine now waits, and a new machine is not created.
	second := s.CreateMachine("two", nil)
	s.ExpectCondition(second, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.WaitingForEngineReason)
	s.Delete(m)
	s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.WaitingForEngineReason)
	check.Length(t, "VMs of the first engine", s.Sim.ListVMs(), 1)
	check.Length(t, "VMs of the other engine", other.ListVMs(), 0)

	useEngine(s, s.Sim)
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	s.ExpectProvisioned(second)
	s.ExpectGone(m)
	check.Length(t, "VMs of the first engine", s.Sim.ListVMs(), 1)
	check.Length(t, "VMs of the other engine", other.ListVMs(), 0)
}

// TestARebuiltEngineIsAccepted covers an administrator who confirms the other engine.
func TestARebuiltEngineIsAccepted(t *testing.T) {
	s := newSite(t, nil)
	other, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(other.Close)

	s.ExpectProvisioned(s.CreateMachine("zero", nil)) // its data center gets another ID than the other engine's
	useEngine(s, other)
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineChangedReason)
	_, id, found := strings.Cut(message, infrav1.AcceptEngineAnnotation+"=")
	check.Equal(t, "the message has the annotation", found, true)

	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Annotations = map[string]string{infrav1.AcceptEngineAnnotation: id}
	})
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	check.Equal(t, "the engine that is recorded", s.OLVM.Status.OLVMDatacenter.EngineID, id)
	s.ExpectProvisioned(s.CreateMachine("one", nil))
	check.Length(t, "VMs of the other engine", other.ListVMs(), 1)

	// The other engine is now the recorded one, so the first engine is refused.
	useEngine(s, s.Sim)
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineChangedReason)
	useEngine(s, other)
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
}

// TestAnEngineThatWasRestoredLosesNothing covers an engine whose restored database lacks the machine and the last
// recorded event. An administrator then decides to continue with this engine.
func TestAnEngineThatWasRestoredLosesNothing(t *testing.T) {
	folder, backup := t.TempDir(), t.TempDir()
	start := func(folder string) *ovirtsim.Server {
		sim, err := ovirtsim.New(ovirtsim.Options{StateFolder: folder})
		check.Error(t, err, "")
		t.Cleanup(sim.Close)

		return sim
	}
	first := start(folder)
	first.Close()
	check.Error(t, os.CopyFS(backup, os.DirFS(folder)), "")

	first = start(folder)
	s := newSite(t, func(secret *corev1.Secret, ca *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		secret.StringData["password"] = first.Password()
		secret.StringData[infrav1.AllowedServerURLsKey] = first.URL()
		ca.Data["ca.crt"] = string(first.CA())
		c.Spec.OLVMOvirtAPIServer.ServerURL = first.URL()
	})
	m := s.CreateMachine("one", nil)
	s.Eventually("the VM is made", func() error {
		if len(first.ListVMs()) == 0 {
			return errors.New("the engine has none")
		}

		return s.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)
	})
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	s.makeRecordDue()

	first.Close()
	restored := start(backup)
	useEngine(s, restored)

	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineRestoredReason)
	check.Contains(t, "message", message, "its database was restored to an earlier time")
	second := s.CreateMachine("two", nil)
	s.ExpectCondition(second, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.WaitingForEngineReason)
	check.Length(t, "VMs of the restored engine", restored.ListVMs(), 0)
	check.Error(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m), "")
	check.Equal(t, "the machine counts as lost",
		conditions.GetReason(m, infrav1.VirtualMachineRunningCondition) == infrav1.VirtualMachineNotFoundReason, false)

	_, id, found := strings.Cut(message, infrav1.AcceptEngineAnnotation+"=")
	check.Equal(t, "the message has the annotation", found, true)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Annotations = map[string]string{infrav1.AcceptEngineAnnotation: id}
	})
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	check.Equal(t, "the event is forgotten", s.OLVM.Status.OLVMDatacenter.LastEvent.Gone, false)
}

// makeRecordDue makes the controller record the newest event, as if an hour had passed.
func (s *site) makeRecordDue() {
	s.T.Helper()

	before := int64(0)

	s.Eventually("the record is an hour old", func() error {
		if err := s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		last := s.OLVM.Status.OLVMDatacenter.LastEvent
		if last == nil {
			return errors.New("there is none")
		}

		before, last.Recorded = last.ID, metav1.NewTime(time.Now().Add(-2*time.Hour))

		return s.Client.Status().Update(s.T.Context(), s.OLVM)
	})
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { // starts a pass
		c.Annotations = map[string]string{"example.com/look": "again"}
	})
	s.Eventually("the newest event is recorded", func() error {
		if err := s.Client.Get(s.T.Context(), client.ObjectKeyFromObject(s.OLVM), s.OLVM); err != nil {
			return err
		}

		if last := s.OLVM.Status.OLVMDatacenter.LastEvent; last.ID <= before {
			return fmt.Errorf("event %d is recorded, %d was before", last.ID, before)
		}

		return nil
	})
}
