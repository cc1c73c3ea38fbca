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
		Short: "Show what manifests would change, as Terraform plans",
		Long: `plan resolves the names of the manifests against the engine and runs a real
Terraform plan for each machine that they ask for. Replicas are expanded. A machine whose VM exists
is compared with it.

With --kubeconfig the manifests are compared with what a management cluster has: a rollout is shown
as one, with the machines that it replaces and why. Without -f that is the state of the management
cluster itself, and shows drift alone. The plans begin with the Terraform states of the machines, as
those of the controllers do, where you may read their Secrets.

What a GitOps tool would prune is part of the plan: if labels of the live objects name the tool, everything else that
it has applied and the manifests do not have is deleted, with its machines, VMs and disks. --prune looks at all objects
of the namespaces instead. A line says whether deletions were looked at.

The API server of --kubeconfig is asked in a dry run what it would refuse, if you may write there; otherwise the CRDs of
this release say it. A line tells which.

With --offline no engine is asked and no Terraform run: machines are listed with their sizes and addresses.

` + credentialsHelp + `

A machine that cannot be made as it is asked for is listed with the reason, and the others are planned.

The last line counts machines: Plan: 3 to create, 1 to update, 2 to replace, 4 to destroy.

Exit codes: 0 nothing would change, 2 something would change, 1 error, or a machine is refused.`,
		Example: `  olvmctl plan -f clusters/
  kustomize build . | olvmctl plan -f - -o json
  olvmctl plan -f clusters/ --kubeconfig management.kubeconfig -o markdown >plan.md`,
		RunE: func(command *cobra.Command, _ []string) error {
			if len(p.files)+len(p.kustomizations) == 0 && !p.management.isGiven() {
				return errors.New(
					"there is nothing to plan; give manifests or a cluster file with -f, or a management " +
						"cluster with --kubeconfig",
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
		"where the whole plan is, such as the log of a job: for -o markdown, which has no more than a comment holds")
	command.Flags().BoolVar(&p.offline, "offline", false, "ask no engine and run no Terraform")
	command.Flags().BoolVar(&p.prune, "prune", false,
		"list what the management cluster has and the manifests have not, and what goes with it (default: if a GitOps "+
			"tool has applied what the manifests have)")
	p.management.addFlags(command)
	command.Flags().Lookup("kubeconfig").Usage = "kubeconfig of the management cluster to compare with"
	command.Flags().Lookup("context").Usage = "context of the management cluster to compare with, in the kubeconfig"
	command.Flags().Lookup("namespace").Usage =
		"namespace of the management cluster to compare with; empty means those of the manifests, or all"
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
	live, err := p.management.connectAnywhere(ctx)
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
