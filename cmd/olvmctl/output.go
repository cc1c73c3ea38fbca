package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

// These are the output formats. The first format of a command is its default. It is for users.
const (
	formatText     = "text"
	formatTable    = "table"
	formatMarkdown = "markdown"
	formatWide     = "wide"
	formatName     = "name"
	formatJSON     = "json"
	formatYAML     = "yaml"
)

// outputFlag is the output format of a command. The flag -o has this meaning in every command.
type outputFlag struct {
	format  string
	formats []string
	// file is the flag for the output file of the command, or "" if the command writes no file.
	file string
}

// addFlag adds the flag -o with the given formats. The first format is the default. Every command also has JSON and
// YAML.
func (f *outputFlag) addFlag(command *cobra.Command, formats ...string) {
	f.formats = formats

	for _, format := range []string{formatJSON, formatYAML} {
		if !slices.Contains(f.formats, format) {
			f.formats = append(f.formats, format)
		}
	}

	f.format = f.formats[0]
	command.Flags().VarP(f, "output", "o", "output format: "+joinWithOr(f.formats))
	registerCompletion(command, "output", func(*cobra.Command) []string { return f.formats })
}

// String implements pflag.Value.
func (f *outputFlag) String() string { return f.format }

// Type implements pflag.Value.
func (f *outputFlag) Type() string { return "format" }

// Set implements pflag.Value.
func (f *outputFlag) Set(format string) error {
	if slices.Contains(f.formats, format) {
		f.format = format
		return nil
	}

	return &formatError{Format: format, Formats: f.formats, File: f.file}
}

// isForPeople reports whether the output is the default format of the command, or its wide variant.
func (f *outputFlag) isForPeople() bool { return f.format == f.formats[0] || f.format == formatWide }

// printValue writes a value for programs. For users, it calls people instead.
func (f *outputFlag) printValue(out io.Writer, value any, people func() error) error {
	if f.isForPeople() {
		return people()
	}

	return encodeValue(out, f.format, value)
}

// outcome is what a command that changes a cluster prints for programs.
type outcome struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Done is the result: scaled, upgraded, unchanged, stopped, deleted or moved.
	Done     string   `json:"done"`
	Messages []string `json:"messages,omitempty"`
}

// formatError reports a format that the command does not support.
type formatError struct {
	Format  string
	Formats []string
	// File is the flag for the output file of the command, or "" if the command writes no file.
	File string
}

func (e *formatError) Error() string {
	out := fmt.Sprintf("-o %s is not supported; use %s", e.Format, joinWithOr(e.Formats))
	if e.File != "" {
		out += fmt.Sprintf("; to write to a file, use %s %s", e.File, e.Format)
	}

	return out
}

// joinWithOr joins words with commas, and with "or" before the last word.
func joinWithOr(words []string) string {
	last := len(words) - 1

	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// encodeValue writes a value for programs, as JSON or YAML.
func encodeValue(out io.Writer, format string, value any) error {
	if format == formatYAML {
		text, err := kyaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("failed to encode the output: %w", err)
		}

		_, err = out.Write(text)

		return err
	}

	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")

	return encoder.Encode(value)
}

// isColored reports whether the output is a terminal that supports colors, and the user has not disabled them.
func isColored(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// color is the color of a text on a terminal.
type color string

const (
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
)

// colorize colors a text if the output supports colors. The text may come from a stranger.
func colorize(out io.Writer, in color, text string) string {
	text = plaintext.Printable(text)
	if in == "" || text == "" || !isColored(out) {
		return text
	}

	return string(in) + text + "\x1b[0m"
}
