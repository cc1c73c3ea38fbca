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

// Formats of outputs. The first of a command is for people, and is its default.
const (
	formatText     = "text"
	formatTable    = "table"
	formatMarkdown = "markdown"
	formatWide     = "wide"
	formatName     = "name"
	formatJSON     = "json"
	formatYAML     = "yaml"
)

// outputFlag says in which format a command prints: -o means that in each command.
type outputFlag struct {
	format  string
	formats []string
	// file is the flag of a command for the file that it writes; empty if it writes none.
	file string
}

// addFlag adds -o with formats, of which the first is the default. JSON and YAML are among those of each command.
func (f *outputFlag) addFlag(command *cobra.Command, formats ...string) {
	f.formats = formats

	for _, format := range []string{formatJSON, formatYAML} {
		if !slices.Contains(f.formats, format) {
			f.formats = append(f.formats, format)
		}
	}

	f.format = f.formats[0]
	command.Flags().VarP(f, "output", "o", "format of the output: "+alternatives(f.formats))
	complete(command, "output", func(*cobra.Command) []string { return f.formats })
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

// forPeople reports whether the output is the default of the command, or that with more columns.
func (f *outputFlag) forPeople() bool { return f.format == f.formats[0] || f.format == formatWide }

// print writes a value for programs, or has people write it for people.
func (f *outputFlag) print(out io.Writer, value any, people func() error) error {
	if f.forPeople() {
		return people()
	}

	return encode(out, f.format, value)
}

// outcome is what a command that changes a cluster prints for programs.
type outcome struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Done is what was done: scaled, upgraded, unchanged, stopped, deleted or moved.
	Done     string   `json:"done"`
	Messages []string `json:"messages,omitempty"`
}

// formatError reports a format that a command does not have.
type formatError struct {
	Format  string
	Formats []string
	// File is the flag for the file that the command writes; empty if it writes none.
	File string
}

func (e *formatError) Error() string {
	out := fmt.Sprintf("-o %s is not known; write %s", e.Format, alternatives(e.Formats))
	if e.File != "" {
		out += fmt.Sprintf(", and the file with %s %s", e.File, e.Format)
	}

	return out
}

// alternatives are words with an or before the last.
func alternatives(words []string) string {
	last := len(words) - 1

	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// encode writes for programs: json or yaml.
func encode(out io.Writer, format string, value any) error {
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

// isColored reports whether a person reads an output on a terminal that has colors, and wants them.
func isColored(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// color of a text on a terminal.
type color string

const (
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
)

// paint gives a text a color if a person reads the output on a terminal with colors. The text may be of a stranger.
func paint(out io.Writer, in color, text string) string {
	text = plaintext.Printable(text)
	if in == "" || text == "" || !isColored(out) {
		return text
	}

	return string(in) + text + "\x1b[0m"
}
