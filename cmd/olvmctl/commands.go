package main

import (
	"context"
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
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

type streams struct {
	in       io.Reader
	out, err io.Writer
}

func newCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "olvmctl",
		Short:         "Run Kubernetes clusters on Oracle Linux Virtualization Manager and oVirt",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Version,
	}

	// kubectl-olvm, clusterctl-olvm
	if tool, plugin, ok := strings.Cut(filepath.Base(os.Args[0]), "-"); ok && plugin == "olvm" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: tool + " " + plugin}
	}

	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(
		newInitCommand(s),
		newValidateCommand(s),
		newTemplateCommand(s),
		newPlanCommand(s),
		newRenderCommand(s),
		newImageCommand(s),
		newDescribeCommand(s),
		newGetCommand(s),
		newScaleCommand(s),
		newStartCommand(s),
		newMoveCommand(s),
		newUpgradeCommand(s),
		newLogsCommand(s),
		newDeleteCommand(s),
		newLocalCommand(s),
		simcommand.New("olvmctl sim", s.out),
	)

	return root
}

// source is where manifests and credentials come from.
type source struct {
	files []string
	access
	// cluster is how a cluster file is read, if it is one.
	cluster clusterFile
}

func (o *source) addFlags(command *cobra.Command) {
	command.Flags().StringSliceVarP(&o.files, "filename", "f", nil,
		"manifests: a file, a folder, or - for standard input; can be repeated. Or one cluster file")
	o.cluster.addFormatFlags(command)
	o.access.addFlags(command.Flags())
}

// render loads and renders all machines.
func (o *source) render(ctx context.Context, s streams, sessions *engine.Sessions) ([]preview.Rendered, error) {
	manifests, err := o.load(s)
	if err != nil {
		return nil, err
	}

	credentials, err := o.read()
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

	cluster, err := o.cluster.valid(s.err)
	if err != nil {
		return nil, err
	}

	return preview.LoadObjects(cluster.objects)
}

// plan are the flags of the plan command.
type plan struct {
	source
	output  string
	offline bool
	// kubeconfig of the management cluster, and the namespace in it; empty for none, and for those that matter.
	kubeconfig, namespace string
}

// planned is what a plan says.
type planned struct {
	Machines []*preview.Result     `json:"machines"`
	Owners   []preview.OwnerChange `json:"owners"`
	// Changed is how many machines would be made, changed, replaced or deleted.
	Changed int64 `json:"changed"`

	offline bool
}

// print writes a plan.
func (p planned) print(out io.Writer, output string) error {
	switch output {
	case "text":
		return printText(out, p)
	case "markdown":
		return printMarkdown(out, p)
	}

	return encode(out, output, p)
}

func newPlanCommand(s streams) *cobra.Command {
	var p plan
	command := &cobra.Command{
		Use:   "plan -f FILE|DIR|- | --kubeconfig FILE",
		Short: "Show what manifests would change, as Terraform plans",
		Long: `plan resolves the names of the manifests against the engine and runs a real
Terraform plan for each machine that they ask for. Replicas are expanded. A machine whose VM exists
is compared with it.

With --kubeconfig the manifests are compared with what a management cluster has: a rollout is shown
as one, with the machines that it replaces and why. Without -f that is the state of the management
cluster itself, and shows drift alone. The plans begin with the Terraform states of the machines, as
those of the controllers do, where you may read their Secrets.

With --offline no engine is asked and no Terraform run: machines are listed with their sizes and addresses.

` + credentialsHelp + `

Exit codes: 0 nothing would change, 2 something would change, 1 error.`,
		Example: `  olvmctl plan -f clusters/
  kustomize build . | olvmctl plan -f - -o json
  olvmctl plan -f clusters/ --kubeconfig management.kubeconfig -o markdown >plan.md`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(p.output, "text", "json", "markdown"); err != nil {
				return err
			}

			if len(p.files) == 0 && p.kubeconfig == "" {
				return errors.New(
					"there is nothing to plan; give manifests or a cluster file with -f, or a management " +
						"cluster with --kubeconfig",
				)
			}

			return p.run(command.Context(), s)
		},
	}
	p.addFlags(command)
	command.Flags().StringVarP(&p.output, "output", "o", "text", "output: text, json or markdown")
	command.Flags().BoolVar(&p.offline, "offline", false, "ask no engine and run no Terraform")
	command.Flags().StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster to compare with")
	command.Flags().StringVarP(&p.namespace, "namespace", "n", "",
		"namespace of the management cluster to compare with; empty means those of the manifests, or all")

	return command
}

func (p *plan) run(ctx context.Context, s streams) error {
	manifests, err := p.load(s)
	if err != nil {
		return err
	}

	if p.kubeconfig != "" {
		if err := p.addLive(ctx, manifests); err != nil {
			return err
		}
	}

	machines, owners, err := manifests.Expand()
	if err != nil {
		return err
	}

	out := planned{
		offline:  p.offline,
		Machines: []*preview.Result{},
		Owners:   append([]preview.OwnerChange{}, owners...),
	}
	if p.offline {
		out.Machines, err = preview.Offline(manifests, machines)
	} else {
		err = p.online(ctx, s, manifests, machines, &out)
	}

	if err != nil {
		return err
	}

	for _, machine := range out.Machines {
		if machine.Changed() {
			out.Changed++
		}
	}

	for _, owner := range owners {
		out.Changed += owner.Deleted
	}

	if err := out.print(s.out, p.output); err != nil {
		return err
	}

	if out.Changed > 0 {
		return errChanges
	}

	return nil
}

// addLive adds what the management cluster has.
func (p *plan) addLive(ctx context.Context, manifests *preview.Manifests) error {
	live := management{kubeconfig: p.kubeconfig}
	if err := live.connect(); err != nil {
		return err
	}

	if err := manifests.AddLive(ctx, live, p.namespace); err != nil || p.offline {
		return err
	}

	return manifests.AddStates(ctx, live)
}

// newExecutor makes an executor with a working directory for it, which remove removes.
func newExecutor(
	ctx context.Context, sessions *engine.Sessions,
) (executor *terraform.Executor, scratch string, remove func(), err error) {
	tools, err := toolchain.Embedded() // olvmctl start may have brought one
	if err != nil {
		return nil, "", nil, err
	}

	executable, err := tools.FindExecutor(ctx)
	if err != nil {
		return nil, "", nil, err
	}

	if scratch, err = os.MkdirTemp("", "olvmctl-"); err != nil {
		return nil, "", nil, fmt.Errorf("failed to make a working directory: %w", err)
	}

	provider := tfprovider.InProcess{Options: tfprovider.Options{Sessions: sessions}}

	return terraform.NewExecutor(executable, provider,
		filepath.Join(scratch, "init")), scratch, func() { _ = os.RemoveAll(scratch) }, nil
}

// online runs Terraform for each machine.
func (p *plan) online(
	ctx context.Context, s streams, manifests *preview.Manifests, machines []preview.Machine, out *planned,
) error {
	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))
	executor, scratch, remove, err := newExecutor(ctx, sessions)
	if err != nil {
		return err
	}
	defer remove()
	credentials, err := p.read()
	if err != nil {
		return err
	}

	rendered, err := preview.Render(ctx, manifests, machines, credentials, sessions)
	if err != nil {
		return err
	}

	for i, machine := range rendered {
		_, _ = fmt.Fprintf(s.err, "planning %s/%s (%d of %d)\n", machine.Namespace, machine.Name, i+1, len(rendered))
		result, err := preview.Plan(ctx, executor, machine, scratch)
		if err != nil {
			return err
		}

		out.Machines = append(out.Machines, result)
	}

	return nil
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
	_ = command.MarkFlagRequired("filename")
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
