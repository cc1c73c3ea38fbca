package reliability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// electing are the flags of managers with a short lease. The lease is still long enough for a busy host.
var electing = []string{
	"--leader-elect",
	"--leader-elect-namespace=capolvm-system",
	"--leader-elect-lease-duration=30s",
	"--leader-elect-renew-deadline=25s",
	"--leader-elect-retry-period=500ms",
}

// standby starts a second manager for the same objects.
func (b *bench) standby(t *testing.T) *manager {
	t.Helper()
	other := newManager(t, append([]string{"--namespace=" + b.site.Namespace}, electing...)...)
	if err := other.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	return other
}

// on sets a trap at the first call to the engine with this name.
func (b *bench) on(name string, act func() bool) *trap {
	t := &trap{at: call{name: name, nth: 1}, act: act}
	b.engine.set(t)
	return t
}

// ends waits until a process ends.
func ends(t *testing.T, m *manager) {
	t.Helper()
	wait.Receive(t, "the manager has ended", m.Process.Done())
}

// TestALeaderThatWasHaltedDoesNoHarm halts the leader while a request to the engine is in progress. Another manager
// finishes the machine. Then the request reaches the engine, and the old leader resumes.
func TestALeaderThatWasHaltedDoesNoHarm(t *testing.T) {
	t.Parallel()

	for _, at := range []string{"POST /vms", "POST /vms/ID/nics", "POST /vms/ID/diskattachments",
		"POST /vms/ID/start"} {
		t.Run(at, func(t *testing.T) {
			if at != "POST /vms" {
				testenv.SkipInShort(t, "has two managers; another request is late in make test")
			}

			t.Parallel()
			b := newBench(t, withoutGroups, electing...)
			s := b.site.ForSubtest(t)
			made := make(chan struct{})
			halted := b.on(at, func() bool {
				_ = syscall.Kill(b.Process.PID(), syscall.SIGSTOP)
				<-made
				_ = syscall.Kill(b.Process.PID(), syscall.SIGCONT)

				return false
			})
			m := s.CreateMachine("one", full)
			<-halted.at.reached(t, b.engine)
			other := b.standby(t)
			b.expectReady(s, m)
			b.expectOne(s, m)
			close(made)
			ends(t, b.manager)
			wait.Receive(t, "what the old leader had under way is over", halted.sprung)
			old := b.manager
			b.manager = other
			b.end(s, m)
			wait.Until(t, "no process of the old leader is left", func() bool { return len(old.ListExecutors()) == 0 })
		})
	}
}

// TestALeaderThatLosesItsLeaseEndsBeforeTheNextOneActs disconnects the leader from the API server while the leader
// creates a machine.
func TestALeaderThatLosesItsLeaseEndsBeforeTheNextOneActs(t *testing.T) {
	t.Parallel()
	b := newBench(t, withoutGroups, electing...)
	s := b.site.ForSubtest(t)
	var early atomic.Bool
	lost := b.on("POST /vms/ID/nics", func() bool {
		b.api.cut(all)
		return false
	})
	m := s.CreateMachine("one", full)
	<-lost.at.reached(t, b.engine)
	other := b.standby(t)
	next := &trap{at: call{name: "PATCH olvmmachines/status", nth: 1}, act: func() bool {
		select {
		case <-b.Process.Done():
		default:
			early.Store(true)
		}

		return false
	}}
	other.api.set(next)
	ends(t, b.manager)
	wait.Receive(t, "the next leader acts", next.sprung)
	check.Equal(t, "the next leader acted before the last one had ended", early.Load(), false)

	b.manager = other
	b.end(s, m)
}

// TestAShutdownDuringARunSavesItsState sends SIGTERM while the engine creates a network interface.
func TestAShutdownDuringARunSavesItsState(t *testing.T) {
	t.Parallel()
	b := newBench(t, withoutGroups)
	s := b.site.ForSubtest(t)
	b.on("POST /vms/ID/nics", func() bool {
		_ = syscall.Kill(b.Process.PID(), syscall.SIGTERM)
		wait.Until(t, "the manager shuts down", func() bool {
			log, _ := os.ReadFile(b.Process.LogFile)
			return bytes.Contains(log, []byte("Stopping and waiting for"))
		})

		return false
	})
	m := s.CreateMachine("one", full)
	<-b.engine.trapped(t)
	ends(t, b.manager)
	store := &tfstate.Store{Client: s.Client, Reader: s.Client}
	state, err := store.Load(context.Background(), m)
	check.Error(t, err, "")
	check.Set(t, `state.ResourceID("ovirt_vm")`, state.ResourceID("ovirt_vm"))

	check.Equal(t, `len(state.Instances("ovirt_nic"))`, len(state.Instances("ovirt_nic")), 1)

	if left := b.ListExecutors(); len(left) != 0 {
		t.Errorf("processes left: %v", left)
	}

	if err := b.Start(context.Background()); err != nil {
		t.Fatal(err)
	}

	b.end(s, m)
}

// TestTheAPIServerIsAway disconnects the API server for longer than the manager tries to save. It does so for all
// objects, or only for some.
func TestTheAPIServerIsAway(t *testing.T) {
	t.Parallel()

	for name, away := range map[string]func(*http.Request) bool{
		"at all":              all,
		"for the states":      func(r *http.Request) bool { return strings.Contains(writeCall(r), "secrets") },
		"for the OLVMMachine": func(r *http.Request) bool { return strings.Contains(writeCall(r), "olvmmachines") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, withoutGroups)
			s := b.site.ForSubtest(t)
			b.on("POST /vms", func() bool {
				b.api.cut(away)
				return false
			})
			before := b.ended(t)
			m := s.CreateMachine("one", full)
			<-b.engine.trapped(t)
			wait.Until(t, "the run ends", func() bool { return b.ended(t) > before })
			b.api.cut(nil)
			b.end(s, m)
		})
	}
}

func TestAWorkingDirectoryThatVanishesIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, withoutGroups)
	s := b.site.ForSubtest(t)
	b.on("POST /vms/ID/nics", func() bool {
		if err := os.RemoveAll(filepath.Join(b.WorkDir(), s.Namespace)); err != nil {
			t.Error(err)
		}

		return false
	})
	m := s.CreateMachine("one", full)
	<-b.engine.trapped(t)
	b.end(s, m)
}

func TestAManagerWithoutExecutorSaysSoAndEnds(t *testing.T) {
	t.Parallel()
	b := newColdBench(t, withoutGroups)
	b.Executor = filepath.Join(t.TempDir(), "terraform")
	err := b.Start(context.Background())
	check.Error(t, err, b.Executor)
	check.Contains(t, "err.Error()", err.Error(), "CAPOLVM_TERRAFORM")
}

// TestWhatHappensBetweenPlanAndApply stops the executor after it has planned the change of a machine. For a new
// machine, one process plans and applies, because such a plan can do no harm.
func TestWhatHappensBetweenPlanAndApply(t *testing.T) {
	t.Parallel()
	untouched := func(b *bench, t *testing.T) {
		t.Helper()
		wait.Until(t, "the run has ended, and no other one is queued", func() bool { return b.jobs(t) == 0 })

		for _, c := range b.engine.seen() {
			if strings.HasPrefix(c.name, "PUT ") || strings.HasPrefix(c.name, "POST /vms") {
				t.Errorf("the engine got %s", c.name)
			}
		}
	}

	tests := map[string]struct {
		act  func(*testsite.Site, *infrav1.OLVMMachine)
		then func(*bench, *testsite.Site, *infrav1.OLVMMachine)
	}{
		"the machine is changed": {
			func(s *testsite.Site, m *infrav1.OLVMMachine) {
				testsite.UpdateObject(
					s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Description = "third" },
				)
			},
			func(b *bench, s *testsite.Site, m *infrav1.OLVMMachine) {
				b.expectDescription(s, m, "third")
				puts := slices.DeleteFunc(b.engine.seen(), func(c call) bool { return c.name != "PUT /vms/ID" })
				if len(puts) != 1 {
					s.T.Errorf("the VM was changed %d times", len(puts))
				}
			},
		},
		"the machine is paused": {
			func(s *testsite.Site, m *infrav1.OLVMMachine) {
				testsite.UpdateObject(s, m, func(m *infrav1.OLVMMachine) {
					metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.PausedAnnotation, "")
				})
			},
			func(b *bench, s *testsite.Site, m *infrav1.OLVMMachine) {
				untouched(b, s.T)
				testsite.UpdateObject(s, m, func(m *infrav1.OLVMMachine) {
					delete(m.Annotations, clusterv1.PausedAnnotation)
				})
				b.expectDescription(s, m, "second")
			},
		},
		"the machine is deleted": {
			func(s *testsite.Site, m *infrav1.OLVMMachine) { s.Delete(m) },
			func(b *bench, s *testsite.Site, m *infrav1.OLVMMachine) {
				s.ExpectGone(m)

				for _, c := range b.engine.seen() {
					if c.name == "PUT /vms/ID" {
						s.T.Errorf("the engine got %s", c.name)
					}
				}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newColdBench(t, withoutGroups)
			dir := t.TempDir()
			planned, goOn := filepath.Join(dir, "planned"), filepath.Join(dir, "go")
			first := func(spec *infrav1.OLVMMachineSpec) {
				full(spec)
				spec.VirtualMachine.Description = "first"
			}
			b.Executor = filepath.Join(dir, "terraform")
			script := fmt.Sprintf(
				"#!/bin/sh\ncase $1 in plan) ;; *) exec %[1]s \"$@\";; esac\n%[1]s \"$@\"\ncode=$?\ntouch "+
					"%[2]s\nwhile [ ! -e %[3]s ]; do sleep 0.1; done\nexit $code\n",
				suite.Program.Executor.Path, planned, goOn,
			)
			if err := os.WriteFile(b.Executor, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}

			if err := b.Start(t.Context()); err != nil {
				t.Fatal(err)
			}

			s := b.site.ForSubtest(t)
			m := s.CreateMachine("one", first)
			b.expectReady(s, m)
			b.engine.set(nil)
			testsite.UpdateObject(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Description = "second" })
			s.Eventually("the plan is made", func() error {
				_, err := os.Stat(planned)
				return err
			})
			test.act(s, m)
			if err := os.WriteFile(goOn, nil, 0o600); err != nil {
				t.Fatal(err)
			}

			test.then(b, s, m)
			if m.DeletionTimestamp.IsZero() && name != "the machine is deleted" {
				s.Delete(m)
				s.ExpectGone(m)
			}

			b.expectNone(s)
		})
	}
}

// expectDescription waits until the VM has a description.
func (b *bench) expectDescription(s *testsite.Site, m *infrav1.OLVMMachine, want string) {
	s.T.Helper()
	session := s.NewSession()
	s.Eventually("the description of the VM", func() error {
		vm, err := session.FetchVM(context.Background(), engine.ID(strings.TrimPrefix(m.Spec.ProviderID, "olvm://")))
		if err != nil {
			return err
		}

		if got := vm.DescriptionText(); got != want {
			return fmt.Errorf("it is %q", got)
		}

		return nil
	})
	b.expectReady(s, m)
}

// reached returns a channel that closes after the gate has seen the call.
func (c call) reached(t *testing.T, g *gate) <-chan struct{} {
	t.Helper()
	out := make(chan struct{})
	go func() {
		defer close(out)

		for t.Context().Err() == nil {
			for _, seen := range g.seen() {
				if seen == c {
					return
				}
			}

			time.Sleep(10 * time.Millisecond)
		}
	}()

	return out
}

// trapped returns a channel that closes after the trap of the gate has sprung. It fails the test if no trap is set.
func (g *gate) trapped(t *testing.T) <-chan struct{} {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		t.Fatal(errors.New("no trap is set"))
	}

	return g.last.sprung
}

// TestASlowEngineSlowsNobodyElse uses an engine that takes twenty seconds for each answer. This engine has more
// machines than the manager has parallel passes and runs. A machine of another engine must be finished before all of
// these, because each of them needs several answers.
func TestASlowEngineSlowsNobodyElse(t *testing.T) {
	testenv.SkipInShort(t, "makes many machines at an engine that answers slowly")
	t.Parallel()
	slow := newShard(t, "slow-engine", "--olvmmachine-concurrency=4", "--terraform-concurrency=2")
	swift := slow.newSite(t, nil)
	first := swift.CreateMachine("first", nil) // the manager then knows both engines
	slow.expectReady(swift, first)
	slow.site.ExpectCondition(slow.site.OLVM, infrav1.ReadyCondition, "True/Ready")
	if err := slow.site.Sim.Inject(ovirtsim.Fault{Path: "^/", DelayMillis: 20_000}); err != nil {
		t.Fatal(err)
	}

	before := slow.passes(t, "olvmmachine")

	var waiting []*infrav1.OLVMMachine
	for i := range 8 {
		waiting = append(waiting, slow.site.CreateMachine(fmt.Sprintf("slow-%d", i), nil))
	}

	// Passes that find no free slot at the engine end, and are tried again later.
	wait.Until(t, "the manager is at the slow engine, and its other machines have come again and again", func() bool {
		return slow.site.Sim.CountHits() > 0 && slow.passes(t, "olvmmachine") > before+float64(3*len(waiting))
	})
	second := swift.CreateMachine("second", nil)
	slow.expectReady(swift, second)

	for _, m := range waiting {
		if err := slow.site.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}

		if m.Status.Initialization.Provisioned != nil && *m.Status.Initialization.Provisioned {
			t.Errorf("%s of the slow engine was made before", m.Name)
		}
	}

	slow.site.Sim.ClearFaults()

	for _, m := range waiting {
		slow.expectReady(slow.site, m)
	}
}

// TestManyMachinesAtARestart kills a manager while many machines are being created, and again after all exist. The
// command make bench uses a thousand machines.
func TestManyMachinesAtARestart(t *testing.T) {
	testenv.SkipInShort(t, "makes many machines")
	t.Parallel()
	const many = 40
	b := newBench(t, withoutGroups)
	s := b.site

	var machines []*infrav1.OLVMMachine
	for i := range many {
		machines = append(machines, s.CreateMachine(fmt.Sprintf("many-%d", i), func(spec *infrav1.OLVMMachineSpec) {
			spec.VirtualMachine.Memory = "1GB"
			spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10-10.0.0.99"}
		}))
	}

	s.Eventually("a third is made", func() error {
		if n := s.Sim.Summarize().VMs; n < many/3 {
			return fmt.Errorf("%d are", n)
		}

		return nil
	})
	restart := func() {
		t.Helper()
		b.Process.Kill()
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	restart()

	for _, m := range machines {
		b.expectReady(s, m)
	}

	if n := s.Sim.Summarize().VMs; n != many {
		t.Errorf("the engine has %d VMs for %d machines", n, many)
	}

	b.engine.set(nil)
	restart()
	s.Eventually("all are looked at", func() error {
		looks := testsite.SumSeries(
			b.ScrapeMetrics(t)["controller_runtime_reconcile_total"], `controller="olvmmachine"`,
		)
		if looks < many {
			return fmt.Errorf("%.0f looks", looks)
		}

		return nil
	})
	if runs := b.ScrapeMetrics(t)["capolvm_terraform_runs_total"]; len(runs.GetMetric()) != 0 {
		t.Errorf("Terraform ran after the restart: %v", runs)
	}

	calls := b.engine.seen()
	for _, c := range calls {
		if !strings.HasPrefix(c.name, "GET ") && !strings.Contains(c.name, "/sso/") {
			t.Errorf("the engine got %s", c)
		}
	}

	if len(calls) > many {
		t.Errorf("%d calls to the engine for %d machines that want nothing", len(calls), many)
	}

	for _, m := range machines {
		s.Delete(m)
	}

	for _, m := range machines {
		s.ExpectGone(m)
	}

	b.expectNone(s)
}

// confine starts the manager as the Deployment does. The manager is not root, has no capabilities, and can write only
// to the work directory and to /tmp. The script's arguments are the path of the manager and the manager's arguments. It
// fills the new /tmp next to the old one, because the files to copy may be in the old one.
const confine = `set -eu
program=$1; shift
mount --make-rprivate /
new=$(mktemp -d -p "$(dirname "$program")")
mount -t tmpfs tmpfs "$new"
mkdir "$new/program" "$new/work"
cp "$program" "$new/program/manager"
cp "$CAPOLVM_TERRAFORM" "$new/program/executor"
for arg do
  shift
  case $arg in
  --kubeconfig=*) cp "${arg#*=}" "$new/program/kubeconfig"; arg=--kubeconfig=/tmp/program/kubeconfig;;
  --work-dir=*) arg=--work-dir=/tmp/work;;
  esac
  set -- "$@" "$arg"
done
chown -R 65532:65532 "$new/program" "$new/work"
chmod 1777 "$new"
mount --move "$new" /tmp
mount -o remount,bind,ro /
export CAPOLVM_TERRAFORM=/tmp/program/executor HOME=/ TMPDIR=/tmp
unset XDG_CACHE_HOME
cd /
exec setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all /tmp/program/manager "$@"
`

// TestTheManagerNeedsNeitherRootNorADiskToWriteTo creates and deletes a machine under the restrictions of the shipped
// Deployment.
func TestTheManagerNeedsNeitherRootNorADiskToWriteTo(t *testing.T) {
	t.Parallel()
	err := exec.Command("unshare", "--mount", "mount", "--make-rprivate", "/").Run()
	if os.Getuid() != 0 || err != nil {
		t.Skipf("only root that may mount can take rights away in this way: %v", err)
	}

	b := newColdBench(t, withoutGroups)
	b.Wrapper = []string{"unshare", "--mount", "sh", "-c", confine, "confine"}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Process.PID()))
	check.Error(t, err, "")
	check.Contains(t, "string(status)", string(status), "Uid:\t65532\t65532\t65532\t65532")
	check.Contains(t, "string(status)", string(status), "CapBnd:\t0000000000000000")

	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", b.Process.PID()))
	if err != nil || !regexp.MustCompile(`(?m)^\S+ / \S+ ro[, ]`).Match(mounts) {
		t.Errorf("its file systems are %s, %v", mounts, err)
	}

	b.life(t, "one")
	var deployment struct {
		Spec struct {
			Template struct{ Spec corev1.PodSpec }
		}
	}
	documents := strings.Split(string(read(t, "config", "manager", "manager.yaml")), "\n---\n")
	if err := yaml.Unmarshal([]byte(documents[len(documents)-1]), &deployment); err != nil {
		t.Fatal(err)
	}

	container := deployment.Spec.Template.Spec.Containers[0].SecurityContext
	check.Equal(t, "*container.RunAsNonRoot", *container.RunAsNonRoot, true)
	check.Equal(t, "*container.ReadOnlyRootFilesystem", *container.ReadOnlyRootFilesystem, true)
	check.Equal(t, "*container.AllowPrivilegeEscalation", *container.AllowPrivilegeEscalation, false)
	check.Equal(t, "container.Capabilities.Drop[0]", container.Capabilities.Drop[0], "ALL")
}
