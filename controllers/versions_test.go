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

// versioned are the lists of an object's metadata. A merge patch replaces them as a whole, so a patch of an older
// version drops the items of others.
var versioned = []string{"finalizers", "ownerReferences"}

// versionGuard watches the patches of the suite's manager, which has all controllers.
type versionGuard struct {
	mu sync.Mutex
	// seen counts the patches of such lists by kind and list. bad are those that name no version.
	seen map[string]int
	bad  []string
}

// wrap puts the guard in front of a connection to the API server.
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

// look notes a patch.
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

// kindAt returns the resource in the path of a namespaced object, or else the path.
func kindAt(path string) string {
	parts := strings.Split(path, "/")
	if at := slices.Index(parts, "namespaces"); at >= 0 && at+2 < len(parts) {
		return parts[at+2]
	}

	return path
}

// problems returns the patches that name no version.
func (g *versionGuard) problems() []string {
	g.mu.Lock()
	defer g.mu.Unlock()

	return slices.Clone(g.bad)
}

// guarded is a connection made of a function.
type guarded func(*http.Request) (*http.Response, error)

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) { return g(r) }

// TestPatchesOfFinalizersNameTheirVersion has the life of a machine and its cluster. The whole suite fails for a patch
// without a version; here, it shows that finalizers of each kind are patched, and that the guard sees it.
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

	// A patch without a version, by a client that only this test has.
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
