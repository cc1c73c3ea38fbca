package enginepool

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestVMWatcherWakesTheMachinesWhoseVMHasChanged watches many VMs of one engine. One of them starts, and one is
// deleted.
func TestVMWatcherWakesTheMachinesWhoseVMHasChanged(t *testing.T) {
	var lists atomic.Int32
	sim, err := ovirtsim.New(ovirtsim.Options{
		Timings: ovirtsim.Timings{
			Clone:     time.Millisecond,
			Launch:    time.Millisecond,
			PowerUp:   time.Millisecond,
			PowerDown: time.Millisecond,
		},
		Gate: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/vms") {
					lists.Add(1)
				}

				next.ServeHTTP(w, r)
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	session, err := engine.New(engine.Config{
		URL:      sim.URL(),
		Username: sim.Username(),
		Password: sim.Password(),
		CA:       sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	pool := &Registry{}
	woken := make(chan string, 100)
	f := &VMWatcher[types.NamespacedName]{Engines: pool, Wake: func(key types.NamespacedName) { woken <- key.Name }}
	dc, err := session.FindDataCenter(ctx, "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := session.FindCluster(ctx, dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	const machines = 20
	ids := map[string]string{}

	for i := range machines {
		name := fmt.Sprintf("vm-%d", i)
		vm, err := session.CreateVM(ctx, &engine.VM{
			Name:     name,
			Cluster:  engine.NewRef(cluster.ID),
			Template: engine.NewRef(engine.BlankTemplateID),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}

		ids[name] = vm.ID.String()
	}

	wait.For(t, "all VMs are made", func() error {
		for _, vm := range sim.ListVMs() {
			if vm.Status != "down" {
				return fmt.Errorf("%s is %s", vm.Name, vm.Status)
			}
		}

		return nil
	})

	for name, id := range ids {
		vm, err := pool.GetVM(ctx, session, engine.ID(id), time.Minute)
		if err != nil || vm == nil {
			t.Fatalf("%s: %v, %v", name, vm, err)
		}

		f.Watch(types.NamespacedName{
			Namespace: "ns",
			Name:      name,
		}, WatchedVM{Session: session, ID: engine.ID(id), Booting: name == "vm-0", Seen: vm})
	}

	ended := make(chan error)
	go func() { ended <- f.Start(ctx) }()
	expect := func(want string) {
		t.Helper()

		check.Equal(t, "who is woken", wait.Receive(t, want+" is woken", woken), want)
	}
	if err := session.DeleteVM(ctx, engine.ID(ids["vm-7"])); err != nil {
		t.Fatal(err)
	}

	expect("vm-7")
	comment := "changed by hand"
	if _, err := session.UpdateVM(ctx, engine.ID(ids["vm-3"]), &engine.VM{Comment: &comment}); err != nil {
		t.Fatal(err)
	}

	expect("vm-3")
	f.Unwatch(types.NamespacedName{Namespace: "ns", Name: "vm-4"})
	if err := session.DeleteVM(ctx, engine.ID(ids["vm-4"])); err != nil {
		t.Fatal(err)
	}

	// The watcher checks again, and finishes its last check before it ends.
	before := lists.Load()
	wait.Until(t, "the engine is looked at twice", func() bool { return lists.Load() >= before+2 })
	cancel()
	check.Error(t, wait.Receive(t, "the watcher ends", ended), "")
	check.Equal(t, "how many more are woken", len(woken), 0)
}

// TestHowOftenAnEngineIsLookedAt covers machines with booting VMs, and others.
func TestHowOftenAnEngineIsLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		booting, others int
		want            time.Duration
	}{
		"events tell of VMs that run":        {0, 100, eventPeriod},
		"a VM that boots is looked at often": {1, 100, fastPeriod + perBooting},
		"the more boot, the more seldom":     {50, 0, fastPeriod + 50*perBooting},
		"but as often as events are read":    {10_000, 0, eventPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			w, session := &VMWatcher[types.NamespacedName]{}, &engine.Client{}
			for i := range test.booting + test.others {
				w.Watch(
					types.NamespacedName{Name: strconv.Itoa(i)}, WatchedVM{Session: session, Booting: i < test.booting},
				)
			}

			last := w.engines[session].lastCheck
			check.Length(t, "engines that are due before", w.takeDue(last.Add(test.want-1)), 0)
			check.Length(t, "engines that are due", w.takeDue(last.Add(test.want)), 1)
			check.Length(t, "engines that are due while one is looked at", w.takeDue(last.Add(time.Hour)), 0)
		})
	}
}
