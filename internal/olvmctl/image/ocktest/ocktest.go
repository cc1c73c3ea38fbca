// Package ocktest serves container images like those of OCK for tests.
package ocktest

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file in a layer.
type File struct {
	Name    string
	Content []byte
}

// NewLayer returns a layer with files.
func NewLayer(t testing.TB, files ...File) v1.Layer {
	t.Helper()
	var content bytes.Buffer

	archive := tar.NewWriter(&content)
	for _, f := range files {
		err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.Name,
			Size:     int64(len(f.Content)),
			Mode:     0o444,
		})
		if err != nil {
			t.Fatal(err)
		}

		if _, err := archive.Write(f.Content); err != nil {
			t.Fatal(err)
		}
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return layer
}

// NewImage returns an image for Linux on an architecture. layers begins with the lowest layer.
func NewImage(t testing.TB, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}

	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}

	return image
}

// ServeRegistry runs an empty registry on loopback until the test ends, and returns its address. If front is not nil,
// it wraps the handler of the registry. No client is logged in.
func ServeRegistry(t testing.TB, front func(http.Handler) http.Handler) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if front != nil {
		handler = front(handler)
	}

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Setenv("DOCKER_CONFIG", t.TempDir())

	return strings.TrimPrefix(server.URL, "http://")
}

// PushImage pushes an image to a registry.
func PushImage(t testing.TB, reference string, image v1.Image, options ...remote.Option) {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}

	if err := remote.Write(ref, image, options...); err != nil {
		t.Fatal(err)
	}
}
