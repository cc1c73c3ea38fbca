package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// These words may precede the name of an object, as in kubectl.
var (
	clusterWords = []string{
		"clusters", "cluster", "cl", "clusters.cluster.x-k8s.io", "cluster.cluster.x-k8s.io",
	}
	machineWords = []string{
		"machines", "machine", "ma", "machines.cluster.x-k8s.io", "machine.cluster.x-k8s.io",
	}
)

// noArguments rejects all arguments of a command.
func noArguments(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments: unexpected argument %q%s", command.CommandPath(), args[0],
			helpHint(command))
	}

	return nil
}

// oneArgument requires exactly one argument. name is the name of the argument in the usage, and what describes the
// argument.
func oneArgument(name, what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing: specify %s%s", name, what, helpHint(command))
		case len(args) > 1:
			return fmt.Errorf("%s takes one %s: unexpected argument %q%s", command.CommandPath(), name, args[1],
				helpHint(command))
		}

		return nil
	}
}

// atMostOne accepts at most one argument. name is its name in the usage.
func atMostOne(name, what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}

		return oneArgument(name, what)(command, args)
	}
}

// requireName requires the name of one object, as NAME, KIND NAME or KIND/NAME. words are the accepted names of the
// kind.
func requireName(name, what string, words []string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		names, err := namesOf(args, words)
		if err != nil {
			return err
		}

		return oneArgument(name, what)(command, names)
	}
}

// namesOf returns the names of objects in the arguments, without a leading kind. If the only argument equals a kind, it
// is the name of an object.
func namesOf(args, words []string) ([]string, error) {
	if len(args) > 1 && slices.Contains(words, strings.ToLower(args[0])) {
		args = args[1:]
	}

	out := make([]string, 0, len(args))

	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok {
			kind, name = words[0], arg
		}

		if !slices.Contains(words, strings.ToLower(kind)) || name == "" {
			return nil, fmt.Errorf("%q is not the name of a %s; use NAME or %s/NAME", arg, words[1], words[1])
		}

		out = append(out, name)
	}

	return out, nil
}

// nameOf returns the only name in arguments accepted by requireName.
func nameOf(args, words []string) string {
	names, err := namesOf(args, words)
	if err != nil || len(names) == 0 {
		return ""
	}

	return names[0]
}

func helpHint(command *cobra.Command) string { return "; see " + command.CommandPath() + " --help" }

// finishCommands prepares all commands below root: a command with only subcommands rejects unknown subcommands.
func finishCommands(command *cobra.Command) {
	if command.HasSubCommands() && !command.Runnable() && command.HasParent() {
		command.Args = unknownCommand
		command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	}

	for _, below := range command.Commands() {
		finishCommands(below)
	}
}

// unknownCommand rejects an unknown subcommand.
func unknownCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	command.SuggestionsMinimumDistance = 2
	out := fmt.Sprintf("unknown command %q for %q", args[0], command.CommandPath())
	if like := command.SuggestionsFor(args[0]); len(like) > 0 {
		return errors.New(out + "; did you mean " + strings.Join(like, " or ") + "?")
	}

	var names []string

	for _, below := range command.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}

	return fmt.Errorf("%s; available commands: %s", out, strings.Join(names, ", "))
}

// flagError returns the error of a flag. If an unknown command precedes the flag, it returns the error of this command.
func flagError(command *cobra.Command, err error) error {
	if args := command.Flags().Args(); command.HasSubCommands() && len(args) > 0 {
		return unknownCommand(command, args)
	}

	var format *formatError
	if errors.As(err, &format) {
		return format
	}

	return fmt.Errorf("%w%s", err, helpHint(command))
}
