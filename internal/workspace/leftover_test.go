package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// newLeftBench has an object whose manager was killed in or after its run: the object blocks clusterctl move, and the
// working directory has a state of that serial, and the secrets.
func newLeftBench(t *testing.T, serial int) *bench {
	t.Helper()
	b := newBench(t)
	b.apply("digest-1") // saves the state with serial 1
	b.observe().Recorded()

	metav1.SetMetaDataAnnotation(&b.object.ObjectMeta, clusterctlv1.BlockMoveAnnotation, "")
	check.Error(t, b.client.Update(t.Context(), b.object), "")

	dir := b.kind.Open(nil, b.object, "c").dir()
	check.Error(t, os.MkdirAll(filepath.Join(dir, checkDir), 0o700), "")
	check.Error(t, os.WriteFile(filepath.Join(dir, "terraform.tfstate"), fmt.Appendf(nil, fullState, serial), 0o600), "")
	check.Error(t, os.WriteFile(filepath.Join(dir, render.SecretsFile), []byte(`{"user_data":"secret"}`), 0o600), "")

	return b
}

// expectRecovered looks for a stored state of that serial, and for nothing in the way of clusterctl move.
func (b *bench) expectRecovered(w *Workspace, serial int) {
	b.t.Helper()
	state, err := w.keeper(b.object).Load(b.t.Context())
	check.Error(b.t, err, "")
	check.Equal(b.t, "serial of the stored state", state.Serial, uint64(serial))
	check.Equal(b.t, "digest of the stored state", state.AppliedDigest, "digest-1")

	_, blocked := b.object.Annotations[clusterctlv1.BlockMoveAnnotation]
	check.Equal(b.t, "the object blocks clusterctl move", blocked, false)

	left, err := os.ReadDir(w.dir())
	check.Error(b.t, err, "")
	check.Length(b.t, "the working directory", left, 0)
}

func TestAStateThatAKilledManagerLeftIsSaved(t *testing.T) {
	for name, serial := range map[string]int{"saved before the kill": 1, "newer than what was saved": 2} {
		t.Run(name, func(t *testing.T) {
			b := newLeftBench(t, serial)
			w := b.observe()
			check.Error(t, w.Apply(t.Context(), b.request("digest-1")), "")

			check.Equal(t, "the action", w.Action.Kind, None)
			b.expectRecovered(w, serial)
		})
	}
}

// TestAPausedObjectKeepsNoStateFromItsMove has clusterctl move pause the Cluster before the manager is back.
func TestAPausedObjectKeepsNoStateFromItsMove(t *testing.T) {
	for name, serial := range map[string]int{"saved before the kill": 1, "newer than what was saved": 2} {
		t.Run(name, func(t *testing.T) {
			b := newLeftBench(t, serial)
			metav1.SetMetaDataAnnotation(&b.object.ObjectMeta, clusterv1.PausedAnnotation, "")
			check.Error(t, b.client.Update(t.Context(), b.object), "")

			this, err := b.passes.Begin(t.Context(), b.client, client.ObjectKeyFromObject(b.object), b.object)
			check.Error(t, err, "")
			w := b.kind.Open(this, b.object, "c")
			paused, err := w.Paused(t.Context(), nil)
			check.Error(t, err, "")

			check.Equal(t, "paused", paused, true)
			b.expectRecovered(w, serial)
		})
	}
}

// TestAStateThatCannotBeSavedYetIsForTheNextRun has the API server refuse the state that a killed manager left.
func TestAStateThatCannotBeSavedYetIsForTheNextRun(t *testing.T) {
	b := newLeftBench(t, 2)
	b.kind.states.Client = interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("refused")
		},
	})

	w := b.observe()
	check.Error(t, w.Apply(t.Context(), b.request("digest-1")), "")

	check.Equal(t, "the action", w.Action.Kind, Apply)
	_, blocked := b.object.Annotations[clusterctlv1.BlockMoveAnnotation]
	check.Equal(t, "the object blocks clusterctl move", blocked, true)
	check.Equal(t, "the state is still there", w.Unfinished(), true)

	var secrets corev1.SecretList
	check.Error(t, b.client.List(t.Context(), &secrets), "")
	check.Length(t, "Secrets", secrets.Items, 1)
	<-b.kind.Runs.Woken("OLVMCluster")
}
