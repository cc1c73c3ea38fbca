package tfstate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// metadataCache is a cache of the metadata of Secrets. The test fills it. It fails with err if err is set.
type metadataCache struct {
	client.Reader
	secrets map[client.ObjectKey]metav1.ObjectMeta
	err     error
}

func (c *metadataCache) Get(
	_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption,
) error {
	if c.err != nil {
		return c.err
	}

	found, ok := c.secrets[key]
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}

	out, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("the cache has metadata, not a %T", object)
	}

	found.DeepCopyInto(&out.ObjectMeta)

	return nil
}

// remembering is a store with a cache and a fake API server. The API server gives each Secret a UID.
type remembering struct {
	*Store
	t      *testing.T
	api    client.Client
	reader *countedReader
	cache  *metadataCache
	owner  *corev1.ConfigMap
}

func newRemembering(t *testing.T) *remembering {
	t.Helper()

	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	made := 0
	api := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.CreateOption) error {
			made++
			object.SetUID(types.UID(fmt.Sprintf("secret-%d", made)))

			return c.Create(ctx, object, o...)
		},
	}).Build()
	reader, cache := &countedReader{Reader: api}, &metadataCache{secrets: map[client.ObjectKey]metav1.ObjectMeta{}}

	return &remembering{
		Store: &Store{Client: api, Reader: reader, Metadata: cache},
		t:     t, api: api, reader: reader, cache: cache,
		owner: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-1", UID: "5f0c"}},
	}
}

func (r *remembering) save(serial int) {
	r.t.Helper()
	check.Error(r.t, r.Save(r.t.Context(), r.owner, "demo", state("l", serial, "vm-1")), "")
}

// secret returns the Secret from the API server.
func (r *remembering) secret() *corev1.Secret {
	r.t.Helper()

	out := &corev1.Secret{}
	check.Error(r.t, r.api.Get(r.t.Context(), r.secretKey(r.owner), out), "")

	return out
}

// fill copies the Secret from the API server into the cache, and then applies change to the copy.
func (r *remembering) fill(change func(*metav1.ObjectMeta)) {
	r.t.Helper()

	metadata := r.secret().ObjectMeta
	if change != nil {
		change(&metadata)
	}

	r.cache.secrets[r.secretKey(r.owner)] = metadata
}

// hold returns the serial of the state, or 0 without a state. reads is the number of reads of the Secret.
func (r *remembering) hold() (serial uint64, reads int) {
	r.t.Helper()

	before := r.reader.gets
	got, err := r.LoadAndRepair(r.t.Context(), r.owner, "demo")
	check.Error(r.t, err, "")

	if got != nil {
		serial = got.Serial
	}

	return serial, r.reader.gets - before
}

func (r *remembering) wantHold(what string, serial uint64, reads int) {
	r.t.Helper()

	gotSerial, gotReads := r.hold()
	check.Equal(r.t, what+": serial", gotSerial, serial)
	check.Equal(r.t, what+": reads", gotReads, reads)
}

// TestAStateIsReadAgainOnceItMayHaveChanged saves a state, and loads it after an event.
func TestAStateIsReadAgainOnceItMayHaveChanged(t *testing.T) {
	version := func(v string) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) { m.ResourceVersion = v }
	}

	tests := map[string]struct {
		happens func(*remembering)
		reads   int
	}{
		"the cache has what was written": {func(r *remembering) { r.fill(nil) }, 0},
		"the cache has no Secret yet":    {func(*remembering) {}, 0},
		"the cache has no Secret just before it is late": {
			func(*remembering) { time.Sleep(cacheLag - time.Nanosecond) }, 0,
		},
		"the cache has no Secret when it is late": {func(*remembering) { time.Sleep(cacheLag) }, 1},
		"the cache has what was written before, however late": {
			func(r *remembering) {
				r.fill(version("1"))
				time.Sleep(time.Hour)
			}, 0,
		},
		"the cache has what somebody else wrote":    {func(r *remembering) { r.fill(version("999")) }, 1},
		"the cache has a version that is no number": {func(r *remembering) { r.fill(version("abc")) }, 1},
		"the cache has lost the Secret that it had": {
			func(r *remembering) {
				r.fill(nil)
				r.wantHold("while the cache has it", 2, 0)
				clear(r.cache.secrets)
			}, 1,
		},
		"the cache has a Secret of the same name that was made anew": {
			func(r *remembering) { r.fill(func(m *metav1.ObjectMeta) { m.UID = "other" }) }, 1,
		},
		"somebody deletes the Secret": {
			func(r *remembering) {
				now := metav1.Now()
				r.fill(func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &now })
			}, 1,
		},
		"the cache fails": {func(r *remembering) { r.cache.err = errors.New("it has not started") }, 1},
		"the owner was made anew": {
			func(r *remembering) {
				r.fill(nil)
				r.owner.UID = "another"
			}, 1,
		},
		"it is forgotten": {
			func(r *remembering) {
				r.fill(nil)
				r.DropOwner(client.ObjectKeyFromObject(r.owner))
			}, 1,
		},
		"another owner is forgotten": {
			func(r *remembering) { r.DropOwner(types.NamespacedName{Namespace: "default", Name: "demo-2"}) }, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemembering(t)
				r.save(1)
				r.save(2)
				test.happens(r)
				r.wantHold("after it", 2, test.reads)
			})
		})
	}
}

// TestAVersionThatIsNoNumberIsComparedAsAText has an API server whose versions have no order.
func TestAVersionThatIsNoNumberIsComparedAsAText(t *testing.T) {
	for version, want := range map[string]bool{"v-1": true, "v-2": false} {
		r := newRemembering(t)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "v-1"}}
		r.rememberState(r.owner, secret, &State{Serial: 4})
		secret.ResourceVersion = version
		r.cache.secrets[r.secretKey(r.owner)] = secret.ObjectMeta

		_, ok := r.getRemembered(t.Context(), r.owner)
		check.Equal(t, "remembered with version "+version, ok, want)
	}
}

func TestThatThereIsNoStateIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemembering(t)
		r.wantHold("the first look", 0, 1)
		time.Sleep(time.Hour)
		r.wantHold("the second look", 0, 0)

		r.cache.err = errors.New("it has not started")
		r.wantHold("while the cache fails", 0, 1)
		r.cache.err = nil

		r.owner.UID = "another"
		r.wantHold("after the owner was made anew", 0, 1)
		r.wantHold("and once more", 0, 0)

		other := &Store{Client: r.api, Reader: r.api}
		check.Error(t, other.Save(t.Context(), r.owner, "demo", state("l", 7, "vm-1")), "")
		r.wantHold("before the cache has what another process wrote", 0, 0)
		r.fill(nil)
		r.wantHold("afterwards", 7, 1)
		r.wantHold("and once more", 7, 0)
	})
}

// TestALoadThatFindsNoStateIsRemembered has a run that looks for a missing state.
func TestALoadThatFindsNoStateIsRemembered(t *testing.T) {
	r := newRemembering(t)
	got, err := r.Load(t.Context(), r.owner)
	check.Error(t, err, "")
	check.Equal(t, "there is none", got == nil, true)
	r.wantHold("after the run looked", 0, 0)
}

// TestALookThatFoundNothingDoesNotForgetWhatARunSaved has a lookup that finds no state. A run saves a state before the
// lookup calls rememberNone.
func TestALookThatFoundNothingDoesNotForgetWhatARunSaved(t *testing.T) {
	r := newRemembering(t)
	r.Reader = &slowReader{Reader: r.reader, meanwhile: func() { r.save(1) }}
	serial, _ := r.hold()
	check.Equal(t, "the look came first", serial, 0)
	r.wantHold("the next look", 1, 0)
}

// TestALookThatASaveOvertookIsNotRemembered has a lookup that reads the old state. A run saves a newer one before the
// lookup remembers its result.
func TestALookThatASaveOvertookIsNotRemembered(t *testing.T) {
	r := newRemembering(t)
	r.save(1)
	r.dropHeld(r.owner)
	r.Reader = &slowReader{Reader: r.reader, meanwhile: func() { r.save(2) }}
	serial, _ := r.hold()
	check.Equal(t, "the look came first", serial, 1)
	r.wantHold("the next look", 2, 0)
}

func TestAStoreWithoutACacheReadsAtEachLook(t *testing.T) {
	r := newRemembering(t)
	r.Metadata = nil
	r.wantHold("without a state", 0, 1)
	r.wantHold("without a state, again", 0, 1)
	r.save(1)
	r.wantHold("with a state", 1, 1)
	r.wantHold("with a state, again", 1, 1)
	check.Equal(t, "states that are remembered", len(r.held), 0)
}

// TestAReadStateIsBelievedForAsLongAsAWrittenOne has a slow cache, and a lookup that reads without it.
func TestAReadStateIsBelievedForAsLongAsAWrittenOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemembering(t)
		r.save(1)
		time.Sleep(cacheLag)
		r.wantHold("the cache is late", 1, 1)
		time.Sleep(cacheLag - time.Nanosecond)
		r.wantHold("a moment after it was read", 1, 0)
	})
}

// TestACacheThatHadASecretIsBelievedAfterTheNextSave has a Secret in the cache, saves it again, and then removes it
// from the cache.
func TestACacheThatHadASecretIsBelievedAfterTheNextSave(t *testing.T) {
	r := newRemembering(t)
	r.save(1)
	r.fill(nil)
	r.wantHold("while the cache has it", 1, 0)
	r.save(2)
	clear(r.cache.secrets)
	r.wantHold("after the cache lost it", 2, 1)

	// An older Secret in the cache proves nothing about its successor.
	secret := r.secret()
	secret.Finalizers = nil
	check.Error(t, errors.Join(r.api.Update(t.Context(), secret), r.api.Delete(t.Context(), secret)), "")
	r.save(3)
	r.wantHold("a Secret that was made anew", 3, 0)
	r.markCached(r.owner, secret.UID)
	r.wantHold("after a look at the older one", 3, 0)
	r.markCached(r.owner, r.secret().UID)
	r.wantHold("after a look at this one", 3, 1)
}

func TestAnOwnerHasNoStateUntilSomethingIsKnown(t *testing.T) {
	tests := map[string]struct {
		happens func(*remembering)
		want    bool
		// reads counts the reads of the next lookup.
		reads int
	}{
		"nothing is there": {func(*remembering) {}, true, 0},
		"the cache has a Secret": {
			func(r *remembering) { r.cache.secrets[r.secretKey(r.owner)] = metav1.ObjectMeta{UID: "a"} }, false, 1,
		},
		"the cache fails":        {func(r *remembering) { r.cache.err = errors.New("it has not started") }, false, 1},
		"there is no cache":      {func(r *remembering) { r.Metadata = nil }, false, 1},
		"a state was saved here": {func(r *remembering) { r.save(1) }, false, 0},
		"a look found no state":  {func(r *remembering) { r.hold() }, false, 0},
		"a state is of another owner": {
			func(r *remembering) {
				other := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-2", UID: "2"},
				}
				check.Error(r.t, r.Save(r.t.Context(), other, "demo", state("l", 1, "vm-2")), "")
			}, true, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRemembering(t)
			test.happens(r)
			check.Equal(t, "has no state", r.CheckNoState(t.Context(), r.owner), test.want)

			_, reads := r.hold()
			check.Equal(t, "reads of a look that follows", reads, test.reads)
		})
	}
}

// TestAMarkIsRememberedOnlyOfTheStateThatWasMarked has a run that saves a state and marks it as applied.
func TestAMarkIsRememberedOnlyOfTheStateThatWasMarked(t *testing.T) {
	tests := map[string]struct {
		happens func(*remembering)
		reads   int
	}{
		"nothing happens between": {func(*remembering) {}, 0},
		"somebody writes the Secret between": {
			func(r *remembering) {
				secret := r.secret()
				secret.Labels["team"] = "a"
				check.Error(r.t, r.api.Update(r.t.Context(), secret), "")
			}, 1,
		},
		"somebody makes the Secret anew between": {
			func(r *remembering) {
				secret := r.secret()
				secret.Finalizers = nil
				check.Error(
					r.t, errors.Join(r.api.Update(r.t.Context(), secret), r.api.Delete(r.t.Context(), secret)), "",
				)
				check.Error(r.t, (&Store{Client: r.api, Reader: r.api}).Save(r.t.Context(), r.owner, "demo",
					state("l", 2, "vm-1")), "")
			}, 1,
		},
		"the state is forgotten between": {
			func(r *remembering) { r.DropOwner(client.ObjectKeyFromObject(r.owner)) }, 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRemembering(t)
			r.save(1)
			r.save(2)
			test.happens(r)
			check.Error(t, r.MarkApplied(t.Context(), r.owner, "digest"), "")
			check.Equal(t, "the digest in the Secret", r.secret().Annotations[DigestAnnotation], "digest")

			before := r.reader.gets
			got, err := r.LoadAndRepair(t.Context(), r.owner, "demo")
			check.Error(t, err, "")
			check.Equal(t, "the digest", got.AppliedDigest, "digest")
			check.Equal(t, "VM", got.VMID(), "vm-1")
			check.Equal(t, "reads", r.reader.gets-before, test.reads)
		})
	}
}

func TestAMarkWithoutASecretMakesNone(t *testing.T) {
	r := newRemembering(t)
	check.Error(t, r.MarkApplied(t.Context(), r.owner, "digest"), "")
	check.Equal(t, "there is none", r.CheckNoState(t.Context(), r.owner), true)
	r.Reader = r.api
	got, err := r.Load(t.Context(), r.owner)
	check.Error(t, err, "")
	check.Equal(t, "there is none at the API server", got == nil, true)
}
