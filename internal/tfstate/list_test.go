package tfstate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// mostLists limits the lists of a test, in case its store lists forever.
const mostLists = 100

// countedReader counts the reads.
type countedReader struct {
	client.Reader
	gets, lists int
}

func (r *countedReader) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	r.gets++
	return r.Reader.Get(ctx, key, object, options...)
}

func (r *countedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if r.lists++; r.lists > mostLists {
		return errors.New("there is no end of lists")
	}

	return r.Reader.List(ctx, list, options...)
}

// TestStatesAreReadAtOnceAfterARestart uses a store that remembers nothing, and many owners that read their states.
func TestStatesAreReadAtOnceAfterARestart(t *testing.T) {
	before, c, _ := newStore(t)
	var owners []*corev1.ConfigMap
	save := func(i, serial int) {
		t.Helper()
		check.Error(t, before.Save(t.Context(), owners[i], "demo", state("l", serial, fmt.Sprintf("vm-%d", i))), "")
	}

	for i := range 10 {
		owners = append(owners, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("m-%d", i), UID: types.UID(fmt.Sprint(i)),
		}})
		save(i, 1)
	}

	reader := &countedReader{Reader: c}
	after := &Store{Client: c, Reader: reader, Metadata: c}
	hold := func(i int) *State {
		t.Helper()
		got, err := after.LoadAndRepair(t.Context(), owners[i], "demo")
		check.Error(t, err, "")
		check.Equal(t, "the VM", got.VMID(), fmt.Sprintf("vm-%d", i))

		return got
	}

	for i := range 8 {
		hold(i)
	}

	check.Equal(t, "read one by one", reader.gets, unlisted)
	check.Equal(t, "read at once", reader.lists, 1)

	save(8, 2) // after the store has listed the states
	check.Equal(t, "the serial", hold(8).Serial, 2)
	check.Equal(t, "read alone, because it has changed", reader.gets, unlisted+1)
	hold(0)
	check.Equal(t, "read again", reader.gets, unlisted+1)

	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "m-9", UID: "x"}}
	got, err := after.LoadAndRepair(t.Context(), other, "demo")
	check.Error(t, err, "")
	check.Equal(t, "the state of another namespace", got == nil, true)
	check.Equal(t, "the serial", hold(9).Serial, 1)
}

// holder is a store that remembers nothing, and owners whose states another store has saved.
type holder struct {
	*Store
	t      *testing.T
	reader *countedReader
	owners []*corev1.ConfigMap
}

func newHolder(t *testing.T, states int) *holder {
	t.Helper()

	before, c, _ := newStore(t)
	h := &holder{t: t, reader: &countedReader{Reader: c}}
	h.Store = &Store{Client: c, Reader: h.reader, Metadata: c}

	for i := range states {
		h.owners = append(h.owners, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("m-%d", i), UID: types.UID(fmt.Sprint(i)),
		}})
		check.Error(t, before.Save(t.Context(), h.owners[i], "demo", state("l", 1, fmt.Sprintf("vm-%d", i))), "")
	}

	return h
}

// hold calls LoadAndRepair for a range of owners, and checks the numbers of reads and lists.
func (h *holder) hold(what string, from, to, gets, lists int) {
	h.t.Helper()

	hadGets, hadLists := h.reader.gets, h.reader.lists

	for i := from; i < to; i++ {
		got, err := h.LoadAndRepair(h.t.Context(), h.owners[i], "demo")
		check.Error(h.t, err, "")
		check.Equal(h.t, "VM", got.VMID(), fmt.Sprintf("vm-%d", i))
	}

	check.Equal(h.t, what+": read one by one", h.reader.gets-hadGets, gets)
	check.Equal(h.t, what+": read at once", h.reader.lists-hadLists, lists)
}

// TestStatesAreReadAtOnceOnlyWhenManyAreAskedForTogether has owners that read their states one after the other.
func TestStatesAreReadAtOnceOnlyWhenManyAreAskedForTogether(t *testing.T) {
	tests := map[string]struct {
		pause       time.Duration
		gets, lists int
	}{
		"together": {0, 0, 1},
		"in time":  {listFor, 0, 1},
		"late":     {listFor + time.Nanosecond, 1, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolder(t, unlisted+1)
				h.hold("the first", 0, unlisted, unlisted, 0)
				time.Sleep(test.pause)
				h.hold("the next", unlisted, unlisted+1, test.gets, test.lists)
			})
		})
	}
}

// TestStatesThatNobodyAsksForAreForgotten lists states, and reads them in time or too late.
func TestStatesThatNobodyAsksForAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolder(t, unlisted+4)
		h.hold("until they are read at once", 0, unlisted+1, unlisted, 1)
		time.Sleep(listFor - time.Nanosecond)
		h.hold("in time", unlisted+1, unlisted+2, 0, 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		h.hold("too late", unlisted+2, unlisted+4, 2, 0)
	})
}

// TestAListedStateIsNotUsedUnlessItsSecretIsAsItShouldBe lists states and changes one of them.
func TestAListedStateIsNotUsedUnlessItsSecretIsAsItShouldBe(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Secret)
		// listed applies the change before the store lists the states.
		listed bool
	}{
		"its finalizer is lost":    {func(s *corev1.Secret) { s.Finalizers = nil }, true},
		"its cluster has changed":  {func(s *corev1.Secret) { s.Labels["cluster.x-k8s.io/cluster-name"] = "x" }, true},
		"somebody wrote it since":  {func(s *corev1.Secret) { s.Labels["team"] = "a" }, false},
		"its owner was made anew":  {func(s *corev1.Secret) { s.OwnerReferences[0].UID = "old" }, true},
		"another label is missing": {func(s *corev1.Secret) { delete(s.Labels, "tfstateWorkspace") }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHolder(t, unlisted+2)
			last := len(h.owners) - 1
			change := func() {
				var secret corev1.Secret
				check.Error(t, h.Client.Get(t.Context(), h.secretKey(h.owners[last]), &secret), "")
				test.change(&secret)
				check.Error(t, h.Client.Update(t.Context(), &secret), "")
			}

			if test.listed {
				change()
			}

			h.hold("until they are read at once", 0, last, unlisted, 1)

			if !test.listed {
				change()
			}

			h.hold("the one that has changed", last, last+1, 1, 0)

			var secret corev1.Secret
			check.Error(t, h.Client.Get(t.Context(), h.secretKey(h.owners[last]), &secret), "")
			check.Equal(t, "finalizers", secret.Finalizers, []string{Finalizer})
			check.Equal(t, "cluster", secret.Labels["cluster.x-k8s.io/cluster-name"], "demo")
			check.Equal(t, "owner", secret.OwnerReferences[0].UID, h.owners[last].UID)
		})
	}
}

// pagedReader lists one Secret per page.
type pagedReader struct {
	client.Reader
	pages []corev1.Secret
	// fails is the number of the page that cannot be read, or 0.
	fails int
	asked []client.ListOptions
}

func (r *pagedReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	r.asked = append(r.asked, asked)

	if page := len(r.asked); page == r.fails || page > len(r.pages) {
		return errors.New("it cannot be read")
	}

	out, ok := list.(*corev1.SecretList)
	if !ok {
		return fmt.Errorf("nobody lists %T", list)
	}

	out.Items = []corev1.Secret{r.pages[len(r.asked)-1]}
	if len(r.asked) < len(r.pages) {
		out.Continue = fmt.Sprint(len(r.asked))
	}

	return nil
}

// TestAllPagesOfStatesAreRead lists Secrets, some of them unusable.
func TestAllPagesOfStatesAreRead(t *testing.T) {
	now := metav1.Now()
	page := func(name string, change func(*corev1.Secret)) corev1.Secret {
		t.Helper()
		packed, err := packState(state("l", 3, name))
		check.Error(t, err, "")
		out := corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
			Data:       map[string][]byte{dataKey: packed},
		}
		if change != nil {
			change(&out)
		}

		return out
	}
	pages := []corev1.Secret{
		page("a", nil),
		page("unreadable", func(s *corev1.Secret) { s.Data = nil }),
		page("deleted", func(s *corev1.Secret) { s.DeletionTimestamp = &now }),
		page("b", nil),
	}

	tests := map[string]struct {
		fails int
		want  []string
	}{
		"all":                         {0, []string{"a", "b"}},
		"until one cannot be read":    {3, []string{"a"}},
		"the first cannot be read":    {1, nil},
		"the last one cannot be read": {4, []string{"a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reader := &pagedReader{pages: pages, fails: test.fails}
			got := (&Store{Reader: reader}).readAll(t.Context(), "default")
			check.Equal(t, "states", slices.Sorted(maps.Keys(got)), test.want)

			for name, listed := range got {
				check.Equal(t, "VM", listed.state.VMID(), name)
				check.Equal(t, "text that is kept", len(listed.state.Raw), 0)
				check.Equal(t, "managed fields that are kept", len(listed.metadata.ManagedFields), 0)
			}

			for i, asked := range reader.asked {
				check.Equal(t, "namespace", asked.Namespace, "default")
				check.Equal(t, "labels", asked.LabelSelector.String(), "tfstate=true")
				check.Equal(t, "size of a page", asked.Limit, listPage)
				check.Equal(t, "first of a page", asked.Continue, []string{"", "1", "2", "3"}[i])
			}
		})
	}
}
