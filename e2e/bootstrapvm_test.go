package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// bootstrapping is the journey of a user who starts clusters from a bootstrap VM.
type bootstrapping struct {
	*journey
	// inVM is the management plane in the bootstrap VM. own is the management plane in the cluster itself.
	inVM, own *simplane.Plane
}

// killed runs olvmctl, and kills it as soon as is returns true. This is like a power cut of the laptop.
func (b *bootstrapping) killed(when string, is func() bool, args ...string) {
	b.t.Helper()
	b.ended(ending{signal: os.Kill}, when, is, args...)
}

func (b *bootstrapping) vmName() string { return b.name + "-bootstrap" }

// idOf returns the ID of a VM whose name has this prefix, or "" if the engine has no such VM.
func (b *bootstrapping) idOf(prefix string) string {
	for id, vm := range b.vms() {
		if strings.HasPrefix(vm.Name, prefix) {
			return id
		}
	}

	return ""
}

func (b *bootstrapping) key() client.ObjectKey {
	return client.ObjectKey{Namespace: b.namespace, Name: b.name}
}

// moves reports whether an unfinished move has already created the Cluster in a plane.
func (b *bootstrapping) moves(in *simplane.Plane) bool {
	var cluster clusterv1.Cluster
	err := in.Client.Get(b.t.Context(), b.key(), &cluster)

	return err == nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
}

// movesLast reports whether an unfinished move has already removed an object of the cluster from the bootstrap VM.
func (b *bootstrapping) movesLast() bool {
	var machines clusterv1.MachineList
	err := b.inVM.Client.List(b.t.Context(), &machines, client.InNamespace(b.namespace))

	return err == nil && len(machines.Items) < 2 && b.moves(b.own)
}

// startArgs returns the arguments that start the cluster with a bootstrap VM.
func (b *bootstrapping) startArgs() []string {
	return []string{"start", "-f", b.file, "--bootstrap", "vm", "--timeout", patience}
}

// interruptedOnce starts the cluster, but kills olvmctl during the creation of the bootstrap VM.
func (b *bootstrapping) interruptedOnce() {
	b.t.Helper()
	b.killed("the bootstrap VM", func() bool { return b.idOf(b.vmName()) != "" }, b.startArgs()...)
}

// folder returns olvmctl's folder for facts about the bootstrap VM.
func (b *bootstrapping) folder() string { return filepath.Join(b.dir, "capolvm", "bootstrap") }

// expectNothingLeft verifies that no VMs, no records of the bootstrap VM and no Cluster are left.
func (b *bootstrapping) expectNothingLeft() {
	b.t.Helper()

	for _, vm := range b.vms() {
		b.t.Errorf("VM %s is left", vm.Name)
	}

	left, err := filepath.Glob(filepath.Join(b.folder(), "*", "*", "*"))
	if err != nil || len(left) > 0 {
		b.t.Errorf("files are left: %v, %v", left, err)
	}

	for _, in := range []*simplane.Plane{b.inVM, b.own} {
		if err := in.Client.Get(b.t.Context(), b.key(), &clusterv1.Cluster{}); !apierrors.IsNotFound(err) {
			b.t.Errorf("a Cluster is left: %v", err)
		}
	}
}

// TestABootstrapVMSurvivesAKillAtEachStage (row 20) starts a cluster from a bootstrap VM, and kills olvmctl at each
// stage. It also deletes clusters that were abandoned at these stages.
func TestABootstrapVMSurvivesAKillAtEachStage(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster from a bootstrap VM, which is killed at each stage")
	t.Parallel()
	own := secondPlane(t, "own-of-vm")
	b := &bootstrapping{inVM: suite.plane, own: own}
	b.journey = newJourney(t, own, "--workload-kubeconfig=127.20.84.19:6443="+suite.plane.Kubeconfig)

	b.clusterFile("booted", 84, 1, "")
	b.expectStarts()
	b.does("delete", b.name, "-n", b.namespace, "--kubeconfig", filepath.Join(b.dir, ".kube", "kubeconfig."+b.name),
		"--to-kubeconfig", suite.plane.Kubeconfig, "--timeout", patience, "--yes")
	b.expectNothingLeft()

	b.clusterFile("early", 84, 1, "")
	b.interruptedOnce()
	_, problems := b.does("delete", b.name, "-n", b.namespace, "--yes")
	check.Contains(t, "what delete says", problems, "Removing the bootstrap VM early-bootstrap")
	b.expectNothingLeft()

	for _, by := range []ending{{signal: os.Interrupt}, {signal: os.Interrupt, again: true}} {
		b.clusterFile("stopped", 84, 1, "")
		b.ended(by, "the bootstrap VM", func() bool { return b.idOf(b.vmName()) != "" }, b.startArgs()...)
		b.does("delete", b.name, "-n", b.namespace, "--yes")
		b.expectNothingLeft()
	}

	b.clusterFile("middle", 84, 1, "")
	b.killed("a machine", func() bool { return b.idOf("middle-control-plane") != "" }, b.startArgs()...)
	b.does("delete", "-f", b.file, "--timeout", patience, "--yes")
	b.expectNothingLeft()

	b.clusterFile("late", 84, 1, "")
	b.killed("the move", func() bool { return b.moves(b.own) }, b.startArgs()...)
	b.does("delete", b.name, "--timeout", patience, "--yes")
	b.expectNothingLeft()
}

// expectStarts starts the cluster until it manages itself, even after interruptions.
func (b *bootstrapping) expectStarts() {
	b.t.Helper()
	b.interruptedOnce()
	first := b.idOf(b.vmName())

	aMachine := func() bool { return b.idOf(b.name+"-control-plane") != "" }
	b.killed("a machine", aMachine, b.startArgs()...)
	check.Equal(b.t, "the bootstrap VM after a second start", b.idOf(b.vmName()), first)

	said := b.ended(ending{signal: os.Interrupt}, "a machine", aMachine, b.startArgs()...)
	check.Contains(b.t, "what start says", said, "to resume, run: olvmctl start")
	b.ended(ending{signal: os.Interrupt, again: true}, "a machine", aMachine, b.startArgs()...)
	b.ended(ending{signal: os.Interrupt, again: true}, "the move", func() bool { return b.moves(b.own) }, b.startArgs()...)

	b.killed("the end of the move", b.movesLast, "start", "-f", b.file, "--timeout", patience)
	check.Equal(b.t, "the bootstrap VM in the move", b.idOf(b.vmName()), first)
	before := b.vms()

	out, problems := b.does(append(b.startArgs(), "-o", "json")...)
	b.t.Log(problems)
	check.Contains(b.t, "what start says", out, `"nodes": 2`)
	check.Contains(b.t, "what start says", problems, "Removing the bootstrap VM booted-bootstrap")

	after := b.vms()
	check.Equal(b.t, "VMs after the start", len(after), 2)

	for id, vm := range after {
		check.Equal(b.t, "when VM "+vm.Name+" was started", before[id].StartTime, vm.StartTime)
	}

	var cluster clusterv1.Cluster
	check.Error(b.t, b.own.Client.Get(b.t.Context(), b.key(), &cluster), "")
	check.Equal(b.t, "whether it is paused", cluster.Spec.Paused != nil && *cluster.Spec.Paused, false)

	// The completion of an interrupted move leaves objects in the VM until the VM is deleted. In this test, the plane
	// in the VM keeps running.
	err := b.inVM.Client.Get(b.t.Context(), b.key(), &cluster)
	if !apierrors.IsNotFound(err) && !b.moves(b.inVM) {
		b.t.Errorf("the bootstrap VM manages the Cluster still: %v", err)
	}

	if _, err := os.Stat(filepath.Join(b.folder(), b.namespace)); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("what is kept of the bootstrap VM is left: %v", err)
	}
}
