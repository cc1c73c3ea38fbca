package terraform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// loadModuleManifest returns the manifest of local modules that init writes. It depends only on the files of the
// configuration, so one init serves all machines. With an attached provider, runs need no other result of init.
func (x *Executor) loadModuleManifest(ctx context.Context, files map[string][]byte) ([]byte, error) {
	subset, key := selectModules(files)
	if key == "" {
		return nil, nil // there is nothing to initialize
	}

	x.mu.Lock()
	manifest, ok := x.modules[key]
	x.mu.Unlock()
	if ok {
		return manifest, nil
	}

	manifest, err := x.runInit(ctx, subset)
	if err != nil {
		return nil, err
	}

	x.mu.Lock()
	x.modules[key] = manifest
	x.mu.Unlock()

	return manifest, nil
}

// selectModules returns the files that init needs for the manifest, and the digest of the modules. The digest is "" if
// there are no modules.
func selectModules(files map[string][]byte) (subset map[string][]byte, key string) {
	digest := sha256.New()
	subset = map[string][]byte{}
	hasModules := false

	for _, name := range slices.Sorted(maps.Keys(files)) {
		inModule := strings.Contains(name, "/")
		if filepath.Ext(name) != ".tf" || !inModule && strings.HasPrefix(name, "imports") {
			continue
		}

		subset[name] = files[name]
		if inModule {
			hasModules = true
			fmt.Fprintf(digest, "%q %d\n", name, len(files[name]))
			digest.Write(files[name])
		}
	}

	if !hasModules {
		return nil, ""
	}

	return subset, hex.EncodeToString(digest.Sum(nil))
}

// runInit runs Terraform's init in a new folder, and returns the manifest of modules.
func (x *Executor) runInit(ctx context.Context, files map[string][]byte) ([]byte, error) {
	dir, err := os.MkdirTemp(x.scratch, "init-")
	if err != nil {
		return nil, wrapDiskError(x.scratch, fmt.Errorf("failed to make the working directory: %w", err))
	}
	defer os.RemoveAll(dir)

	for name, content := range files {
		if err := writeFile(dir, name, content); err != nil {
			return nil, err
		}
	}

	tf, leave, err := x.setUpTerraform(dir)
	if err != nil {
		return nil, err
	}
	defer leave()
	reattach, stop, err := x.attachProvider(ctx, Use{
		Types: render.Types(), Approved: func(context.Context) error { return errRunEnded },
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	err = x.runConfined(dir, func() error { return tf.Init(ctx, tfexec.Backend(false), reattach) })

	switch {
	case err != nil && ctx.Err() != nil:
		return nil, newInterruptedError("init", &eventWriter{}, context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("terraform init failed: %w", err)
	}

	manifest, err := os.ReadFile(filepath.Join(dir, ".terraform/modules/modules.json"))
	if err != nil {
		return nil, fmt.Errorf("terraform init left no list of modules: %w", err)
	}

	return manifest, nil
}
