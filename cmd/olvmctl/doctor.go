package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/doctor"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

// errUnwell ends a command after printing its findings.
var errUnwell = errors.New("some checks failed")

// doctorFlags are the flags of the doctor command.
type doctorFlags struct {
	file clusterFileFlags
	accessFlags
	output outputFlag
}

func newDoctorCommand(s streams) *cobra.Command {
	var d doctorFlags
	command := &cobra.Command{
		Use:   "doctor FILE",
		Short: "Check a cluster file and the engine before the first VM",
		Long: `Check a cluster file and the engine, and print the result and the remedy of each check. The command
changes nothing. It checks:

- the cluster file
- the engine's certificate, clock, login and version
- the permissions of the user
- templates, networks and other objects that the machines refer to
- whether guests of the templates report their addresses
- addresses in use
- the free capacity of the hosts

` + credentialsHelp + `

Exit codes: 0 if all checks pass, even with warnings; 1 if a check fails, or on an error.`,
		Example: `  OLVM_USERNAME=admin@internal OLVM_PASSWORD=... olvmctl doctor cluster.yaml
  olvmctl doctor -f cluster.yaml --credentials secret.yaml -o json`,
		RunE: func(command *cobra.Command, _ []string) error {
			return d.runDoctor(command.Context(), s)
		},
	}
	d.file.addFlags(command)
	d.addFlags(command.Flags())
	d.output.addFlag(command, formatText)

	return command
}

func (d *doctorFlags) runDoctor(ctx context.Context, s streams) error {
	findings, err := d.examine(ctx, s)
	if err != nil {
		return err
	}

	return showFindings(s, d.output, findings)
}

// showFindings prints findings, and returns an error if one of them failed.
func showFindings(s streams, output outputFlag, findings []doctor.Finding) error {
	err := output.printValue(s.out, map[string]any{"findings": findings}, func() error {
		return printFindings(s.out, findings)
	})
	if err != nil {
		return err
	}

	for _, finding := range findings {
		if finding.Verdict == doctor.Failed {
			return errUnwell
		}
	}

	return nil
}

// examine checks the file and, if the file is valid, also the engine.
func (d *doctorFlags) examine(ctx context.Context, s streams) ([]doctor.Finding, error) {
	cluster, problems, err := clusterfile.Load(d.file.path, d.file.defaults, d.file.flavor)
	if err != nil {
		return nil, err
	}

	var findings []doctor.Finding

	for _, problem := range problems {
		verdict := doctor.Failed
		if problem.Warning {
			verdict = doctor.Warning
		}

		findings = append(findings, doctor.Finding{Check: "file", Verdict: verdict, Message: problem.Error()})
	}

	if clusterfile.HasErrors(problems) {
		return findings, nil
	}

	if len(problems) == 0 {
		valid := doctor.Finding{Check: "file", Verdict: doctor.OK, Message: d.file.path + " is valid"}
		findings = append(findings, valid)
	}

	if cluster.ProviderName() != clusterfile.OLVMProvider {
		return nil, fmt.Errorf("provider %s: doctor supports only %s; use olvmctl validate --engine",
			cluster.ProviderName(), clusterfile.OLVMProvider)
	}

	credentials, err := d.loadCredentials(d.file.path)
	if err != nil {
		return nil, err
	}

	of, err := doctor.Examine(ctx, cluster.Objects, credentials, func(check string) {
		_, _ = fmt.Fprintln(s.err, check)
	})

	return append(findings, of...), err
}

// verdictColors are the colors of verdicts on a terminal.
var verdictColors = map[doctor.Verdict]color{doctor.OK: green, doctor.Warning: yellow, doctor.Failed: red}

// printFindings writes a line for each finding, and a line for its remedy.
func printFindings(out io.Writer, findings []doctor.Finding) error {
	for _, f := range findings {
		verdict := colorize(out, verdictColors[f.Verdict], fmt.Sprintf("%-8s", f.Verdict))
		if _, err := fmt.Fprintf(out, "%s %-12s %s\n", verdict, f.Check, plaintext.Printable(f.Message)); err != nil {
			return err
		}

		if f.Remedy == "" {
			continue
		}

		if _, err := fmt.Fprintf(out, "%21s %s\n", "->", plaintext.Printable(f.Remedy)); err != nil {
			return err
		}
	}

	return nil
}
