package tfstate

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestAStateThatNoSecretHoldsIsNamed(t *testing.T) {
	client := fake.NewClientBuilder().Build()
	store := &Store{Client: client, Reader: client}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "1"}}
	if err := store.Save(t.Context(), owner, "demo", state("l", 1, "vm")); err != nil {
		t.Fatal(err)
	}

	noise := make([]byte, 2<<20) // which nothing packs
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
	if !errors.As(err, &large) || large.Secret != "ns/tfstate-default-m" || large.Size <= maxPacked {
		t.Errorf("the error is %v", err)
	}

	kept, err := store.Load(t.Context(), owner)
	if err != nil || kept.Serial != 1 || kept.ResourceID("ovirt_vm") != "vm" {
		t.Errorf("stored is %+v, %v", kept, err)
	}
}
