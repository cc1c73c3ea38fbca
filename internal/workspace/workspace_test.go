package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	emptyState = `{"version":4,"serial":%d,"lineage":"l","resources":[]}`
	fullState  = `{"version":4,"serial":%d,"lineage":"l","resources":[{"mode":"managed","type":"ovirt_affinity_group",` +
		`"name":"this","instances":[{"attributes":{"id":"g"}}]}]}`
)

// fakeExecutor writes states like an imaginary Terraform.
type fakeExecutor struct {
	requests []terraform.Request
	serial   int
	// refusals are the errors of the next plans. failures are the errors of the next runs after their plan was
	// confirmed. nil means success.
	refusals, failures []error
	// drift is the result of plans.
	drift []terraform.Drift
	// holds makes a check wait until it is interrupted.
	holds chan struct{}
	// planned is called after the plan, and before any confirmation.
	planned func()
}

func (x *fakeExecutor) Apply(ctx context.Context, request terraform.Request) (terraform.Summary, error) {
	x.requests = append(x.requests, request)
	if x.planned != nil {
		x.planned()
	}

	if err := next(&x.refusals); err != nil {
		return terraform.Summary{}, err
	}

	if err := request.Confirm(ctx); err != nil {
		return terraform.Summary{}, err
	}

	if err := next(&x.failures); err != nil {
		return terraform.Summary{}, err
	}

	x.serial++
	if request.Destroy {
		return terraform.Summary{Destroyed: 1}, request.SaveState(ctx, fmt.Appendf(nil, emptyState, x.serial), true)
	}

	planned := []terraform.Change{{Address: "ovirt_vm.this", Action: "create"}}

	return terraform.Summary{Added: 1, Planned: planned}, request.SaveState(
		ctx, fmt.Appendf(nil, fullState, x.serial), true,
	)
}

// Check returns the differences set by the test.
func (x *fakeExecutor) Check(ctx context.Context, request terraform.Request) ([]terraform.Drift, error) {
	x.requests = append(x.requests, request)
	if x.holds != nil {
		x.holds <- struct{}{}
		<-ctx.Done()

		return nil, fmt.Errorf("failed to read the plan: %s", ctx.Err().Error())
	}

	return x.drift, next(&x.failures)
}

// next removes and returns the first error of a list, or nil.
func next(from *[]error) error {
	if len(*from) == 0 {
		return nil
	}

	err := (*from)[0]
	*from = (*from)[1:]

	return err
}

// fakeSubject is a Subject that records its calls.
type fakeSubject struct {
	outdated  bool
	unblocked bool
	asked     []string
}

func (s *fakeSubject) Render(context.Context, *tfstate.State) (Configuration, error) {
	s.asked = append(s.asked, "Render")

	return Configuration{
		Configuration: render.Configuration{Files: render.Files{"main.tf": nil}}, Secrets: []string{"secret"},
	}, nil
}

func (s *fakeSubject) RenderDestroy(context.Context) (Configuration, error) {
	s.asked = append(s.asked, "RenderDestroy")
	return Configuration{}, nil
}

func (s *fakeSubject) Outdated(client.Object) bool { return s.outdated }

func (s *fakeSubject) RemoveOrphans(
	_ context.Context, operation terraform.Operation, _ *tfstate.State, _ LoadFunc,
) error {
	s.asked = append(s.asked, "RemoveOrphans "+string(operation))
	return nil
}

func (s *fakeSubject) Unblock(_ context.Context, err error) (bool, error) {
	s.unblocked = strings.Contains(err.Error(), "snapshot")
	return s.unblocked, nil
}

// bench is an object with everything that its passes need.
type bench struct {
	t        *testing.T
	executor *fakeExecutor
	subject  *fakeSubject
	client   client.Client
	kind     *Kind
	passes   pass.Tracker
	recorder *events.FakeRecorder
	object   *infrav1.OLVMCluster
}

func newBench(t *testing.T) *bench {
	t.Helper()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, clusterv1.AddToScheme, api.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}

	meta := metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "11111111-1111-4111-8111-111111111111"}
	object := &infrav1.OLVMCluster{ObjectMeta: meta}
	object.Finalizers = []string{infrav1.ClusterFinalizer}
	b := &bench{
		t:        t,
		executor: &fakeExecutor{},
		subject:  &fakeSubject{},
		recorder: events.NewFakeRecorder(10),
		object:   object,
		client: fake.NewClientBuilder().WithScheme(scheme).
			WithObjects(object, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}).Build(),
	}

	runs := NewRunQueue(1, time.Minute)
	t.Cleanup(func() { runs.Shutdown(time.Minute) })
	runs.Executor, runs.WorkDir, runs.Client, runs.APIReader = b.executor, t.TempDir(), b.client, b.client
	b.kind = NewKind(Kind{
		Name:     "OLVMCluster",
		New:      func() client.Object { return &infrav1.OLVMCluster{} },
		Prefix:   "olvmcluster.",
		Runs:     runs,
		Recorder: b.recorder,
		Status: func(o client.Object) **infrav1.TerraformStatus {
			return &o.(*infrav1.OLVMCluster).Status.Terraform
		},
	})

	return b
}

// decided is a workspace with its observation, and the action of its last decision.
type decided struct {
	*Workspace
	Observation

	Action Action
}

func (d *decided) Apply(ctx context.Context, request Request) (err error) {
	d.Action, err = d.Workspace.Apply(ctx, &d.Observation, request)
	return err
}

func (d *decided) Destroy(ctx context.Context, request Request) (err error) {
	d.Action, err = d.Workspace.Destroy(ctx, d.Observation, request)
	return err
}

// observe begins a pass.
func (b *bench) observe() *decided {
	b.t.Helper()
	known := b.object.DeepCopy()
	this, err := b.passes.BeginPass(b.t.Context(), b.client, client.ObjectKeyFromObject(known), b.object)
	if err != nil {
		b.t.Fatal(err)
	}

	// Take the results of earlier passes from memory, as if they were written.
	known.ResourceVersion = b.object.ResourceVersion
	known.DeepCopyInto(b.object)
	w := b.kind.Open(this, b.object, "c")
	seen, err := w.Observe(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}

	return &decided{Workspace: w, Observation: seen}
}

func (b *bench) request(digest string) Request {
	return Request{
		Facts:   Facts{Ready: true, Digest: digest, MayExist: b.object.Annotations["made"] != ""},
		Subject: func() Subject { return b.subject },
	}
}

// apply runs a whole pass, and waits for the end of the run that the pass submits.
func (b *bench) apply(digest string) {
	b.t.Helper()
	w := b.observe()
	request := b.request(digest)
	request.Annotations = map[string]string{"made": "true"}
	if err := w.Apply(b.t.Context(), request); err != nil || w.Action.Kind != Apply {
		b.t.Fatalf("the action is %+v, %v", w.Action, err)
	}

	w.DropRecordedRun()
	<-b.kind.Runs.WakeChannel("OLVMCluster")
}

// remove marks the object as being deleted, like the API server.
func (b *bench) remove() {
	b.t.Helper()
	if err := b.client.Delete(b.t.Context(), b.object); err != nil {
		b.t.Fatal(err)
	}

	b.read()
}

func (b *bench) read() {
	b.t.Helper()
	status := b.object.Status
	if err := b.client.Get(b.t.Context(), client.ObjectKeyFromObject(b.object), b.object); err != nil {
		b.t.Fatal(err)
	}

	b.object.Status = status
}

func (b *bench) stateSecrets() []corev1.Secret {
	b.t.Helper()
	var list corev1.SecretList
	if err := b.client.List(b.t.Context(), &list); err != nil {
		b.t.Fatal(err)
	}

	return list.Items
}

func TestApply(t *testing.T) {
	b := newBench(t)
	b.apply("digest-1")

	stored := &infrav1.OLVMCluster{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(b.object), stored); err != nil {
		t.Fatal(err)
	}

	want := map[string]string{clusterctlv1.BlockMoveAnnotation: "", "made": "true"}
	if diff := cmp.Diff(want, stored.Annotations); diff != "" {
		t.Errorf("annotations before the run (-want +got):\n%s", diff)
	}

	w := b.observe()
	if diff := cmp.Diff([]string{"Render", "RemoveOrphans Apply"}, b.subject.asked); diff != "" {
		t.Errorf("the subject was asked (-want +got):\n%s", diff)
	}

	if w.State.Empty() || w.State.AppliedDigest != "digest-1" {
		t.Errorf("the state is %+v", w.State)
	}

	status := b.object.Status.Terraform
	check.Equal(t, "status.Runs", status.Runs, 1)
	check.Equal(t, "status.Failures", status.Failures, 0)
	check.Equal(t, "status.LastRun.Result", status.LastRun.Result, "Succeeded")
	check.Equal(t, "status.LastRun.Added", status.LastRun.Added, 1)
	check.Equal(t, "status.LastRun.Changes", status.LastRun.Changes, []string{"create ovirt_vm.this"})

	if event := <-b.recorder.Events; !strings.HasPrefix(event, "Normal SuccessfulApply") {
		t.Errorf("the event is %q", event)
	}

	if _, blocked := b.object.Annotations[clusterctlv1.BlockMoveAnnotation]; blocked {
		t.Error("the object cannot be moved after its run")
	}

	if err := w.Apply(t.Context(), b.request("digest-1")); err != nil || w.Action.Kind != None {
		t.Errorf("with nothing changed the action is %+v, %v", w.Action, err)
	}
}

func TestApplyFails(t *testing.T) {
	b := newBench(t)
	b.executor.failures = []error{errors.New("no space left"), &terraform.GuardError{}}
	b.apply("digest-1")

	// The patch of this pass fails. The next pass records the run again, but counts it only once.
	for range 2 {
		w := b.observe()
		if w.Failure.Count != 1 || w.Failure.Digest != "digest-1" {
			t.Fatalf("the failure is %+v", w.Failure)
		}
	}

	if events := len(b.recorder.Events); events != 1 {
		t.Errorf("the run was announced %d times", events)
	}

	w := b.observe()
	w.DropRecordedRun()
	if err := w.Apply(t.Context(), b.request("digest-1")); err != nil || w.Action.Kind != Wait {
		t.Errorf("at once the action is %+v, %v", w.Action, err)
	}

	if event := <-b.recorder.Events; !strings.HasPrefix(event, "Warning FailedApply") {
		t.Errorf("the event is %q", event)
	}

	b.apply("digest-2") // a changed input skips the backoff
	w = b.observe()
	if got := b.object.Status.Terraform.LastRun.Result; got != "Refused" || w.Failure.Count != 2 {
		t.Errorf("the run was %s, and failed %d times", got, w.Failure.Count)
	}
}

// TestAChangeThatFailedIsTakenBack reverts a change whose plan failed, so nothing was changed. Nothing is left to try,
// and the failure must disappear.
func TestAChangeThatFailedIsTakenBack(t *testing.T) {
	b := newBench(t)
	b.apply("digest-1")
	b.observe().DropRecordedRun()
	b.executor.refusals = []error{errors.New("no such network")}
	b.apply("digest-2")

	w := b.observe()
	w.DropRecordedRun()
	check.Equal(t, "failures of the change", w.Failure.Count, 1)
	check.Error(t, w.Apply(t.Context(), b.request("digest-1")), "")
	check.Equal(t, "the action", w.Action.Kind, None)
	check.Equal(t, "failures", w.Failure.Count, 0)
	check.Equal(t, "failures in the next pass", b.observe().Failure.Count, 0)
}

// TestAChangeThatFailedHalfWayIsUndone reverts a change that may have had effects. This needs another run.
func TestAChangeThatFailedHalfWayIsUndone(t *testing.T) {
	b := newBench(t)
	b.apply("digest-1")
	b.observe().DropRecordedRun()
	b.executor.failures = []error{errors.New("no space for the disk")}
	b.apply("digest-2")

	w := b.observe()
	check.Equal(t, "what was applied", w.State.AppliedDigest, "")
	check.Equal(t, "the change is from", w.State.ChangingFrom, "digest-1")
	check.Equal(t, "the first configuration undoes it", w.State.IsRevertedBy("digest-1"), true)
	check.Equal(t, "the second one undoes it", w.State.IsRevertedBy("digest-2"), false)
	check.Equal(t, "it was applied once", w.State.WasApplied(), true)
	w.DropRecordedRun()

	b.apply("digest-1")
	w = b.observe()
	check.Equal(t, "failures", w.Failure.Count, 0)
	check.Equal(t, "what is applied", w.State.AppliedDigest, "digest-1")
	check.Equal(t, "no change is left", w.State.ChangingFrom, "")
}

// TestAChangeThatFailsTwiceIsStillTakenBackToWhatWasApplied checks that the state keeps the last fully applied digest.
func TestAChangeThatFailsTwiceIsStillTakenBackToWhatWasApplied(t *testing.T) {
	b := newBench(t)
	b.apply("digest-1")
	b.observe().DropRecordedRun()
	failed := errors.New("no space for the disk")
	b.executor.failures = []error{failed, failed}

	for _, digest := range []string{"digest-2", "digest-3"} {
		b.apply(digest)
		b.observe().DropRecordedRun()
	}

	check.Equal(t, "the change is from", b.observe().State.ChangingFrom, "digest-1")
}

// TestARunThatCannotRecordAChangeChangesNothing checks that the record comes before the change.
func TestARunThatCannotRecordAChangeChangesNothing(t *testing.T) {
	unwritable := errors.New("the API server is away")
	executor := &fakeExecutor{}
	root := &Root{Executor: executor, Keeper: &fakeKeeper{failing: unwritable}}
	_, err := root.Apply(t.Context(), &fakeSubject{}, "digest-2")
	check.Equal(t, "it fails", errors.Is(err, unwritable), true)
	check.Equal(t, "states that it wrote", executor.serial, 0)
}

// fakeKeeper has a state that was applied as digest-1, and cannot record changes.
type fakeKeeper struct{ failing error }

func (k *fakeKeeper) Load(context.Context) (*tfstate.State, error) {
	state, err := tfstate.Parse(fmt.Appendf(nil, fullState, 1))
	if err == nil {
		state.AppliedDigest = "digest-1"
	}

	return state, err
}

func (k *fakeKeeper) Save(context.Context, []byte, string) error { return nil }

func (k *fakeKeeper) MarkApplied(context.Context, string) error { return nil }

func (k *fakeKeeper) MarkChanging(context.Context, string, string) error { return k.failing }

func TestDestroy(t *testing.T) {
	b := newBench(t)
	b.apply("digest-1")
	b.observe().DropRecordedRun()
	b.remove()

	w := b.observe()
	b.executor.failures = []error{errors.New("the disk is in a snapshot")}
	if err := w.Destroy(t.Context(), b.request("")); err != nil || w.Action.Kind != Destroy {
		t.Fatalf("the action is %+v, %v", w.Action, err)
	}

	<-b.kind.Runs.WakeChannel("OLVMCluster")
	if last := b.executor.requests[len(b.executor.requests)-1]; len(b.executor.requests) != 3 || !last.Destroy {
		t.Errorf("%d runs of Terraform, the last %+v", len(b.executor.requests), last)
	}

	if asked := b.subject.asked[2:]; !b.subject.unblocked || !slices.Equal(asked,
		[]string{"RenderDestroy", "RemoveOrphans Destroy"}) {
		t.Errorf("the subject was asked %v", asked)
	}

	w = b.observe()
	if err := w.Destroy(t.Context(), b.request("")); err != nil || w.Action.Kind != Release {
		t.Fatalf("after the run the action is %+v, %v", w.Action, err)
	}

	if err := w.Remove(t.Context()); err != nil || len(b.stateSecrets()) != 0 {
		t.Errorf("left are %d Secrets, %v", len(b.stateSecrets()), err)
	}
}

// TestAVMThatIsSeenIsNotReleased has a run that succeeds although the engine still shows the VM. Another server had
// answered the run's requests.
func TestAVMThatIsSeenIsNotReleased(t *testing.T) {
	for seen, want := range map[bool]ActionKind{true: Destroy, false: Release} {
		b := newBench(t)
		b.apply("digest-1")
		b.observe().DropRecordedRun()
		b.remove()

		w := b.observe()
		check.Error(t, w.Destroy(t.Context(), b.request("")), "")
		<-b.kind.Runs.WakeChannel("OLVMCluster")

		w = b.observe()
		request := b.request("")
		request.MayExist, request.Seen = true, seen
		check.Error(t, w.Destroy(t.Context(), request), "")
		check.Equal(t, fmt.Sprintf("the action if it is seen %t", seen), w.Action.Kind, want)
		if seen {
			<-b.kind.Runs.WakeChannel("OLVMCluster")
		}
	}
}

func TestDestroyWithoutState(t *testing.T) {
	tests := map[string]struct {
		made bool
		want ActionKind
	}{
		"nothing was ever asked for":             {false, Release},
		"a run may have made what nobody stored": {true, Destroy},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.remove()

			w := b.observe()
			request := b.request("")
			request.MayExist = test.made
			if err := w.Destroy(t.Context(), request); err != nil || w.Action.Kind != test.want {
				t.Fatalf("the action is %+v, %v", w.Action, err)
			}

			if !test.made {
				return
			}

			<-b.kind.Runs.WakeChannel("OLVMCluster")
			if len(b.executor.requests) != 0 || !slices.Equal(b.subject.asked, []string{"RemoveOrphans Destroy"}) {
				t.Errorf("%d runs of Terraform, and the subject was asked %v", len(b.executor.requests),
					b.subject.asked)
			}
		})
	}
}

// TestStillWanted changes the object between the submission of a run and its plan.
func TestStillWanted(t *testing.T) {
	patch := func(b *bench, change func(*infrav1.OLVMCluster)) {
		stored := &infrav1.OLVMCluster{}
		if err := b.client.Get(b.t.Context(), client.ObjectKeyFromObject(b.object), stored); err != nil {
			b.t.Error(err)
			return
		}

		change(stored)
		if err := b.client.Update(b.t.Context(), stored); err != nil {
			b.t.Error(err)
		}
	}
	annotate := func(key string) func(*bench) {
		return func(b *bench) {
			patch(b, func(c *infrav1.OLVMCluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, "") })
		}
	}

	tests := map[string]struct {
		meanwhile func(*bench)
		applied   bool
	}{
		"nothing changes":              {func(*bench) {}, true},
		"the object is paused":         {annotate(clusterv1.PausedAnnotation), false},
		"the object is moved":          {annotate(clusterctlv1.DeleteForMoveAnnotation), false},
		"the object asks for more":     {func(b *bench) { b.subject.outdated = true }, false},
		"the object is deleted":        {func(b *bench) { _ = b.client.Delete(b.t.Context(), b.object) }, false},
		"the Cluster is paused":        {func(b *bench) { b.pauseCluster() }, false},
		"another process leads by now": {func(b *bench) { b.kind.Runs.Fence = refuse }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.executor.planned = func() { test.meanwhile(b) }
			b.apply("digest-1")
			if got := len(b.stateSecrets()) == 1; got != test.applied {
				t.Errorf("applied is %t", got)
			}
		})
	}
}

func refuse(context.Context) error { return terraform.ErrCancelled }

func (b *bench) pauseCluster() {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	pause := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"paused":true}}`))
	if err := b.client.Patch(b.t.Context(), cluster, pause); err != nil || !ptr.Deref(cluster.Spec.Paused, false) {
		b.t.Errorf("the Cluster is not paused: %v", err)
	}
}

// TestCancelledRun has a run that is no longer wanted. It is not a failure, and causes no event.
func TestCancelledRun(t *testing.T) {
	b := newBench(t)
	b.subject.outdated = true
	b.apply("digest-1")

	w := b.observe()
	check.Equal(t, "w.Failure.Count", w.Failure.Count, 0)
	if w.Ended != nil {
		t.Errorf("w.Ended is there: %v", w.Ended)
	}

	if b.object.Status.Terraform != nil {
		t.Errorf("b.object.Status.Terraform is there: %v", b.object.Status.Terraform)
	}

	check.Equal(t, "len(b.recorder.Events)", len(b.recorder.Events), 0)

	b.subject.outdated = false
	if err := w.Apply(t.Context(), b.request("digest-1")); err != nil || w.Action.Kind != Apply {
		t.Errorf("the action is %+v, %v", w.Action, err)
	}
}

func TestObserveRefusesAnOlderState(t *testing.T) {
	b := newBench(t)
	b.apply("digest-1")
	b.observe().DropRecordedRun()
	b.object.Status.Terraform.StateSerial = 7

	w := b.observe()
	var invalid *tfstate.InvalidError
	check.Equal(t, "errors.As(w.StateErr, &invalid)", errors.As(w.StateErr, &invalid), true)
	check.Contains(t, "invalid.Reason", invalid.Reason, "older state")
	if w.State != nil {
		t.Errorf("w.State is there: %v", w.State)
	}

	if t.Failed() {
		t.FailNow()
	}

	if err := w.Apply(t.Context(), b.request("digest-2")); err != nil || w.Action.Kind != Block {
		t.Errorf("the action is %+v, %v", w.Action, err)
	}
}

func TestObserveLeavesTheStateOfAMovedObject(t *testing.T) {
	b := newBench(t)
	b.apply("digest-1")
	b.observe().DropRecordedRun()
	metav1.SetMetaDataAnnotation(&b.object.ObjectMeta, clusterctlv1.DeleteForMoveAnnotation, "")
	b.object.DeletionTimestamp = ptr.To(metav1.Now())

	if w := b.observe(); w.State != nil || w.StateErr != nil {
		t.Errorf("the state was read: %+v, %v", w.State, w.StateErr)
	}
}

func TestFailureReason(t *testing.T) {
	tests := map[string]struct {
		err    error
		reason string
	}{
		"the guard refused":          {&terraform.GuardError{}, infrav1.ReplaceRefusedReason},
		"the state is newer":         {&terraform.StateVersionError{}, infrav1.StateInvalidReason},
		"the state cannot be read":   {&tfstate.InvalidError{}, infrav1.StateInvalidReason},
		"the state is too large":     {&tfstate.TooLargeError{}, infrav1.StateTooLargeReason},
		"the run took too long":      {&terraform.TimeoutError{}, infrav1.TimedOutReason},
		"the disk is full":           {&terraform.DiskFullError{}, infrav1.WorkDirFullReason},
		"the executor was killed":    {&terraform.KilledError{}, infrav1.ExecutorKilledReason},
		"the engine said something":  {errors.New("400 Bad Request"), infrav1.ApplyFailedReason},
		"a cause deeper in an error": {fmt.Errorf("run: %w", &terraform.GuardError{}), infrav1.ReplaceRefusedReason},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (Failure{Err: test.err}).Reason(); got != test.reason {
				t.Errorf("the reason is %s, want %s", got, test.reason)
			}
		})
	}
}
