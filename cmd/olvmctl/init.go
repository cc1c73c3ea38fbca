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
	"init requires a terminal on standard input and standard error; to run without one, use --answers FILE " +
		"(docs/user/init.md)",
)

func newInitCommand(s streams) *cobra.Command {
	var options survey.Options
	var file clusterFileFlags
	var answers string
	output := outputFlag{file: "--out"}
	command := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Create a cluster file from your answers to questions",
		Long: `Ask for the engine, for objects in the engine, and for the addresses and the size of a cluster. The
choices come from the engine, and the command checks each answer at once. Shift+Tab returns to the
previous question. If OLVM_PASSWORD is set, the command does not ask for the password.

The command writes the cluster file. In the same folder, it writes the engine's CA as NAME-ca.crt,
and a Secret with the credentials as NAME-credentials.yaml. After a failure or an interrupt, it
writes nothing.

With --answers, the command asks nothing. The file has a key for each question (docs/user/init.md).
For omitted keys, the command uses OLVM_USERNAME, OLVM_PASSWORD and the defaults.

If ACCESSIBLE is set or TERM is dumb, the questions are plain lines of text.`,
		Example: `  olvmctl init prod.yaml
  OLVM_PASSWORD=... olvmctl init prod.yaml --answers answers.yaml`,
		Args: atMostOne("FILE", "the cluster file to write"),
		RunE: func(command *cobra.Command, args []string) error {
			options.Defaults = file.defaults
			if len(args) > 0 && command.Flags().Changed("out") {
				return fmt.Errorf("specify the file to write as the argument %q or with --out, not both", args[0])
			} else if len(args) > 0 {
				options.Output = args[0]
			}

			return runSurvey(command.Context(), s, answers, options, output)
		},
	}
	file.addDefaultsFlag(command.Flags())
	command.Flags().StringVar(&options.Output, "out", "cluster.yaml",
		"cluster file to write; the CA and the credentials are written to the same folder")
	output.addFlag(command, formatText)
	command.Flags().BoolVar(&options.Force, "force", false, "overwrite existing files")
	command.Flags().StringVar(&answers, "answers", "", "YAML file with the answers")

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
			fmt.Fprintf(&text, "wrote %s\n", path)
		}
	}

	fmt.Fprintf(&text, "\n%s contains the password: do not commit it to git.\nNext steps:\n\n", w.Credentials)
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
