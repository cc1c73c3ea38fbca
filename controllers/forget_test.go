package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// joins makes a machine a node. It writes the status that Cluster API would write.
func (s *site) joins(m *infrav1.OLVMMachine) {
	s.T.Helper()

	var machine clusterv1.Machine
	check.Error(s.T, suite.client.Get(context.Background(), client.ObjectKeyFromObject(m), &machine), "")
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: m.Name}
	check.Error(s.T, suite.client.Status().Update(context.Background(), &machine), "")
}

// keeps lists the places that still contain a text of a machine's user data: the engine, the state, and files of the
// working directory.
func (s *site) keeps(m *infrav1.OLVMMachine, text string) []string {
	s.T.Helper()
	var out []string

	if script := s.inspect(m.Name).vm.Initialization; script != nil && strings.Contains(script.CustomScript, text) {
		out = append(out, "the engine")
	}

	for _, secret := range s.ListStates() {
		state, err := tfstate.DecodeSecret(&secret)
		check.Error(s.T, err, "")

		if strings.Contains(string(state.Bytes()), text) {
			out = append(out, "the state")
		}
	}

	err := filepath.WalkDir(filepath.Join(suite.workDir, s.Namespace), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), text) {
			out = append(out, path)
		}

		return err
	})
	check.Error(s.T, err, "")

	return out
}

// TestUserDataIsTakenAwayWhenItsVMIsANode looks for the user data of a node in places that others can read. The host
// name and the addresses must stay in the engine, because the manager may need them. The VM and the state stay, too.
func TestUserDataIsTakenAwayWhenItsVMIsANode(t *testing.T) {
	const secret = "a-key-of-the-cluster"

	s := newSite(t, nil)
	s.UserData = "#cloud-config\nwrite_files: [{path: /etc/key, content: " + secret + "}]\n"
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.ExpectCondition(m, infrav1.UserDataRemovedCondition, "False/"+infrav1.WaitingForNodeReason)

	check.Equal(t, "before it is a node", s.keeps(m, secret), []string{"the engine", "the state"})

	before := s.inspect("one")
	boots := s.boots()["one"]
	serial := m.Status.Terraform.StateSerial

	s.joins(m)
	s.ExpectCondition(m, infrav1.UserDataRemovedCondition, "True/"+infrav1.UserDataRemovedReason)
	check.Length(t, "what keeps it", s.keeps(m, secret), 0)

	after := s.inspect("one")
	check.Equal(t, "host name", after.vm.Initialization.HostName, before.vm.Initialization.HostName)
	check.Equal(t, "addresses", after.vm.Initialization.NICs, before.vm.Initialization.NICs)
	check.Equal(t, "changes wait", after.vm.ChangesWait, false)
	check.Equal(t, "boots", s.boots()["one"], boots)

	// The engine still has the record of its addresses. The removal needs no run.
	s.Eventually("the state's serial is one more", func() error {
		check.Error(t, suite.client.Get(context.Background(), client.ObjectKeyFromObject(m), m), "")

		if m.Status.Terraform.StateSerial != serial+1 || m.Status.Terraform.Runs != 1 {
			return fmt.Errorf(
				"serial %d after %d, runs %d", m.Status.Terraform.StateSerial, serial, m.Status.Terraform.Runs,
			)
		}

		return nil
	})

	// A later run finds the expected state: the VM stays unchanged.
	s.rerun(m)
	check.Equal(t, "the VM", s.inspect("one").vm.ID, before.vm.ID)
	check.Length(t, "what keeps it after another run", s.keeps(m, secret), 0)
}

// rerun changes the configuration of a machine, and waits until a run has applied it.
func (s *site) rerun(m *infrav1.OLVMMachine) {
	s.T.Helper()
	_, err := s.NewSession().CreateTag(s.T.Context(), &engine.Tag{Name: "later"})
	check.Error(s.T, err, "")

	patched := m.DeepCopy()
	patched.Spec.VirtualMachine.Tags = append(patched.Spec.VirtualMachine.Tags, "later")
	check.Error(s.T, suite.client.Patch(context.Background(), patched, client.MergeFrom(m)), "")
	s.Eventually("it was applied again", func() error {
		check.Error(s.T, suite.client.Get(context.Background(), client.ObjectKeyFromObject(m), m), "")

		if m.Status.Terraform.Runs != 2 || m.Status.Terraform.LastRun.Result != "Succeeded" {
			return fmt.Errorf("%+v", m.Status.Terraform)
		}

		return nil
	})

	for _, change := range m.Status.Terraform.LastRun.Changes {
		if strings.HasSuffix(change, " ovirt_vm.this") {
			s.T.Errorf("the run would %s", change)
		}
	}
}

// TestUserDataThatCannotBeTakenAway covers an engine that fails at first.
func TestUserDataThatCannotBeTakenAway(t *testing.T) {
	skipProved(t, "TestUserDataThatTheEngineKeeps of controllers/machine")

	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	before := s.inspect("one").vm.Initialization
	check.Error(t, s.Sim.Inject(ovirtsim.Fault{
		Method: "PUT", Path: "/api/vms/[^/]+$", Status: 409, Count: 1, Reason: "Operation Failed", Detail: "not now",
	}), "")
	// The removal also removes other data. That data must be written again, even if the engine fails at first.
	check.Error(
		t, s.Sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "/api/vms/[^/]+$", Status: 503, Nth: 3, Count: 2}), "",
	)
	s.joins(m)

	message := s.ExpectCondition(m, infrav1.UserDataRemovedCondition, "False/"+infrav1.UserDataNotRemovedReason)
	if !strings.Contains(message, "not now") {
		t.Error(errors.New(message))
	}

	s.ExpectCondition(m, infrav1.UserDataRemovedCondition, "True/"+infrav1.UserDataRemovedReason)

	after := s.inspect("one").vm.Initialization
	check.Equal(t, "host name", after.HostName, before.HostName)
	check.Equal(t, "addresses", after.NICs, before.NICs)
	check.Equal(t, "user data", after.CustomScript, "")
}
