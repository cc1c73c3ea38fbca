package tfstate

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// countedReader counts what is read.
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
	r.lists++
	return r.Reader.List(ctx, list, options...)
}

// TestStatesAreReadAtOnceAfterARestart has a store that remembers nothing, and owners that all look at their states.
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
		got, err := after.Hold(t.Context(), owners[i], "demo")
		check.Error(t, err, "")
		check.Equal(t, "the VM", got.VMID(), fmt.Sprintf("vm-%d", i))

		return got
	}

	for i := range 8 {
		hold(i)
	}

	check.Equal(t, "read one by one", reader.gets, unlisted)
	check.Equal(t, "read at once", reader.lists, 1)

	save(8, 2) // since they were read
	check.Equal(t, "the serial", hold(8).Serial, 2)
	check.Equal(t, "read alone, because it has changed", reader.gets, unlisted+1)
	hold(0)
	check.Equal(t, "read again", reader.gets, unlisted+1)

	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "m-9", UID: "x"}}
	got, err := after.Hold(t.Context(), other, "demo")
	check.Error(t, err, "")
	check.Equal(t, "the state of another namespace", got == nil, true)
	check.Equal(t, "the serial", hold(9).Serial, 1)
}
