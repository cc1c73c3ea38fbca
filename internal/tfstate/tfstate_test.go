package tfstate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func state(lineage string, serial int, vm string) []byte {
	resources := ""
	if vm != "" {
		resources = fmt.Sprintf(
			`{"mode":"managed","type":"ovirt_vm","name":"this","instances":[{"attributes":{"id":%q}}]}`,
			vm,
		)
	}

	return fmt.Appendf(
		nil,
		`{"version":4,"terraform_version":"1.11.4","serial":%d,"lineage":%q,"outputs":{},"resources":[%s]}`,
		serial, lineage, resources,
	)
}

func newStore(t *testing.T) (*Store, client.Client, *corev1.ConfigMap) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	c := fake.NewClientBuilder().WithScheme(scheme).Build()

	// Any object can own a state, because the store does not know the project's kinds.
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-1", UID: "5f0c"}}

	return &Store{Client: c, Reader: c}, c, owner
}

func TestUserDataIsTakenOutOfAState(t *testing.T) {
	store, _, owner := newStore(t)
	ctx := t.Context()
	check.Error(t, store.ForgetUserData(ctx, owner, "demo"), "") // there is no user data yet

	const before = `{"version":4,"terraform_version":"1.11.4","serial":7,"lineage":"a","outputs":{},"resources":[` +
		`{"mode":"managed","type":"ovirt_vm","name":"this","instances":[{"attributes":{"id":"0f9b","memory":9007199254740993,` +
		`"initialization_custom_script":"#cloud-config\nkey: secret"},"private":"eyJ4"}]},` +
		`{"mode":"managed","type":"ovirt_nic","name":"nic1","instances":[{"attributes":{"id":"2"}}]}]}`
	check.Error(t, store.Save(ctx, owner, "demo", []byte(before)), "")
	check.Error(t, store.ForgetUserData(ctx, owner, "demo"), "")

	loaded, err := store.Load(ctx, owner)
	check.Error(t, err, "")
	check.Equal(t, "serial", loaded.Serial, 8)
	check.Equal(t, "VM", loaded.VMID(), "0f9b")
	check.Lacks(t, "state", string(loaded.Bytes()), "secret")

	var got, want any
	check.Error(t, json.Unmarshal(loaded.Bytes(), &got), "")
	check.Error(t, json.Unmarshal([]byte(strings.NewReplacer(`"#cloud-config\nkey: secret"`, "null", `"serial":7`, `"serial":8`).
		Replace(before)), &want), "")
	check.Equal(t, "the rest", got, want)
	check.Contains(t, "a large number", string(loaded.Bytes()), "9007199254740993")

	check.Error(t, store.ForgetUserData(ctx, owner, "demo"), "")
	again, err := store.Load(ctx, owner)
	check.Error(t, err, "")
	check.Equal(t, "serial where nothing was to be done", again.Serial, 8)
}

func TestAStateIsKeptInTheFormatOfTerraformsBackend(t *testing.T) {
	store, c, owner := newStore(t)
	ctx := t.Context()
	if loaded, err := store.Load(ctx, owner); err != nil || loaded != nil || !loaded.Empty() ||
		loaded.ResourceID("ovirt_vm") != "" || loaded.Bytes() != nil {
		t.Fatalf("no state was read as %+v, %v", loaded, err)
	}

	if err := store.Save(ctx, owner, "demo", state("l", 1, "vm-1")); err != nil {
		t.Fatal(err)
	}

	if err := store.Save(ctx, owner, "demo", state("l", 2, "vm-1")); err != nil {
		t.Fatal(err)
	}

	if err := store.MarkApplied(ctx, owner, "digest"); err != nil {
		t.Fatal(err)
	}

	if err := store.Save(ctx, owner, "demo", state("l", 3, "vm-1")); err != nil {
		t.Fatal(err)
	}

	loaded, err := store.Load(ctx, owner)
	check.Error(t, err, "")
	check.Equal(t, "loaded.Serial", loaded.Serial, 3)
	check.Equal(t, `loaded.ResourceID("ovirt_vm")`, loaded.ResourceID("ovirt_vm"), "vm-1")
	check.Equal(t, "loaded.Empty()", loaded.Empty(), false)
	check.Equal(t, "loaded.AppliedDigest", loaded.AppliedDigest, "digest")
	if t.Failed() {
		t.FailNow()
	}

	var secret corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "tfstate-default-demo-1"}, &secret); err != nil {
		t.Fatal(err)
	}

	for key, want := range map[string]string{
		"tfstate":                       "true",
		"tfstateSecretSuffix":           "demo-1",
		"tfstateWorkspace":              "default",
		"app.kubernetes.io/managed-by":  "terraform",
		"cluster.x-k8s.io/cluster-name": "demo", "clusterctl.cluster.x-k8s.io/move": "",
	} {
		if got, ok := secret.Labels[key]; !ok || got != want {
			t.Errorf("label %s is %q", key, got)
		}
	}

	check.Equal(t, `secret.Annotations["encoding"]`, secret.Annotations["encoding"], "gzip")
	check.Length(t, "secret.OwnerReferences", secret.OwnerReferences, 1)
	check.Length(t, "secret.Finalizers", secret.Finalizers, 1)

	var conflict *ConflictError
	if err := store.Delete(ctx, owner); !errors.As(err, &conflict) {
		t.Errorf("a state that describes a VM was deleted: %v", err)
	}

	if err := store.Save(ctx, owner, "demo", state("l", 4, "")); err != nil {
		t.Fatal(err)
	}

	if err := store.Delete(ctx, owner); err != nil {
		t.Fatal(err)
	}

	if err := store.Delete(ctx, owner); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}

func TestAStateIsGivenBackToItsOwner(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "tfstate-default-demo-1"}
	stranger := metav1.OwnerReference{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Name:       "other",
		UID:        "0",
		Controller: ptr.To(true),
	}

	tests := map[string]struct {
		change  func(*corev1.Secret)
		refused bool
		// same expects neither a write nor a repair.
		same bool
	}{
		"nothing is lost": {func(*corev1.Secret) {}, false, true},
		"all is lost, as in a restored backup": {func(s *corev1.Secret) {
			s.OwnerReferences = nil
			s.Finalizers = nil
			s.Labels = nil
			s.Annotations = nil
		}, false, false},
		"the owner was made anew": {func(s *corev1.Secret) { s.OwnerReferences[0].UID = "old" }, false, false},
		"the finalizer is lost":   {func(s *corev1.Secret) { s.Finalizers = nil }, false, false},
		"somebody's own label stays": {func(s *corev1.Secret) {
			s.Labels["team"] = "a"
			s.Finalizers = nil
		}, false, false},
		"somebody else controls it": {func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{stranger}
		}, true, true},
		"it cannot be used": {func(s *corev1.Secret) {
			s.Data[dataKey] = []byte("x")
			s.Finalizers = nil
		}, true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, c, owner := newStore(t)
			if state, err := store.LoadAndRepair(t.Context(), owner, "demo"); state != nil || err != nil {
				t.Fatalf("there is no state, and Hold returned %+v, %v", state, err)
			}

			if err := store.Save(t.Context(), owner, "demo", state("l", 1, "vm-1")); err != nil {
				t.Fatal(err)
			}

			var saved, changed, held corev1.Secret
			if err := c.Get(t.Context(), key, &saved); err != nil {
				t.Fatal(err)
			}

			changing := saved.DeepCopy()
			test.change(changing)
			if err := c.Update(t.Context(), changing); err != nil {
				t.Fatal(err)
			}

			if err := c.Get(t.Context(), key, &changed); err != nil {
				t.Fatal(err)
			}

			loaded, err := store.LoadAndRepair(t.Context(), owner, "demo")
			if (err != nil) != test.refused || err == nil && loaded.ResourceID("ovirt_vm") != "vm-1" {
				t.Fatalf("Hold returned %+v, %v", loaded, err)
			}

			if err := c.Get(t.Context(), key, &held); err != nil {
				t.Fatal(err)
			}

			if test.same {
				if held.ResourceVersion != changed.ResourceVersion {
					t.Error("the Secret was written")
				}

				return
			}

			check.Equal(
				t, "slices.Equal(held.Finalizers, saved.Finalizers)", slices.Equal(held.Finalizers, saved.Finalizers),
				true,
			)
			check.Equal(
				t, "reflect.DeepEqual(held.OwnerReferences, saved.OwnerReferences)",
				reflect.DeepEqual(held.OwnerReferences, saved.OwnerReferences), true,
			)
			check.Equal(t, `held.Annotations["encoding"]`, held.Annotations["encoding"], "gzip")

			for label, value := range saved.Labels {
				if held.Labels[label] != value {
					t.Errorf("label %s is %q", label, held.Labels[label])
				}
			}

			if held.Labels["team"] != changed.Labels["team"] || !bytes.Equal(held.Data[dataKey], saved.Data[dataKey]) {
				t.Errorf("labels %v, and the state changed: %t", held.Labels,
					!bytes.Equal(held.Data[dataKey], saved.Data[dataKey]))
			}
		})
	}
}

// TestASaveSeesWhatOthersDidSinceTheLastOne changes and deletes the Secret between the saves of a run.
func TestASaveSeesWhatOthersDidSinceTheLastOne(t *testing.T) {
	store, c, owner := newStore(t)
	if _, err := store.Load(t.Context(), owner); err != nil {
		t.Fatal(err)
	}

	get := func() *corev1.Secret {
		t.Helper()
		var secret corev1.Secret
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: store.SecretName(owner)}, &secret)
		if err != nil {
			t.Fatal(err)
		}

		return &secret
	}
	saved := func(serial int) {
		t.Helper()
		if err := store.Save(t.Context(), owner, "demo", state("l", serial, "vm-1")); err != nil {
			t.Fatal(err)
		}

		got, err := (&Store{Client: c, Reader: c}).Load(t.Context(), owner)
		if err != nil || got.Serial != uint64(serial) { //nolint:gosec // small
			t.Errorf("the state has serial %d, want %d, %v", got.Serial, serial, err)
		}
	}
	made := &Store{Client: c, Reader: c} // another process also saw no state, and saved first
	if err := made.Save(t.Context(), owner, "demo", state("l", 1, "vm-1")); err != nil {
		t.Fatal(err)
	}

	saved(2)
	secret := get()
	secret.Labels["team"] = "blue"
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}

	saved(3)
	if got := get().Labels["team"]; got != "blue" {
		t.Errorf("the label of somebody else is %q", got)
	}

	secret = get()
	secret.Finalizers = nil
	if err := errors.Join(c.Update(t.Context(), secret), c.Delete(t.Context(), secret)); err != nil {
		t.Fatal(err)
	}

	saved(4)
	if err := made.Save(t.Context(), owner, "demo", state("l", 6, "vm-1")); err != nil {
		t.Fatal(err)
	}

	var conflict *ConflictError
	if err := store.Save(t.Context(), owner, "demo", state("l", 5, "vm-1")); !errors.As(err, &conflict) {
		t.Errorf("an older state was saved over a newer one: %v", err)
	}
}

// slowReader calls meanwhile after its read, and before it answers.
type slowReader struct {
	client.Reader
	meanwhile func()
}

func (r *slowReader) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	err := r.Reader.Get(ctx, key, object, options...)
	if act := r.meanwhile; act != nil {
		r.meanwhile = nil
		act()
	}

	return err
}

// TestALookThatWasOvertakenBySavesDoesNotBringTheOldStateBack has a run that saves and marks a newer state during a
// lookup. In one case, another process writes between the last save and the mark.
func TestALookThatWasOvertakenBySavesDoesNotBringTheOldStateBack(t *testing.T) {
	for name, meddled := range map[string]bool{"": false, "and somebody else wrote": true} {
		t.Run(name, func(t *testing.T) {
			store, c, owner := newStore(t)
			reader := &slowReader{Reader: c}
			store.Reader, store.Metadata = reader, c
			save := func(serial int) {
				t.Helper()
				if err := store.Save(t.Context(), owner, "demo", state("l", serial, "vm-1")); err != nil {
					t.Fatal(err)
				}
			}
			save(1)
			store.dropHeld(owner)
			mark := func() {
				if meddled {
					other := &Store{Client: c, Reader: c}
					if err := other.Save(t.Context(), owner, "demo", state("l", 9, "vm-1")); err != nil {
						t.Fatal(err)
					}
				}

				var conflict *ConflictError // the mark must not apply to another process's state
				err := store.MarkApplied(t.Context(), owner, "digest")
				check.Equal(t, "the mark is refused", errors.As(err, &conflict), meddled)
			}
			reader.meanwhile = func() { save(2) }
			if _, err := store.LoadAndRepair(t.Context(), owner, "demo"); err != nil {
				t.Fatal(err)
			}

			mark()
			want, digest := uint64(2), "digest"
			if meddled {
				want, digest = 9, ""
			}

			got, err := store.LoadAndRepair(t.Context(), owner, "demo")
			check.Error(t, err, "")
			check.Equal(t, "got.Serial", got.Serial, want)
			check.Equal(t, "got.AppliedDigest", got.AppliedDigest, digest)
		})
	}
}

// busy is a client whose first writes end with a conflict.
type busy struct {
	client.Client
	conflicts int
}

func (b *busy) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if b.conflicts > 0 {
		b.conflicts--
		return apierrors.NewConflict(corev1.Resource("secrets"), object.GetName(), errors.New("somebody wrote"))
	}

	return b.Client.Update(ctx, object, options...)
}

func TestAStateIsSavedAlthoughOthersWriteToItsSecret(t *testing.T) {
	store, c, owner := newStore(t)
	if err := store.Save(t.Context(), owner, "demo", state("l", 1, "vm-1")); err != nil {
		t.Fatal(err)
	}

	contended := &busy{Client: c, conflicts: 2}
	store.Client = contended
	if err := store.Save(t.Context(), owner, "demo", state("l", 2, "vm-1")); err != nil || contended.conflicts != 0 {
		t.Fatalf("%d conflicts are left, %v", contended.conflicts, err)
	}

	if err := store.MarkApplied(t.Context(), owner, "digest"); err != nil {
		t.Fatal(err)
	}

	contended.conflicts = 1
	var secret corev1.Secret
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "tfstate-default-demo-1"}, &secret)
	if err != nil {
		t.Fatal(err)
	}

	secret.Finalizers = nil
	if err := c.Update(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}

	loaded, err := store.LoadAndRepair(t.Context(), owner, "demo")
	check.Error(t, err, "")
	check.Equal(t, "loaded.Serial", loaded.Serial, 2)
	check.Equal(t, "loaded.AppliedDigest", loaded.AppliedDigest, "digest")
	check.Equal(t, "contended.conflicts", contended.conflicts, 0)
}

func TestAStateIsNotOverwrittenByAnOlderOne(t *testing.T) {
	tests := map[string]struct {
		stored, next []byte
		refused      bool
	}{
		"a later serial":                    {state("l", 5, "vm"), state("l", 6, "vm"), false},
		"the same serial again":             {state("l", 5, "vm"), state("l", 5, "vm"), false},
		"an older serial":                   {state("l", 5, "vm"), state("l", 4, "vm"), true},
		"another lineage":                   {state("l", 5, "vm"), state("m", 6, "vm"), true},
		"another lineage over an empty one": {state("l", 5, ""), state("m", 1, "vm"), false},
		"something that is no state":        {state("l", 5, "vm"), []byte("{"), true},
		"a format that nobody knows": {
			state("l", 5, "vm"),
			[]byte(`{"version":5,"lineage":"l","serial":9}`),
			true,
		},
		"a state without a lineage":           {state("l", 5, "vm"), []byte(`{"version":4,"serial":9}`), true},
		"an empty file after a disk was full": {state("l", 5, "vm"), nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, _, owner := newStore(t)
			if err := store.Save(t.Context(), owner, "demo", test.stored); err != nil {
				t.Fatal(err)
			}

			err := store.Save(t.Context(), owner, "demo", test.next)
			if (err != nil) != test.refused {
				t.Fatalf("got %v", err)
			}

			want := test.next
			if test.refused {
				want = test.stored
			}

			if loaded, err := store.Load(t.Context(), owner); err != nil || !bytes.Equal(loaded.Raw, want) {
				t.Errorf("stored is %s, %v", loaded.Bytes(), err)
			}
		})
	}
}

func TestAStateThatCannotBeUsedIsReportedAndKept(t *testing.T) {
	pack := func(content string) []byte {
		var out bytes.Buffer
		writer := gzip.NewWriter(&out)
		_, _ = writer.Write([]byte(content))
		_ = writer.Close()

		return out.Bytes()
	}

	whole := pack(string(state("l", 1, "vm")))
	for name, data := range map[string][]byte{
		"not gzip":       []byte("plain"),
		"truncated":      whole[:len(whole)-9],
		"not JSON":       pack("{"),
		"another format": pack(`{"version":3,"lineage":"l"}`),
		"nothing":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			store, c, owner := newStore(t)
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace:  "default",
					Name:       SecretName(owner),
					Finalizers: []string{Finalizer},
				},
				Data: map[string][]byte{"tfstate": data},
			}
			if err := c.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}

			var invalid *InvalidError
			_, err := store.Load(t.Context(), owner)
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "default/tfstate-default-demo-1") {
				t.Errorf("load: %v", err)
			}

			if err := store.Save(t.Context(), owner, "demo", state("l", 9, "vm")); !errors.As(err, &invalid) {
				t.Errorf("save: %v", err)
			}

			if givenUp, err := store.ReleaseGivenUp(t.Context(), owner); err != nil || givenUp {
				t.Errorf("given up: %t, %v", givenUp, err)
			}

			if err := c.Delete(t.Context(), secret); err != nil {
				t.Fatal(err)
			}

			if givenUp, err := store.ReleaseGivenUp(t.Context(), owner); err != nil || !givenUp {
				t.Errorf("after its deletion, given up: %t, %v", givenUp, err)
			}

			if loaded, err := store.Load(t.Context(), owner); err != nil || loaded != nil {
				t.Errorf("it is still there: %v, %v", loaded, err)
			}
		})
	}
}

func TestNamesFitIntoLabels(t *testing.T) {
	fits := strings.Repeat("a", 63)
	check.Equal(t, "the longest name that fits", shortenSuffix(fits), fits)

	long, other := shortenSuffix(fits+"a"), shortenSuffix(fits+"b")
	check.Equal(t, "length of a longer one", len(long), 63)
	check.Equal(t, "it begins with the name", strings.HasPrefix(long, fits[:54]+"-"), true)
	check.Equal(t, "two that begin alike are the same", long == other, false)

	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	check.Equal(t, "name of a Secret", (&Store{Prefix: "olvmcluster."}).SecretName(owner),
		"tfstate-default-olvmcluster.demo")
}

// TestARunReadsTheSecretOnce covers the saves of one run, and those of the next.
func TestARunReadsTheSecretOnce(t *testing.T) {
	r := newRemembering(t)
	reads := func(what string, want int, act func() error) {
		t.Helper()
		before := r.reader.gets
		check.Error(t, act(), "")
		check.Equal(t, "reads of "+what, r.reader.gets-before, want)
	}
	save := func(serial int, digest string) func() error {
		return func() error {
			return r.SaveApplied(t.Context(), r.owner, "demo", state("l", serial, "vm-1"), digest)
		}
	}

	reads("the first save", 1, save(1, ""))
	reads("the second", 0, save(2, ""))
	reads("the last one, with a digest", 0, save(3, "digest"))
	check.Equal(t, "Secrets that are kept after the run", len(r.latest), 0)
	reads("the first save of the next run", 1, save(4, ""))
	reads("a mark", 0, func() error { return r.MarkApplied(t.Context(), r.owner, "other") })
	check.Equal(t, "Secrets that are kept after the mark", len(r.latest), 0)
	reads("taking out user data", 1, func() error { return r.ForgetUserData(t.Context(), r.owner, "demo") })
	check.Equal(t, "Secrets that are kept after that", len(r.latest), 0)
	reads("a load", 1, func() error {
		_, err := r.Load(t.Context(), r.owner)
		return err
	})
	reads("the save that follows it", 0, save(5, ""))
	r.DropOwner(client.ObjectKeyFromObject(r.owner))
	reads("a save after the owner was forgotten", 1, save(6, ""))
}

func TestWhatAStateHas(t *testing.T) {
	tests := map[string]struct {
		resources, vm string
		empty         bool
	}{
		"nothing": {"", "", true},
		"a VM":    {`{"mode":"managed","type":"ovirt_vm","instances":[{"attributes":{"id":"a"}}]}`, "a", false},
		"a VM that was taken over": {
			`{"mode":"managed","type":"ovirt_adopted_vm","instances":[{"attributes":{"id":"b"}}]}`, "b", false,
		},
		"a resource without instances": {`{"mode":"managed","type":"ovirt_vm","instances":[]}`, "", true},
		"what was only read": {
			`{"mode":"data","type":"ovirt_vm","instances":[{"attributes":{"id":"a"}}]}`, "", true,
		},
		"something else": {
			`{"mode":"managed","type":"ovirt_nic","instances":[{"attributes":{"id":"a"}}]}`, "", false,
		},
		"no instances, and then one": {
			`{"mode":"managed","type":"ovirt_vm","instances":[]},` +
				`{"mode":"managed","type":"ovirt_vm","instances":[{"attributes":{"id":"c"}}]}`, "c", false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(`{"version":4,"lineage":"l","resources":[` + test.resources + `]}`))
			check.Error(t, err, "")
			check.Equal(t, "it is empty", got.Empty(), test.empty)
			check.Equal(t, "VM", got.VMID(), test.vm)
		})
	}
}

func TestAStateIsComplete(t *testing.T) {
	with, err := Parse(state("l", 1, "vm-1"))
	check.Error(t, err, "")
	without, err := Parse(state("l", 1, ""))
	check.Error(t, err, "")

	tests := map[string]struct {
		state  *State
		digest string
		want   bool
	}{
		"with a VM, and applied":          {with, "digest", true},
		"with a VM, while a run goes on":  {with, "", false},
		"without a VM, and applied":       {without, "digest", false},
		"without a VM, before any is run": {without, "", false},
	}
	for name, test := range tests {
		state := *test.state
		state.AppliedDigest = test.digest
		check.Equal(t, name, state.IsComplete(), test.want)
	}

	check.Equal(t, "none", (*State)(nil).IsComplete(), false)
}

// failingClient lets writes with these verbs fail.
type failingClient struct {
	client.Client
	fails map[string]error
}

func (c *failingClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := c.fails["create"]; err != nil {
		return err
	}

	return c.Client.Create(ctx, object, options...)
}

func (c *failingClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := c.fails["update"]; err != nil {
		return err
	}

	return c.Client.Update(ctx, object, options...)
}

func (c *failingClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.fails["delete"]; err != nil {
		return err
	}

	return c.Client.Delete(ctx, object, options...)
}

func (c *failingClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if err := c.fails["patch"]; err != nil {
		return err
	}

	return c.Client.Patch(ctx, object, patch, options...)
}

// TestWritesThatTheAPIServerRefuses distinguishes errors to report from those that are already resolved or soon
// retried.
func TestWritesThatTheAPIServerRefuses(t *testing.T) {
	secrets, cause := corev1.Resource("secrets"), errors.New("because")
	forbidden := apierrors.NewForbidden(secrets, "s", cause)
	conflict := apierrors.NewConflict(secrets, "s", cause)
	gone := apierrors.NewNotFound(secrets, "s")

	hold := func(r *remembering) error {
		secret := r.secret()
		secret.Labels = nil
		check.Error(r.t, r.api.Update(r.t.Context(), secret), "")
		r.fill(nil)
		got, err := r.LoadAndRepair(r.t.Context(), r.owner, "demo")
		check.Equal(r.t, "the state is returned", got.VMID() == "vm-1", err == nil)

		return err
	}
	givenUp := func(r *remembering) error {
		check.Error(r.t, r.api.Delete(r.t.Context(), r.secret()), "")
		got, err := r.ReleaseGivenUp(r.t.Context(), r.owner)
		check.Equal(r.t, "it is given up", got, err == nil)

		return err
	}
	remove := func(r *remembering) error {
		other := &Store{Client: r.api, Reader: r.api}
		check.Error(r.t, other.Save(r.t.Context(), r.owner, "demo", state("l", 2, "")), "")

		return r.Delete(r.t.Context(), r.owner)
	}
	mark := func(r *remembering) error { return r.MarkApplied(r.t.Context(), r.owner, "digest") }
	save := func(r *remembering) error {
		return r.Save(r.t.Context(), r.owner, "demo", state("l", 2, "vm-1"))
	}

	tests := map[string]struct {
		verb    string
		fails   error
		act     func(*remembering) error
		problem string
	}{
		"giving a Secret back":                          {"update", forbidden, hold, "failed to give the state Secret"},
		"giving a Secret back that a run saves":         {"update", conflict, hold, ""},
		"giving a Secret back that is gone":             {"update", gone, hold, ""},
		"letting a Secret go that is given up":          {"update", forbidden, givenUp, "failed to release the state"},
		"letting a Secret go that is gone":              {"update", gone, givenUp, ""},
		"letting a Secret go that is deleted":           {"update", forbidden, remove, "failed to release the state"},
		"letting a Secret go that is deleted and gone":  {"update", gone, remove, ""},
		"deleting a Secret":                             {"delete", forbidden, remove, "failed to delete the state"},
		"deleting a Secret that is gone":                {"delete", gone, remove, ""},
		"deleting a Secret that was made anew":          {"delete", conflict, remove, ""},
		"marking a state":                               {"patch", forbidden, mark, "failed to mark the state Secret"},
		"marking a state that is gone: nothing is made": {"patch", gone, mark, ""},
		"saving a state": {
			"update", forbidden, save, "failed to write the state Secret",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRemembering(t)
			r.save(1)
			r.Client = &failingClient{Client: r.api, fails: map[string]error{test.verb: test.fails}}
			err := test.act(r)
			check.Error(t, err, test.problem)

			if test.problem != "" {
				check.Equal(t, "the cause is kept", apierrors.IsForbidden(err), true)
			}
		})
	}
}

// TestASaveThatFailedMayHaveBeenWritten has an API server whose answer is lost.
func TestASaveThatFailedMayHaveBeenWritten(t *testing.T) {
	r := newRemembering(t)
	r.save(1)
	r.wantHold("before it", 1, 0)
	r.Client = &failingClient{Client: r.api, fails: map[string]error{"update": errors.New("connection reset")}}
	check.Error(t, r.Save(t.Context(), r.owner, "demo", state("l", 2, "vm-1")), "connection reset")
	r.wantHold("after it", 1, 1)
}

// TestASaveWhoseTimeIsUpIsAnError ends the time for a save. A state that was not saved must not count as saved.
func TestASaveWhoseTimeIsUpIsAnError(t *testing.T) {
	r := newRemembering(t)
	r.save(1)

	late := fmt.Errorf("failed to write: %w", context.DeadlineExceeded)
	r.Client = &failingClient{Client: r.api, fails: map[string]error{"update": late}}
	check.Error(t, r.Save(t.Context(), r.owner, "demo", state("l", 2, "vm-1")), "context deadline exceeded")
}

// TestAStateThatIsDeletedOrUnreadableIsLeftAlone has states about which only an administrator can decide.
func TestAStateThatIsDeletedOrUnreadableIsLeftAlone(t *testing.T) {
	unreadable := func(s *corev1.Secret) { s.Data[dataKey] = []byte("x") }

	tests := map[string]struct {
		change  func(*corev1.Secret)
		deleted bool
		act     func(*remembering) error
		problem string
	}{
		"a look at one that is deleted": {
			func(s *corev1.Secret) { s.Labels = nil }, true, func(r *remembering) error {
				_, err := r.LoadAndRepair(r.t.Context(), r.owner, "demo")
				return err
			}, "",
		},
		"a deletion of one that cannot be read": {
			unreadable, false, func(r *remembering) error { return r.Delete(r.t.Context(), r.owner) },
			"it is not gzip",
		},
		"user data of one that cannot be read": {
			unreadable, false, func(r *remembering) error {
				return r.ForgetUserData(r.t.Context(), r.owner, "demo")
			}, "it is not gzip",
		},
		"one that nobody deletes is not given up": {
			unreadable, false, func(r *remembering) error {
				givenUp, err := r.ReleaseGivenUp(r.t.Context(), r.owner)
				check.Equal(r.t, "it is given up", givenUp, false)

				return err
			}, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRemembering(t)
			r.save(1)
			secret := r.secret()
			test.change(secret)
			check.Error(t, r.api.Update(t.Context(), secret), "")

			if test.deleted {
				check.Error(t, r.api.Delete(t.Context(), secret), "")
			}

			r.DropOwner(client.ObjectKeyFromObject(r.owner))
			before := r.secret().ResourceVersion
			check.Error(t, test.act(r), test.problem)
			check.Equal(t, "version of the Secret", r.secret().ResourceVersion, before)
		})
	}
}

func TestInstancesAreReadByTheirKeys(t *testing.T) {
	state, err := Parse([]byte(`{"version": 4, "serial": 1, "lineage": "l", "resources": [
		{"mode": "data", "type": "ovirt_affinity_group", "name": "d", "instances": [{"attributes": {"id": "no"}}]},
		{"module": "module.cluster", "mode": "managed", "type": "ovirt_affinity_group", "name": "this", "instances": [
			{"index_key": "a/1", "attributes": {"id": "x", "enforcing": true, "priority": 5}}, {"index_key": "b/1", "attributes": {"id": 7, "enforcing": "no", "affinity_group_id": "z"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}

	got := state.Instances("ovirt_affinity_group")
	check.Length(t, "got", got, 2)
	check.Equal(t, "got[0].Key", got[0].Key, "a/1")
	check.Equal(t, "got[0].ID", got[0].ID, "x")
	check.Equal(t, "got[0].Enforcing", got[0].Enforcing, true)
	check.Equal(t, "got[1].Enforcing", got[1].Enforcing, false)
	check.Equal(t, "an ID that is no text", got[1].ID, "")
	check.Equal(t, "got[1].AffinityGroupID", got[1].AffinityGroupID, "z")

	brief := state.withoutText()
	check.Equal(t, "brief", brief.Instances("ovirt_affinity_group"), got)
	check.Length(t, "the text of the brief", brief.Raw, 0)

	if none := (*State)(nil).Instances("ovirt_affinity_group"); none != nil {
		t.Errorf("no state has %+v", none)
	}
}

// TestAChangeIsRecordedUntilOneIsAppliedInFull checks the marks of a state during a change.
func TestAChangeIsRecordedUntilOneIsAppliedInFull(t *testing.T) {
	store, _, owner := newStore(t)
	ctx := t.Context()
	marks := func() []string {
		t.Helper()
		loaded, err := store.Load(ctx, owner)
		check.Error(t, err, "")

		return []string{loaded.AppliedDigest, loaded.ChangingFrom, loaded.ChangeAdds}
	}

	check.Error(t, store.MarkChanging(ctx, owner, "a", "adds"), "") // there is no state to mark
	check.Error(t, store.Save(ctx, owner, "demo", state("l", 1, "vm-1")), "")
	check.Error(t, store.MarkApplied(ctx, owner, "a"), "")
	check.Equal(t, "applied", marks(), []string{"a", "", ""})
	check.Error(t, store.MarkChanging(ctx, owner, "a", "adds"), "")
	check.Equal(t, "while it is changed", marks(), []string{"", "a", "adds"})
	check.Error(t, store.Save(ctx, owner, "demo", state("l", 2, "vm-1")), "")
	check.Equal(t, "after a save", marks(), []string{"", "a", "adds"})

	loaded, err := store.Load(ctx, owner)
	check.Error(t, err, "")
	check.Equal(t, "it is complete", loaded.IsComplete(), false)
	check.Equal(t, "it was applied", loaded.WasApplied(), true)

	check.Error(t, store.MarkApplied(ctx, owner, "b"), "")
	check.Equal(t, "applied again", marks(), []string{"b", "", ""})
	check.Error(t, store.MarkChanging(ctx, owner, "b", ""), "")
	check.Error(t, store.SaveApplied(ctx, owner, "demo", state("l", 3, "vm-1"), "c"), "")
	check.Equal(t, "saved as applied", marks(), []string{"c", "", ""})
}

// TestAHaltedLeaderMarksNothingThatItsSuccessorHasChanged halts a process before it marks the result of its run.
func TestAHaltedLeaderMarksNothingThatItsSuccessorHasChanged(t *testing.T) {
	halted, api, owner := newStore(t)
	ctx := t.Context()
	check.Error(t, halted.Save(ctx, owner, "demo", state("l", 1, "vm-1")), "")

	successor := &Store{Client: api, Reader: api}
	_, err := successor.Load(ctx, owner)
	check.Error(t, err, "")
	check.Error(t, successor.MarkChanging(ctx, owner, "a", "adds"), "")

	var conflict *ConflictError
	check.Equal(t, "the halted one is refused", errors.As(halted.MarkApplied(ctx, owner, "b"), &conflict), true)

	loaded, err := successor.Load(ctx, owner)
	check.Error(t, err, "")
	check.Equal(t, "applied", loaded.AppliedDigest, "")
	check.Equal(t, "changing from", loaded.ChangingFrom, "a")
}

// TestAMarkThatIsHaltedOnItsWayChangesNothingOfItsSuccessor halts a leader while its request to mark a state is on its
// way, at different points of its run. The request arrives after the successor has begun a change.
func TestAMarkThatIsHaltedOnItsWayChangesNothingOfItsSuccessor(t *testing.T) {
	const conflicts = "another write has come between"

	for name, prepare := range map[string]func(t *testing.T, halted *Store, owner client.Object){
		"the run has saved a state": func(*testing.T, *Store, client.Object) {},
		conflicts: func(t *testing.T, halted *Store, owner client.Object) {
			t.Helper()
			secret, err := halted.fetchSecret(t.Context(), owner)
			check.Error(t, err, "")
			metav1.SetMetaDataLabel(&secret.ObjectMeta, "a", "b")
			check.Error(t, halted.Client.Update(t.Context(), secret), "")
		},
		"the run has marked a change, and saved nothing": func(t *testing.T, halted *Store, owner client.Object) {
			t.Helper()
			check.Error(t, halted.MarkChanging(t.Context(), owner, "", ""), "")
		},
		"no run is known": func(t *testing.T, halted *Store, owner client.Object) {
			t.Helper()
			halted.EndJob(owner)
		},
	} {
		t.Run(name, func(t *testing.T) {
			halted, api, owner := newStore(t)
			ctx := t.Context()
			check.Error(t, halted.Save(ctx, owner, "demo", state("l", 1, "vm-1")), "")
			prepare(t, halted, owner)

			successor := &Store{Client: api, Reader: api}
			begin := func() {
				_, err := successor.Load(ctx, owner)
				check.Error(t, err, "")
				check.Error(t, successor.MarkChanging(ctx, owner, "a", "adds"), "")
			}
			late := &haltedClient{Client: api, meanwhile: begin, arrives: 1}
			if name == conflicts {
				late.arrives = 2 // the API server refuses the first request
			}

			halted.Client = late

			var conflict *ConflictError
			check.Equal(t, "it is refused", errors.As(halted.MarkApplied(ctx, owner, "b"), &conflict), true)

			loaded, err := successor.Load(ctx, owner)
			check.Error(t, err, "")
			check.Equal(t, "applied", loaded.AppliedDigest, "")
			check.Equal(t, "changing from", loaded.ChangingFrom, "a")
		})
	}
}

// haltedClient is the client of a process that is halted before one of its patches arrives.
type haltedClient struct {
	client.Client
	meanwhile func()
	arrives   int
}

func (c *haltedClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if c.arrives--; c.arrives == 0 {
		c.meanwhile()
	}

	return c.Client.Patch(ctx, o, p, opts...)
}

// TestAMarkOfARunThatBeganWithoutAStateIsNotThatOfAnother has another process that creates the Secret meanwhile.
func TestAMarkOfARunThatBeganWithoutAStateIsNotThatOfAnother(t *testing.T) {
	halted, api, owner := newStore(t)
	ctx := t.Context()
	_, err := halted.Load(ctx, owner)
	check.Error(t, err, "")
	check.Error(t, halted.MarkApplied(ctx, owner, "b"), "")

	_, err = halted.Load(ctx, owner)
	check.Error(t, err, "")
	successor := &Store{Client: api, Reader: api}
	check.Error(t, successor.Save(ctx, owner, "demo", state("l", 1, "vm-1")), "")

	var conflict *ConflictError
	check.Equal(t, "it is refused", errors.As(halted.MarkApplied(ctx, owner, "b"), &conflict), true)
}

// TestAHaltedLeaderSavesNothingOverItsSuccessorsState has two managers that continue from the same state. The halted
// manager's state has other resources, and a serial at least as high as the successor's.
func TestAHaltedLeaderSavesNothingOverItsSuccessorsState(t *testing.T) {
	for name, test := range map[string]struct {
		serial int
		// meanwhile runs before the halted manager saves.
		meanwhile func(t *testing.T, halted *Store, owner client.Object)
	}{
		"a higher serial": {serial: 5},
		"the same serial": {serial: 3},
		"a save that has failed": {serial: 5, meanwhile: func(t *testing.T, halted *Store, owner client.Object) {
			t.Helper()

			api := halted.Client
			defer func() { halted.Client = api }()
			halted.Client = &failingClient{Client: api, fails: map[string]error{"update": errors.New("it was halted")}}
			check.Error(t, halted.Save(t.Context(), owner, "demo", state("l", 4, "vm-1")), "it was halted")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			halted, api, owner := newStore(t)
			ctx := t.Context()
			check.Error(t, halted.Save(ctx, owner, "demo", state("l", 1, "vm-1")), "")

			successor := &Store{Client: api, Reader: api}
			_, err := successor.Load(ctx, owner)
			check.Error(t, err, "")
			check.Error(t, successor.MarkChanging(ctx, owner, "a", ""), "")
			check.Error(t, successor.Save(ctx, owner, "demo", state("l", 2, "vm-2")), "")
			check.Error(t, successor.SaveApplied(ctx, owner, "demo", state("l", 3, "vm-2"), "b"), "")

			if test.meanwhile != nil {
				test.meanwhile(t, halted, owner)
			}

			var conflict *ConflictError

			err = halted.Save(ctx, owner, "demo", state("l", test.serial, "vm-1"))
			check.Equal(t, "the save is refused", errors.As(err, &conflict), true)

			stored, err := successor.Load(ctx, owner)
			check.Error(t, err, "")
			check.Equal(t, "serial", stored.Serial, uint64(3))
			check.Equal(t, "VM", stored.VMID(), "vm-2")
		})
	}
}

// lateClient writes, but reports a failure.
type lateClient struct{ client.Client }

func (c *lateClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return errors.Join(c.Client.Update(ctx, object, options...), errors.New("the answer was lost"))
}

func TestASaveGoesOnFromOneWhoseAnswerWasLost(t *testing.T) {
	store, api, owner := newStore(t)
	ctx := t.Context()
	check.Error(t, store.Save(ctx, owner, "demo", state("l", 1, "vm-1")), "")

	store.Client = &lateClient{api}
	check.Error(t, store.Save(ctx, owner, "demo", state("l", 2, "vm-1")), "the answer was lost")

	store.Client = &failingClient{Client: api, fails: map[string]error{"update": errors.New("it is away")}}
	check.Error(t, store.Save(ctx, owner, "demo", state("l", 3, "vm-1")), "it is away")

	store.Client = api
	check.Error(t, store.Save(ctx, owner, "demo", state("l", 4, "vm-1")), "")
}
