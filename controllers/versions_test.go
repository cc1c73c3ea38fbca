package controllers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// versioned has the names of the lists in an object's metadata. A merge patch replaces a whole list, so a patch based
// on an older version drops the items of others.
var versioned = []string{"finalizers", "ownerReferences"}

// versionGuard checks that patches of these lists name a resource version. It sees all patches of the suite's manager,
// which runs all controllers.
type versionGuard struct {
	mu sync.Mutex
	// seen counts the patches of such lists, by kind and list. bad describes the patches without a version.
	seen map[string]int
	bad  []string
}

// wrap returns a RoundTripper that shows each patch to the guard, and then calls next.
func (g *versionGuard) wrap(next http.RoundTripper) http.RoundTripper {
	return guarded(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPatch || r.Body == nil {
			return next.RoundTrip(r)
		}

		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}

		g.look(r.URL.Path, content)

		sent := r.Clone(r.Context())
		sent.Body = io.NopCloser(bytes.NewReader(content))

		return next.RoundTrip(sent)
	})
}

// look records a patch.
func (g *versionGuard) look(path string, content []byte) {
	var patch struct {
		Metadata map[string]any `json:"metadata"`
	}

	_ = json.Unmarshal(content, &patch) // a list of operations has no metadata

	for _, list := range versioned {
		if _, ok := patch.Metadata[list]; !ok {
			continue
		}

		g.mu.Lock()
		g.seen[kindAt(path)+" "+list]++

		if version, _ := patch.Metadata["resourceVersion"].(string); version == "" {
			g.bad = append(g.bad, fmt.Sprintf("PATCH %s: %s", path, content))
		}

		g.mu.Unlock()
	}
}

// kindAt returns the resource in the path of a namespaced object, or the path itself.
func kindAt(path string) string {
	parts := strings.Split(path, "/")
	if at := slices.Index(parts, "namespaces"); at >= 0 && at+2 < len(parts) {
		return parts[at+2]
	}

	return path
}

// problems returns the patches without a version.
func (g *versionGuard) problems() []string {
	g.mu.Lock()
	defer g.mu.Unlock()

	return slices.Clone(g.bad)
}

// guarded is a function that implements http.RoundTripper.
type guarded func(*http.Request) (*http.Response, error)

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) { return g(r) }

// TestPatchesOfFinalizersNameTheirVersion creates and deletes a machine and its cluster. The whole suite fails if a
// patch has no version. This test proves that the controllers patch finalizers of each kind, and that the guard sees
// it.
func TestPatchesOfFinalizersNameTheirVersion(t *testing.T) {
	s := newSite(t, nil)
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	s.Delete(m)
	s.ExpectGone(m)
	s.Delete(s.OLVM)
	s.ExpectGone(s.OLVM)

	suite.versions.mu.Lock()
	for _, kind := range []string{"olvmmachines", "olvmclusters", "secrets", "configmaps"} {
		check.Equal(t, "patches of finalizers of "+kind, suite.versions.seen[kind+" finalizers"] > 0, true)
	}

	suite.versions.mu.Unlock()

	// Send a patch without a version, to a guard of this test alone.
	guard := &versionGuard{seen: map[string]int{}}
	sent := guard.wrap(guarded(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
	}))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: "one", Finalizers: []string{"a"}, ResourceVersion: "7",
	}}
	changed := secret.DeepCopy()
	changed.Finalizers = nil

	for _, patch := range []client.Patch{
		client.MergeFrom(secret), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)),
		client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}),
	} {
		content, err := patch.Data(changed)
		check.Error(t, err, "")

		request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
			"https://kubernetes/api/v1/namespaces/ns/secrets/one", bytes.NewReader(content))
		check.Error(t, err, "")
		answer, err := sent.RoundTrip(request)
		check.Error(t, err, "")
		check.Error(t, answer.Body.Close(), "")
	}

	check.Length(t, "patches without a version", guard.problems(), 2)
}
