package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile/survey"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
)

// errNoTerminal ends a survey if there is no terminal.
var errNoTerminal = errors.New(
	"init asks questions on a terminal, and standard input and error are none; give the answers with " +
		"--answers FILE (docs/user/init.md)",
)

func newInitCommand(s streams) *cobra.Command {
	var options survey.Options
	var file clusterFileFlags
	var answers string
	output := outputFlag{file: "--out"}
	command := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Ask for what a cluster file needs, and write it",
		Long: `init asks for the engine, for names in it, and for the addresses and the size of a
cluster. Choices are what the engine has, every answer is checked at once, and Shift+Tab goes back to
the question before. The password in OLVM_PASSWORD is taken without a question. It writes the cluster
file, and beside it the CA of the engine as NAME-ca.crt and a Secret with the credentials as
NAME-credentials.yaml. Where it fails, or is interrupted, it writes nothing.

With --answers it asks nothing: the file has a key for each question (docs/user/init.md). What it leaves
out comes from OLVM_USERNAME and OLVM_PASSWORD, or is the default.

The questions are put by lines of text where ACCESSIBLE is set or TERM is dumb.`,
		Example: `  olvmctl init prod.yaml
  OLVM_PASSWORD=... olvmctl init prod.yaml --answers answers.yaml`,
		Args: atMostOne("FILE", "the cluster file to write"),
		RunE: func(command *cobra.Command, args []string) error {
			options.Defaults = file.defaults
			if len(args) > 0 && command.Flags().Changed("out") {
				return fmt.Errorf("%q is the file to write, and so is that of --out; give one of them", args[0])
			} else if len(args) > 0 {
				options.Output = args[0]
			}

			return runSurvey(command.Context(), s, answers, options, output)
		},
	}
	file.addDefaultsFlag(command.Flags())
	command.Flags().StringVar(&options.Output, "out", "cluster.yaml",
		"cluster file to write; the CA and the credentials go to its folder")
	output.addFlag(command, formatText)
	command.Flags().BoolVar(&options.Force, "force", false, "overwrite files that exist")
	command.Flags().StringVar(&answers, "answers", "", "file with the answers, in YAML")

	return command
}

func runSurvey(
	ctx context.Context, s streams, answers string, options survey.Options, output outputFlag,
) error {
	var asker survey.Asker
	if answers != "" {
		file, err := survey.ReadFile(answers)
		if err != nil {
			return err
		}

		asker = file
	} else {
		terminal := survey.NewTerminal(s.in, s.err)
		if terminal == nil {
			return errNoTerminal
		}

		asker = terminal
	}

	written, err := survey.Run(ctx, asker, options)
	if err != nil {
		return err
	}

	for _, p := range written.Warnings {
		_, _ = fmt.Fprintln(s.err, p)
	}

	return output.printValue(s.out, written, func() error { return printNext(s.out, written) })
}

// printNext prints the names of the written files, and the next steps.
func printNext(out io.Writer, w *survey.Written) error {
	var text strings.Builder

	for _, path := range []string{w.ClusterFile, w.CA, w.Credentials} {
		if path != "" {
			fmt.Fprintf(&text, "%s is written\n", path)
		}
	}

	fmt.Fprintf(&text, "\n%s has the password: keep it out of git.\nNext:\n\n", w.Credentials)
	file, credentials := shellword.QuoteWord(w.ClusterFile), shellword.QuoteWord(w.Credentials)

	if w.NoTemplate {
		fmt.Fprintf(&text, "  olvmctl image template --file IMAGE -f %s --credentials %s\n", file, credentials)
	}

	fmt.Fprintf(
		&text,
		"  olvmctl validate %[1]s --credentials %[2]s --engine\n  olvmctl start %[1]s --credentials %[2]s\n",
		file, credentials,
	)
	_, err := io.WriteString(out, text.String())

	return err
}
