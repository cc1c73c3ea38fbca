package nodeimage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestStepsAreKeptByTheirInputs runs each step once, and verifies that the cache keeps the most recently used results.
func TestStepsAreKeptByTheirInputs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	b := &Builder{Say: t.Logf}
	made := 0
	step := func(input string) string {
		t.Helper()
		dir, err := b.runCached(t.Context(), "image", []string{input}, func(_ context.Context, dir string) error {
			made++
			return os.WriteFile(filepath.Join(dir, "input"), []byte(input), 0o600)
		})
		check.Error(t, err, "")

		return dir
	}

	dirs := map[string]string{}

	for i, input := range []string{"a", "b", "c", "d"} {
		dirs[input] = step(input)
		at := time.Now().Add(time.Duration(i-10) * 24 * time.Hour)
		check.Error(t, os.Chtimes(dirs[input], at, at), "")
	}

	check.Equal(t, "the folder of the same input", step("a"), dirs["a"])
	check.Equal(t, "made", made, 4)

	step("e")

	for input, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		_, err := os.Stat(dirs[input])
		check.Equal(t, "whether "+input+" is kept", err == nil, want)
	}
}

// TestAStepThatFailsLeavesNothing verifies that the next call tries a failed step again.
func TestAStepThatFailsLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)

	b := &Builder{Say: t.Logf}
	_, err := b.runCached(t.Context(), "image", []string{"a"}, func(context.Context, string) error {
		return errors.New("no space")
	})
	check.Error(t, err, "failed to make image")

	left, err := filepath.Glob(filepath.Join(cache, "capolvm", "node", "*"))
	check.Error(t, err, "")
	check.Equal(t, "what is left", len(left), 0)
}

// TestOpen verifies that Open rejects a folder without an image.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	check.Error(t, err, "make node-image")

	check.Error(t, Image{dir: dir, Kubernetes: "v1.36.3", Pause: "pause:1"}.writeRecord(), "")
	image, err := Open(dir)
	check.Error(t, err, "")
	check.Equal(t, "Kubernetes", image.Kubernetes, "v1.36.3")
	check.Equal(t, "the root file system", image.RootFS(), filepath.Join(dir, "rootfs"))
}
