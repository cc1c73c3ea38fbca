package tfstate

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// FuzzState decodes state Secrets with arbitrary content. DecodeSecret must refuse the content, or return a usable
// state. An accepted state must survive a round trip through a Secret.
func FuzzState(f *testing.F) {
	for _, seed := range [][]byte{
		state("a", 1, "b"), state("a", 1, ""), []byte("{}"), []byte(`{"version":4,"lineage":"a","serial":-1}`),
		[]byte(`{"version":4,"lineage":"a","resources":[{"mode":"managed","type":"ovirt_vm","instances":[]}]}`),
		[]byte(
			`{"version":4,"lineage":"a","resources":[{"mode":"managed","type":"ovirt_vm","instances":[{"index_key":3,"attributes":{"id":7}},{"attributes":null}]}]}`,
		),
		[]byte(`{"version":4,"lineage":"a","resources":null}`), []byte("\x1f\x8b\x08garbage"), nil,
	} {
		f.Add(seed)
	}

	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "1"}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = DecodeSecret(&corev1.Secret{Data: map[string][]byte{dataKey: raw}})
		parsed, err := Parse(raw)
		if err != nil {
			return
		}

		if vms := parsed.Instances("ovirt_vm"); len(vms) > 0 && vms[0].ID != parsed.ResourceID("ovirt_vm") {
			t.Errorf("the VM is %q and %q", vms[0].ID, parsed.ResourceID("ovirt_vm"))
		}

		if parsed.ResourceID("ovirt_vm") != "" && parsed.Empty() {
			t.Errorf("an empty state has VM %q", parsed.ResourceID("ovirt_vm"))
		}

		client := fake.NewClientBuilder().Build()
		store := &Store{Client: client, Reader: client}
		if err := store.Save(t.Context(), owner, "demo", raw); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}

		if loaded, err := store.Load(t.Context(), owner); err != nil || !bytes.Equal(loaded.Raw, raw) ||
			loaded.Serial != parsed.Serial {
			t.Errorf("%q came back as %+v, %v", raw, loaded, err)
		}
	})
}
