// Command providerdocs writes the reference of the Terraform provider, in the layout of Terraform's registry. Its
// source is the schema that the provider sends to Terraform or OpenTofu.
//
//	go run ./hack/providerdocs
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

const (
	source = "registry.terraform.io/ovirt/ovirt"
	// folder is the reference's folder in the checkout.
	folder = "docs/terraform-provider"
	// examples is the folder of the examples for resources, data sources and imports in the checkout.
	examples = "cmd/terraform-provider-ovirt/examples"
)

// configuration requires the provider, but uses no part of it.
const configuration = `terraform {
  required_providers {
    ovirt = {
      source = "` + source + `"
    }
  }
}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := generateDocs(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "providerdocs:", err)
		os.Exit(1)
	}
}

func generateDocs(ctx context.Context) error {
	tools, err := toolchain.New()
	if err != nil {
		return err
	}

	if err := tools.Build(ctx, "providerdocs", "tfplugindocs"); err != nil {
		return err
	}

	generator, err := tools.Path("providerdocs", "tfplugindocs")
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "providerdocs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	schema, err := writeSchema(ctx, tools, dir)
	if err != nil {
		return err
	}

	target := filepath.Join(tools.Root(), filepath.FromSlash(folder))
	if err := os.RemoveAll(target); err != nil {
		return err
	}

	return runChecked(exec.CommandContext(ctx, generator, "generate", "--provider-dir="+tools.Root(),
		"--provider-name=ovirt", "--providers-schema="+schema, "--rendered-website-dir="+folder,
		"--website-source-dir=docs/none", "--examples-dir="+examples))
}

// writeSchema writes the provider's schema to a file, and returns its path.
func writeSchema(ctx context.Context, tools *toolchain.Toolchain, dir string) (string, error) {
	executor, err := tools.EnsureExecutor(ctx)
	if err != nil {
		return "", err
	}

	mirror := filepath.Join(dir, "mirror")
	version := tfprovider.Version()
	plugin := filepath.Join(mirror, filepath.FromSlash(source), version, runtime.GOOS+"_"+runtime.GOARCH,
		"terraform-provider-ovirt_v"+version)
	build := exec.CommandContext(ctx, "go", "build", "-o", plugin, "./cmd/terraform-provider-ovirt")
	build.Dir, build.Env = tools.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if err := runChecked(build); err != nil {
		return "", err
	}

	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		return "", err
	}

	if err := os.WriteFile(filepath.Join(root, "main.tf"), []byte(configuration), 0o600); err != nil {
		return "", err
	}

	var schema bytes.Buffer

	for _, args := range [][]string{{"init", "-plugin-dir=" + mirror}, {"providers", "schema", "-json"}} {
		command := exec.CommandContext(ctx, executor.Path, args...)
		// The user's configuration must have no effect.
		command.Dir, command.Env = root, append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull)
		schema.Reset()
		command.Stdout, command.Stderr = &schema, os.Stderr
		if err := command.Run(); err != nil {
			return "", fmt.Errorf("%s %s: %w\n%s", executor.Path, args[0], err, schema.String())
		}
	}

	// The generator identifies providers by Terraform's own namespace.
	content, err := addNewer(ctx, bytes.Replace(schema.Bytes(), []byte(`"`+source+`":`), []byte(`"ovirt":`), 1))
	if err != nil {
		return "", err
	}

	path := filepath.Join(dir, "schema.json")

	return path, os.WriteFile(path, content, 0o600)
}

func runChecked(command *exec.Cmd) error {
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(command.Path), err, output)
	}

	return nil
}
