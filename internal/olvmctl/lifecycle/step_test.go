package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/adrg/xdg"
	"github.com/google/go-cmp/cmp"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// neededSteps returns the names of the visible steps with something to do in the current state.
func neededSteps(steps []Step) []string {
	var out []string

	for _, s := range steps {
		if !s.quiet && (s.needed == nil || s.needed()) {
			out = append(out, s.name)
		}
	}

	return out
}

// emptyHome sets a home folder without a kubeconfig and without a local management cluster.
func emptyHome(t *testing.T) {
	t.Helper()
	t.Cleanup(xdg.Reload) // runs after the environment is restored
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	xdg.Reload()
}

// localThatStopped creates a stopped local management cluster.
func localThatStopped(t *testing.T) {
	t.Helper()
	local := mgmtcluster.LocalOfUser()
	if err := os.MkdirAll(filepath.Join(filepath.Dir(local.Kubeconfig()), "data"), 0o700); err != nil {
		t.Fatal(err)
	}

	testenv.WriteKubeconfig(t, local.Kubeconfig(), "https://127.0.0.1:1")
}

func TestRunSteps(t *testing.T) {
	var ran []string
	record := func(name string, err error) Step {
		return Step{name: name, run: func(context.Context) error {
			ran = append(ran, name)
			return err
		}}
	}
	found := false
	finds := Step{name: "finds", quiet: true, run: func(context.Context) error {
		found = true
		return nil
	}}
	after := record("after what was found", nil)
	after.needed = func() bool { return found }
	before := record("before it is found", nil)
	before.needed = after.needed

	var out bytes.Buffer
	err := runSteps(t.Context(), progress.NewDisplay(&out), []Step{
		record("first", nil), before, finds, after, record("fails", errors.New("no")), record("never", nil),
	})
	if err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}

	if diff := cmp.Diff([]string{"first", "after what was found", "fails"}, ran); diff != "" {
		t.Error(diff)
	}

	want := "first: ok (0 s)\nafter what was found: ok (0 s)\nfails: failed\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestStepsOfCreate(t *testing.T) {
	const (
		build     = "Preparing the programs of the local management cluster"
		launch    = "Starting the local management cluster"
		login     = "Verifying the new credentials of the engine"
		template  = "Creating the template node-image"
		engine    = "Checking the engine"
		providers = "Installing Cluster API and its providers"
		apply     = "Applying the manifests"
		plane     = "Waiting for the control plane"
		server    = "Waiting for the API server"
		cni       = "Installing cni"
		driver    = "Installing the oVirt CSI driver"
		nodes     = "Waiting for the nodes"
		moving    = "Moving the namespace"
		turning   = "Waiting for the cluster to manage itself"
	)

	for name, test := range map[string]struct {
		kubeconfig string
		stopped    bool // there is a stopped local management cluster
		change     func(*creation, *OLVM)
		want       []string
	}{
		"a new cluster without a management cluster": {
			want: []string{engine, build, launch, providers, apply, plane, server, cni, nodes},
		},
		"a local management cluster that has stopped may have the cluster": {
			stopped: true,
			want:    []string{build, launch, engine, build, launch, providers, apply, plane, server, cni, nodes},
		},
		"a new cluster in a management cluster, with an image": {
			kubeconfig: "https://127.0.0.1:1",
			change:     func(_ *creation, o *OLVM) { o.Image = "node.qcow2" },
			want:       []string{template, engine, providers, apply, plane, server, cni, nodes},
		},
		"a cluster that is there goes on without the engine": {
			kubeconfig: "https://127.0.0.1:1",
			change:     func(c *creation, o *OLVM) { c.exists, o.Image = true, "node.qcow2" },
			want:       []string{providers, apply, plane, server, cni, nodes},
		},
		"other credentials are tried": {
			kubeconfig: "https://127.0.0.1:1",
			change:     func(c *creation, o *OLVM) { c.exists, o.loginChanges = true, true },
			want:       []string{login, providers, apply, plane, server, cni, nodes},
		},
		"the storage driver": {
			kubeconfig: "https://127.0.0.1:1",
			change:     func(c *creation, o *OLVM) { c.exists, o.driver = true, &addon.AddOn{} },
			want:       []string{providers, apply, plane, server, cni, driver, nodes},
		},
		"a cluster is moved into itself": {
			kubeconfig: "https://127.0.0.1:1",
			change:     func(c *creation, _ *OLVM) { c.exists, c.SelfManaged = true, true },
			want:       []string{providers, apply, plane, server, cni, nodes, providers, moving, turning},
		},
		"a cluster that manages itself needs no management cluster": {
			change: func(c *creation, _ *OLVM) { c.exists, c.SelfManaged, c.managesItself = true, true, true },
			want:   []string{apply, plane, server, cni, nodes},
		},
	} {
		t.Run(name, func(t *testing.T) {
			emptyHome(t)
			if test.stopped {
				localThatStopped(t)
			}

			olvm := &OLVM{}
			o := CreateOptions{File: clusterNamed("prod", "127.0.0.1", 1), Provider: olvm}
			o.Display, o.AddOns.CNI = progress.NewDisplay(&bytes.Buffer{}), clusterfile.NoNetworkPlugin
			o.File.Providers.OLVM.ControlPlaneMachine.VMTemplateName = "node-image"
			if test.kubeconfig != "" {
				o.Management.Kubeconfig = filepath.Join(t.TempDir(), "management")
				testenv.WriteKubeconfig(t, o.Management.Kubeconfig, test.kubeconfig)
			}

			c, err := newCreation(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}

			c.addOns = []addon.AddOn{addon.FromManifests("cni", nil)}
			if test.change != nil {
				test.change(c, olvm)
			}

			if diff := cmp.Diff(test.want, neededSteps(c.allSteps())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatABootstrapVMNeeds(t *testing.T) {
	login := preview.Credentials{Username: "admin@internal", Password: "x"}

	for name, test := range map[string]struct {
		change func(*CreateOptions)
		want   string
	}{
		"credentials": {func(*CreateOptions) {}, "--bootstrap vm: the credentials of the engine are missing"},
		"no other management cluster": {func(o *CreateOptions) {
			o.Management.Kubeconfig = "management"
		}, "the management cluster of prod is a bootstrap VM; omit --kubeconfig and --driver"},
		"no local management cluster": {func(o *CreateOptions) {
			o.Driver = mgmtcluster.DriverProcess
		}, "the management cluster of prod is a bootstrap VM"},
		"an engine": {func(o *CreateOptions) { o.Provider = &OCI{} }, "--bootstrap vm is supported only on OLVM"},
		"manifests": {func(o *CreateOptions) {
			o.Provider = &OLVM{Engine: login}
			o.File.Providers.OLVM.OvirtAPIServer.InsecureSkipTLSVerify = true
		}, "--bootstrap vm: Cluster prod not found in the manifests"},
	} {
		t.Run(name, func(t *testing.T) {
			emptyHome(t)
			o := CreateOptions{File: clusterNamed("prod", "127.0.0.1", 1), Provider: &OLVM{}, BootstrapVM: true}
			o.AddOns.CNI = clusterfile.NoNetworkPlugin
			test.change(&o)

			_, err := newCreation(t.Context(), o)
			wantError(t, "error", err, test.want)
		})
	}
}
