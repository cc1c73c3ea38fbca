package workspace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// newLeftBench has an object whose manager was killed during or after its run. The object still blocks clusterctl move.
// The working directory has the secrets, and a state with this serial.
func newLeftBench(t *testing.T, serial int) *bench {
	t.Helper()
	b := newBench(t)
	b.apply("digest-1") // saves a state with serial 1
	b.observe().DropRecordedRun()

	metav1.SetMetaDataAnnotation(&b.object.ObjectMeta, clusterctlv1.BlockMoveAnnotation, "")
	check.Error(t, b.client.Update(t.Context(), b.object), "")

	dir := b.kind.Open(nil, b.object, "c").workDir()
	check.Error(t, os.MkdirAll(filepath.Join(dir, checkDir), 0o700), "")
	check.Error(
		t, os.WriteFile(filepath.Join(dir, "terraform.tfstate"), fmt.Appendf(nil, fullState, serial), 0o600), "",
	)
	check.Error(t, os.WriteFile(filepath.Join(dir, render.SecretsFile), []byte(`{"user_data":"secret"}`), 0o600), "")

	return b
}

// expectRecovered expects a stored state with this serial, and no obstacle to clusterctl move.
func (b *bench) expectRecovered(w *decided, serial int) {
	b.t.Helper()
	state, err := w.newKeeper(b.object).Load(b.t.Context())
	check.Error(b.t, err, "")
	check.Equal(b.t, "serial of the stored state", state.Serial, uint64(serial))
	check.Equal(b.t, "digest of the stored state", state.AppliedDigest, "digest-1")

	_, blocked := b.object.Annotations[clusterctlv1.BlockMoveAnnotation]
	check.Equal(b.t, "the object blocks clusterctl move", blocked, false)

	left, err := os.ReadDir(w.workDir())
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

			this, err := b.passes.BeginPass(t.Context(), b.client, client.ObjectKeyFromObject(b.object), b.object)
			check.Error(t, err, "")
			w := b.kind.Open(this, b.object, "c")
			paused, err := w.EnsurePausedCondition(t.Context(), nil)
			check.Error(t, err, "")

			check.Equal(t, "paused", paused, true)
			b.expectRecovered(&decided{Workspace: w}, serial)
		})
	}
}

// TestAStateThatCannotBeSavedYetIsForTheNextRun has an API server that refuses the state left by a killed manager.
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
	check.Equal(t, "the state is still there", w.HasUnsavedState(), true)

	var secrets corev1.SecretList
	check.Error(t, b.client.List(t.Context(), &secrets), "")
	check.Length(t, "Secrets", secrets.Items, 1)
	<-b.kind.Runs.WakeChannel("OLVMCluster")
}

// TestAnObjectThatCannotBePausedSaysWhy pauses an object while the state left by a killed manager cannot be saved.
func TestAnObjectThatCannotBePausedSaysWhy(t *testing.T) {
	b := newLeftBench(t, 2)
	b.kind.states.Client = interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("request is too large")
		},
	})
	metav1.SetMetaDataAnnotation(&b.object.ObjectMeta, clusterv1.PausedAnnotation, "")
	check.Error(t, b.client.Update(t.Context(), b.object), "")
	this, err := b.passes.BeginPass(t.Context(), b.client, client.ObjectKeyFromObject(b.object), b.object)
	check.Error(t, err, "")

	paused, err := b.kind.Open(this, b.object, "c").EnsurePausedCondition(t.Context(), nil)
	check.Equal(t, "it is tried again", err != nil, true)
	check.Equal(t, "paused", paused, true)

	condition := conditions.Get(b.object, clusterv1.PausedCondition)
	check.Equal(t, "the condition", string(condition.Status)+"/"+condition.Reason, "True/"+clusterv1.PausedReason)
	check.Contains(t, "the message", condition.Message, "request is too large")
	check.Contains(t, "the message", condition.Message, "clusterctl cannot move the object")
	_, blocked := b.object.Annotations[clusterctlv1.BlockMoveAnnotation]
	check.Equal(t, "the object blocks clusterctl move", blocked, true)
}

// TestAStateOfAnotherLineageIsRefused puts another state into the Secret. Since the last pass, a run has or has not
// acted.
func TestAStateOfAnotherLineageIsRefused(t *testing.T) {
	for name, ran := range map[string]bool{"by a person": false, "by a run that rebuilt it": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.apply("digest-1")
			b.observe().DropRecordedRun()
			b.observe() // removes the annotation of the run, and records the lineage
			delete(b.object.Annotations, clusterctlv1.BlockMoveAnnotation)
			if ran {
				metav1.SetMetaDataAnnotation(&b.object.ObjectMeta, clusterctlv1.BlockMoveAnnotation, "")
			}

			check.Error(t, b.client.Update(t.Context(), b.object), "")
			check.Error(t, b.client.Delete(t.Context(), &b.stateSecrets()[0]), "")
			secret := b.stateSecrets()
			if len(secret) == 1 { // its finalizer keeps it
				secret[0].Finalizers = nil
				check.Error(t, b.client.Update(t.Context(), &secret[0]), "")
			}

			other := strings.ReplaceAll(fmt.Sprintf(fullState, 7), `"lineage":"l"`, `"lineage":"other"`)
			check.Error(t, b.kind.states.Save(t.Context(), b.object, "c", []byte(other)), "")

			w := b.observe()
			check.Equal(t, "it is refused", w.StateErr != nil, !ran)
			if !ran {
				check.Contains(t, "why", w.StateErr.Error(),
					"its lineage is other, but the manager has read lineage l before")
			}
		})
	}
}

// TestAJobKeepsNothingAfterItsEnd checks a thousand objects with large states for drift. Finished jobs must not keep
// the states in memory.
func TestAJobKeepsNothingAfterItsEnd(t *testing.T) {
	b := newBench(t)
	const objects = 1000
	padding := make([]byte, 8<<10)

	for i := range padding {
		padding[i] = "0123456789abcdef"[rand.IntN(16)] // as incompressible as user data
	}

	state := strings.Replace(fmt.Sprintf(fullState, 1), `"id":"g"`, `"id":"g","user_data":"`+string(padding)+`"`, 1)
	owner := func(i int) *infrav1.OLVMCluster {
		out := b.object.DeepCopy()
		out.Name, out.UID = fmt.Sprintf("c%d", i), types.UID(fmt.Sprint(i))

		return out
	}
	keep := func(i int) *Workspace { return b.kind.Open(nil, owner(i), "") }

	for i := range objects {
		check.Error(t, b.client.Create(t.Context(), func() *infrav1.OLVMCluster {
			out := owner(i)
			out.ResourceVersion = ""

			return out
		}()), "")
		check.Error(t, keep(i).newKeeper(owner(i)).Save(t.Context(), []byte(state), "digest"), "")
	}

	before := heapInUse()

	for i := range objects {
		summary, err := keep(i).newJob(terraform.Check, b.subject, "digest")(t.Context())
		check.Error(t, err, "")
		check.Length(t, "drift", summary.Drift, 0)
		b.executor.requests, b.subject.asked = nil, nil
	}

	if kept := heapInUse() - before; kept > 3<<20 {
		t.Errorf("%d KiB are kept of %d checks", kept>>10, objects)
	}
}

// heapInUse returns the reachable memory in bytes.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()

	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)

	return int64(stats.HeapAlloc) //nolint:gosec // far less than an int64
}
