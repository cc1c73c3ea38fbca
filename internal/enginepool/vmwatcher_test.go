package enginepool

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// TestVMWatcherWakesTheMachinesWhoseVMHasChanged follows many VMs of one engine, of which one starts and one is
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
	pool := &Pool{}
	woken := make(chan string, 100)
	f := &VMWatcher{Pool: pool, Wake: func(key workspace.Key) { woken <- key.Name }}
	dc, err := session.DataCenter(ctx, "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := session.Cluster(ctx, dc, "Default")
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

	settled := func() bool {
		for _, vm := range sim.VMs() {
			if vm.Status != "down" {
				return false
			}
		}

		return true
	}
	for deadline := time.Now().Add(10 * time.Second); !settled(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the engine has %+v", sim.VMs())
		}
	}

	for name, id := range ids {
		vm, err := pool.VM(ctx, session, engine.ID(id), time.Minute)
		if err != nil || vm == nil {
			t.Fatalf("%s: %v, %v", name, vm, err)
		}

		f.Watch(workspace.Key{
			Namespace: "ns",
			Name:      name,
		}, WatchedVM{Session: session, ID: engine.ID(id), Booting: name == "vm-0", Seen: vm})
	}

	ended := make(chan error)
	go func() { ended <- f.Start(ctx) }()
	expect := func(want string) {
		t.Helper()

		select {
		case got := <-woken:
			if got != want {
				t.Errorf("%s was woken, not %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s was not woken", want)
		}
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
	f.Unwatch(workspace.Key{Namespace: "ns", Name: "vm-4"})
	if err := session.DeleteVM(ctx, engine.ID(ids["vm-4"])); err != nil {
		t.Fatal(err)
	}

	before := lists.Load()
	time.Sleep(3 * fastPeriod) // a window to count in
	if got := lists.Load() - before; got < 1 || got > 5 {
		t.Errorf("%d lists for %d machines in %s", got, machines, 3*fastPeriod)
	}

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	select {
	case key := <-woken:
		t.Errorf("%s was woken", key)
	default:
	}
}
