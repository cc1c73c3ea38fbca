package tfstate

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAStateThatNoSecretHoldsIsNamed(t *testing.T) {
	client := fake.NewClientBuilder().Build()
	store := &Store{Client: client, Reader: client}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "1"}}
	if err := store.Save(t.Context(), owner, "demo", state("l", 1, "vm")); err != nil {
		t.Fatal(err)
	}

	noise := make([]byte, 2<<20) // random data, which compression cannot shrink
	_, _ = rand.Read(noise)
	err := store.Save(
		t.Context(), owner, "demo",
		fmt.Appendf(
			nil,
			`{"version":4,"serial":2,"lineage":"l","outputs":{"a":{"value":%q}}}`,
			base64.StdEncoding.EncodeToString(noise),
		),
	)
	var large *TooLargeError
	check.Equal(t, "errors.As(err, &large)", errors.As(err, &large), true)
	check.Equal(t, "large.Secret", large.Secret, "ns/tfstate-default-m")
	if large.Size <= maxPacked {
		t.Errorf("large.Size <= maxPacked: %v", large.Size)
	}

	kept, err := store.Load(t.Context(), owner)
	check.Error(t, err, "")
	check.Equal(t, "kept.Serial", kept.Serial, 1)
	check.Equal(t, `kept.ResourceID("ovirt_vm")`, kept.ResourceID("ovirt_vm"), "vm")
}

// TestAStateIsReadUpToItsLimit reads a state of exactly the maximum size, and one that is a byte longer.
func TestAStateIsReadUpToItsLimit(t *testing.T) {
	for size, problem := range map[int]string{
		maxUnpacked: "", maxUnpacked + 1: "it is larger than any state of a machine",
	} {
		raw := state("l", 1, "vm")
		packed, err := packState(append(raw, bytes.Repeat([]byte(" "), size-len(raw))...))
		check.Error(t, err, "")

		got, err := DecodeSecret(&corev1.Secret{Data: map[string][]byte{dataKey: packed}})
		check.Error(t, err, problem)

		if problem == "" {
			check.Equal(t, "size", len(got.Raw), size)
		}
	}
}
