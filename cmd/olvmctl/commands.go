package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simcommand"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

type streams struct {
	in       io.Reader
	out, err io.Writer
}

func newCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "olvmctl",
		Short:         "Preview and render clusters on Oracle Linux Virtualization Manager",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Version,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(newValidateCommand(s), newTemplateCommand(s), newPlanCommand(s), newRenderCommand(s), simcommand.New("olvmctl sim", s.out))
	return root
}

// source is where manifests and credentials come from.
type source struct {
	files  []string
	caFile string
	// cluster is how a cluster file is read, if it is one.
	cluster clusterFile
}

func (o *source) addFlags(command *cobra.Command) {
	command.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "manifests: a file, a folder, or - for standard input; can be repeated. Or one cluster file")
	o.cluster.addFormatFlags(command)
	command.Flags().StringVar(&o.caFile, "ca-file", "", "PEM file with the CA of the engine, in place of the manifests' CA ConfigMap")
	_ = command.MarkFlagRequired("filename")
}

//nolint:gosec // a help text
const credentialsHelp = `The engine is the one that the OLVMCluster names. Its credentials and CA come from the Secret and the ConfigMap of the
manifests, or from the environment variables OLVM_USERNAME and OLVM_PASSWORD and the file of --ca-file.`

// render loads and renders all machines.
func (o *source) render(ctx context.Context, s streams, sessions *engine.Sessions) ([]preview.Rendered, error) {
	manifests, err := o.load(s)
	if err != nil {
		return nil, err
	}
	credentials, err := credentialsFrom(o.caFile)
	if err != nil {
		return nil, err
	}
	machines, err := manifests.Machines()
	if err != nil {
		return nil, err
	}
	return preview.Render(ctx, manifests, machines, credentials, sessions)
}

// load reads the manifests, or those that a cluster file asks for.
func (o *source) load(s streams) (*preview.Manifests, error) {
	var err error
	if o.cluster.path, err = clusterFileAmong(o.files); err != nil {
		return nil, err
	}
	if o.cluster.path == "" {
		return preview.Load(o.files, s.in)
	}
	objects, err := o.cluster.valid(s.err)
	if err != nil {
		return nil, err
	}
	return preview.LoadObjects(objects)
}

// credentialsFrom are those of the environment, and the CA of a file, which is empty for none.
func credentialsFrom(caFile string) (preview.Credentials, error) {
	out := preview.Credentials{Username: os.Getenv("OLVM_USERNAME"), Password: os.Getenv("OLVM_PASSWORD")}
	if (out.Username == "") != (out.Password == "") {
		return out, errors.New("OLVM_USERNAME and OLVM_PASSWORD must be set together")
	}
	if caFile != "" {
		var err error
		if out.CA, err = os.ReadFile(caFile); err != nil {
			return out, fmt.Errorf("--ca-file: %w", err)
		}
	}
	return out, nil
}

func newPlanCommand(s streams) *cobra.Command {
	var from source
	var output string
	command := &cobra.Command{
		Use:   "plan -f FILE|DIR|-",
		Short: "Show what manifests would change, as Terraform plans",
		Long: `plan resolves the names of the manifests against the engine and runs a real Terraform plan for each machine that they
ask for. Replicas are expanded. A machine whose VM exists is compared with it.

` + credentialsHelp + `

Exit codes: 0 nothing would change, 2 something would change, 1 error.`,
		Example: `  olvmctl plan -f clusters/
  kustomize build . | olvmctl plan -f - -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("-o %s is not known; write text or json", output)
			}
			return runPlan(command.Context(), s, from, output)
		},
	}
	from.addFlags(command)
	command.Flags().StringVarP(&output, "output", "o", "text", "output: text or json")
	return command
}

func runPlan(ctx context.Context, s streams, from source, output string) error {
	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))
	executable, err := terraform.Find(ctx)
	if err != nil {
		return err
	}
	machines, err := from.render(ctx, s, sessions)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "olvmctl-")
	if err != nil {
		return fmt.Errorf("failed to make a working directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	executor := terraform.NewExecutor(executable, tfprovider.InProcess{Options: tfprovider.Options{Sessions: sessions}}, scratch)
	results := []*preview.Result{}
	for i, machine := range machines {
		_, _ = fmt.Fprintf(s.err, "planning %s/%s (%d of %d)\n", machine.Namespace, machine.Name, i+1, len(machines))
		result, err := preview.Plan(ctx, executor, machine, scratch)
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	if output == "json" {
		err = printJSON(s.out, results)
	} else {
		err = printText(s.out, results)
	}
	if err == nil && changed(results) > 0 {
		err = errChanges
	}
	return err
}

func changed(results []*preview.Result) int {
	count := 0
	for _, result := range results {
		if len(result.Changes) > 0 {
			count++
		}
	}
	return count
}

func printJSON(out io.Writer, results []*preview.Result) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"machines": results, "changed": changed(results)})
}

func printText(out io.Writer, results []*preview.Result) error {
	var text strings.Builder
	for _, result := range results {
		title := fmt.Sprintf("%s/%s of %s (cluster %s, addresses: %s)", result.Namespace, result.Name, result.From, result.Cluster, strings.Join(result.Addresses, ", "))
		fmt.Fprintf(&text, "%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), strings.TrimRight(result.Text, "\n")+"\n")
	}
	fmt.Fprintf(&text, "%d machines, %d would change\n", len(results), changed(results))
	_, err := io.WriteString(out, text.String())
	return err
}

func newRenderCommand(s streams) *cobra.Command {
	var from source
	var dir string
	command := &cobra.Command{
		Use:   "render -f FILE|DIR|- -o DIR",
		Short: "Write the Terraform configuration of each machine to a folder",
		Long: `render resolves the names of the manifests against the engine and writes one folder per machine, in which
terraform init and terraform plan can be run by hand. The file terraform.tfvars.json in it holds the engine's
password: only you can read it, and a .gitignore keeps it out of git.

` + credentialsHelp,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			sessions := &engine.Sessions{}
			defer sessions.Close(context.WithoutCancel(command.Context()))
			machines, err := from.render(command.Context(), s, sessions)
			if err != nil {
				return err
			}
			return writeAll(s.out, dir, machines)
		},
	}
	from.addFlags(command)
	command.Flags().StringVarP(&dir, "output", "o", "", "folder to write to; it gets one folder per machine")
	_ = command.MarkFlagRequired("output")
	return command
}

// ignored keeps secrets and Terraform's own files out of git.
const ignored = "terraform.tfvars.json\n.terraform/\n*.tfstate*\n*.tfplan\n"

func writeAll(out io.Writer, dir string, machines []preview.Rendered) error {
	for _, machine := range machines {
		target := filepath.Join(dir, machine.Namespace, machine.Name)
		if _, err := os.Stat(filepath.Join(target, "terraform.tfstate")); err == nil {
			return fmt.Errorf("%s holds a terraform.tfstate; move it away or choose another folder with -o", target)
		}
		files := map[string][]byte{".gitignore": []byte(ignored)}
		for name, content := range machine.Files {
			files[name] = content
		}
		for name, content := range files {
			path := filepath.Join(target, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return fmt.Errorf("failed to make the folder: %w", err)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return fmt.Errorf("failed to write the configuration: %w", err)
			}
		}
		if _, err := fmt.Fprintln(out, target); err != nil {
			return err
		}
	}
	return nil
}
