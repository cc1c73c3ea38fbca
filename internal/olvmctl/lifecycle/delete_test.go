package lifecycle

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

func TestRemoveKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig.prod")

	for name, test := range map[string]struct {
		server, says string
		removed      bool
	}{
		"the server is not known": {"", "kept " + path + ": its server is https://prod:6443; if this was", false},
		"the server is another's": {"https://other:6443", "but the server of the cluster was https://other:6443",
			false},
		"it is the cluster's": {"https://prod:6443", "removed " + path, true},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.WriteKubeconfig(t, path, "https://prod:6443")
			var said bytes.Buffer
			d := &deletion{}
			d.Name, d.Display = "prod", progress.NewDisplay(&said)
			if test.server != "" {
				d.kubeconfig = &clientcmdapi.Cluster{Server: test.server}
			}

			check.Error(t, d.removeKubeconfig(path), "")
			check.Contains(t, "what it says", said.String(), test.says)
			check.Equal(t, "whether it is removed", !fileExists(path), test.removed)
		})
	}
}

func TestStepsOfDelete(t *testing.T) {
	const (
		build     = "Preparing the programs of the local management cluster"
		launch    = "Starting the local management cluster"
		providers = "Installing Cluster API and its providers"
		moving    = "Moving the namespace"
		knowing   = "Waiting for Cluster API to connect to the cluster"
		deleting  = "Deleting prod"
		removing  = "Removing the credentials and the kubeconfig"
	)

	for name, test := range map[string]struct {
		existing bool // a management cluster other than the local one
		stopped  bool // a stopped local management cluster
		change   func(*deletion)
		want     []string
	}{
		"a cluster of a management cluster": {
			existing: true,
			change:   func(d *deletion) { d.cluster = &clusterv1.Cluster{} },
			want:     []string{deleting, removing},
		},
		"a cluster of a local management cluster that has stopped": {
			stopped: true,
			change:  func(d *deletion) { d.cluster = &clusterv1.Cluster{} },
			want:    []string{build, launch, deleting, removing},
		},
		"a cluster that an earlier command has deleted": {
			existing: true,
			want:     []string{removing},
		},
		"a cluster that manages itself is moved to a local management cluster": {
			existing: true,
			change:   func(d *deletion) { d.cluster, d.managesItself = &clusterv1.Cluster{}, true },
			want:     []string{build, launch, providers, moving, knowing, deleting, removing},
		},
		"no management cluster is started for a cluster that cannot be there": {
			want: []string{removing}, // never reached: looking for the cluster fails
		},
	} {
		t.Run(name, func(t *testing.T) {
			emptyHome(t)
			if test.stopped {
				localThatStopped(t)
			}

			o := DeleteOptions{Name: "prod"}
			o.Display = progress.NewDisplay(&bytes.Buffer{})
			if test.existing {
				o.Management.Kubeconfig = filepath.Join(t.TempDir(), "management")
				testenv.WriteKubeconfig(t, o.Management.Kubeconfig, "https://127.0.0.1:1")
			}

			d, err := newDeletion(o)
			if err != nil {
				t.Fatal(err)
			}

			if test.change != nil {
				test.change(d)
			}

			if diff := cmp.Diff(test.want, neededSteps(d.allSteps())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDeleteStartsNothingForAClusterThatCannotBeThere(t *testing.T) {
	emptyHome(t)
	var said bytes.Buffer
	o := DeleteOptions{Name: "prod"}
	o.Display = progress.NewDisplay(&said)

	err := Delete(t.Context(), o)
	wantError(t, "error", err, "there is no kubeconfig and no local management cluster")

	if said.Len() > 0 || mgmtcluster.LocalOfUser().Exists() {
		t.Errorf("a management cluster was started: %s", said.String())
	}
}
