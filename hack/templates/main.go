// Command templates writes the cluster templates in config/templates. Their source is the kustomizations in its
// subfolder flavors.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// base is the flavor without a name.
const base = "base"

// lists matches lists that a single variable contains, with commas between the elements. Kustomize reads such a
// variable as a single element.
var lists = regexp.MustCompile(`(?m)^( +)((?:ipAddresses|addresses|authorizedKeys):)\n +- (\$\{[A-Z0-9_]+(?::= )?\})$`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := writeTemplates(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "templates:", err)
		os.Exit(1)
	}
}

func writeTemplates(ctx context.Context) error {
	tools, err := toolchain.New()
	if err != nil {
		return err
	}

	kubectl, err := tools.Path("plane", "kubectl")
	if err != nil {
		return err
	}

	folder := filepath.Join(tools.Root(), "config", "templates")
	flavors, err := filepath.Glob(filepath.Join(folder, "flavors", "*"))
	if err != nil || len(flavors) == 0 {
		return fmt.Errorf("no flavors in %s: %w", folder, err)
	}

	for _, flavor := range flavors {
		name := "cluster-template.yaml"
		if short := filepath.Base(flavor); short != base {
			name = "cluster-template-" + short + ".yaml"
		}

		text, err := buildTemplate(ctx, kubectl, flavor)
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("failed to write a template: %w", err)
		}
	}

	return nil
}

// buildTemplate returns the template of a flavor. It starts with the comment at the head of the flavor's kustomization.
func buildTemplate(ctx context.Context, kubectl, flavor string) ([]byte, error) {
	kustomization, err := os.ReadFile(filepath.Join(flavor, "kustomization.yaml"))
	if err != nil {
		return nil, fmt.Errorf("failed to read a flavor: %w", err)
	}

	about, _, ok := bytes.Cut(kustomization, []byte("apiVersion:"))
	if !ok || len(about) == 0 {
		return nil, fmt.Errorf("%s: say at the head of kustomization.yaml what the flavor is", flavor)
	}

	// The manifests of add-ons are outside the folder of a flavor.
	command := exec.CommandContext(ctx, kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", flavor)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize %s: %w", flavor, err)
	}

	if text, err = quoteVariables(text); err != nil {
		return nil, fmt.Errorf("%s: %w", flavor, err)
	}

	text = lists.ReplaceAll(text, []byte("$1$2 [$3]"))
	about = append(
		about,
		"# It refers to a Secret and a ConfigMap with the credentials and the CA of the engine, see README.md. "+
			"Made by make generate.\n"...)

	return append(about, text...), nil
}
