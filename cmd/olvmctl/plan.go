package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

// planFlags are the flags of the plan command.
type planFlags struct {
	sourceFlags
	output outputFlag
	// link is the URL of the whole plan, for a comment with too little space for the plan. It is empty if there is
	// none.
	link    string
	offline bool
	// prune includes deletions. If it is unset, the labels of running objects decide.
	prune    bool
	pruneSet bool
	// management is the management cluster to compare with, if the user has named one.
	management managementFlags
}

func newPlanCommand(s streams) *cobra.Command {
	var p planFlags
	command := &cobra.Command{
		Use:   "plan FILE|DIR|-... | -k DIR | --kubeconfig FILE",
		Short: "Show the changes that manifests would make, as Terraform plans",
		Long: `Resolve the names in the manifests against the engine, and run a Terraform plan for each machine.
The command expands replicas, and compares each existing VM with its machine.

With --kubeconfig, the command compares the manifests with the objects in a management cluster. It
shows which machines a rollout would replace, and why. Without -f, it shows only the drift of the
machines in the management cluster. If you may read their Secrets, the plans start from the
Terraform states of the machines, as in the controllers.

The plan includes objects that a GitOps tool would prune. If labels of the live objects name the
tool, the plan deletes all other objects applied by this tool that are not in the manifests, with
their machines, VMs and disks. With --prune, it considers all objects in the namespaces instead. The
output shows whether the plan includes deletions.

If you may write to the management cluster, its API server validates the manifests in a dry run.
Otherwise, the command validates them with CRDs. The output shows the method.

With --offline, the command contacts no engine and runs no Terraform. It lists the machines with
their sizes and addresses.

` + credentialsHelp + `

If a machine cannot be created, the output lists it with the reason, and the command plans the
others.

The last line counts machines: Plan: 3 to create, 1 to update, 2 to replace, 4 to destroy.

Exit codes: 0 if nothing would change; 2 if something would change; 1 if a machine is refused, or on
an error.`,
		Example: `  olvmctl plan -f clusters/
  kustomize build . | olvmctl plan -f - -o json
  olvmctl plan -f clusters/ --kubeconfig management.kubeconfig -o markdown >plan.md`,
		RunE: func(command *cobra.Command, _ []string) error {
			if len(p.files)+len(p.kustomizations) == 0 && !p.management.isGiven() {
				return errors.New(
					"nothing to plan; specify manifests or a cluster file with -f, or a management cluster with " +
						"--kubeconfig",
				)
			}

			p.pruneSet = command.Flags().Changed("prune")

			return p.runPlan(command.Context(), s)
		},
	}
	p.addPlanFlags(command)

	return command
}

func (p *planFlags) addPlanFlags(command *cobra.Command) {
	p.addFlags(command)
	p.output.addFlag(command, formatText, formatMarkdown)
	command.Flags().StringVar(&p.link, "link", "",
		"URL of the full plan, such as the log of a job, for -o markdown, which is cut to the size of a comment")
	command.Flags().BoolVar(&p.offline, "offline", false, "do not contact an engine or run Terraform")
	command.Flags().BoolVar(&p.prune, "prune", false,
		"plan the deletion of objects that are not in the manifests (default: of objects applied by the GitOps "+
			"tool that has applied the manifests)")
	p.management.addFlags(command)
	command.Flags().Lookup("kubeconfig").Usage = "kubeconfig of the management cluster to compare with"
	command.Flags().Lookup("context").Usage = "context in the kubeconfig of the management cluster to compare with"
	command.Flags().Lookup("namespace").Usage =
		"namespace in the management cluster to compare with (default: those of the manifests, or all)"
}

func (p *planFlags) runPlan(ctx context.Context, s streams) error {
	p.mayBeEmpty = p.management.isGiven() && (!p.pruneSet || p.prune)
	p.emptyFolder = p.mayBeEmpty && p.prune

	manifests, err := p.loadSources(s)
	if err != nil {
		return err
	}

	if p.management.isGiven() {
		err = p.addLive(ctx, manifests)
	} else {
		err = manifests.CheckServed(ctx, nil)
	}

	if err != nil {
		return err
	}

	if p.isEmpty && len(manifests.Pruned()) == 0 {
		return p.emptyError(", and nothing would be pruned (" + manifests.Deletions() + ")")
	}

	how := preview.Request{Offline: p.offline, Progress: s.err}
	if !p.offline {
		if how.Credentials, err = p.loadCredentials(p.cluster.path); err != nil {
			return err
		}
	}

	report, err := manifests.ReportOn(ctx, how)
	if err != nil {
		return err
	}

	report.Color = isColored(s.out)

	if err := p.printReport(s, report); err != nil {
		return err
	}

	switch {
	case report.Refused > 0:
		return report.RefusalError()
	case report.HasChanges():
		return errChanges
	}

	return nil
}

// isTerminal reports whether the output is a terminal.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)

	return ok && term.IsTerminal(int(file.Fd()))
}

// addLive adds the objects of the management cluster to the manifests.
func (p *planFlags) addLive(ctx context.Context, manifests *preview.Manifests) error {
	live, err := p.management.connectAllNamespaces(ctx)
	if err != nil {
		return err
	}

	if p.pruneSet {
		manifests.SetPruning(p.prune)
	}

	return manifests.AddManagementCluster(ctx, live, p.management.Namespace, p.offline)
}

func (p *planFlags) printReport(s streams, report planreport.Report) error {
	switch p.output.format {
	case formatText:
		return report.WriteText(s.out)
	case formatMarkdown:
		return report.WriteMarkdown(s.out, p.link)
	}

	return encodeValue(s.out, p.output.format, report.WithoutIdlePlans())
}
