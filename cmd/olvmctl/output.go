package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

// known reports whether an output is one of those of a command.
func checkOutput(output string, outputs ...string) error {
	if slices.Contains(outputs, output) {
		return nil
	}

	last := len(outputs) - 1

	return fmt.Errorf("-o %s is not known; write %s or %s", output, strings.Join(outputs[:last], ", "), outputs[last])
}

// encode writes for programs: json or yaml.
func encode(out io.Writer, output string, value any) error {
	if output == "yaml" {
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

// total is the last line of a plan.
func (p planned) total() string {
	if p.offline && p.Changed == 0 {
		return fmt.Sprintf("%d machines; what would change is not known offline", len(p.Machines))
	}

	return fmt.Sprintf("%d machines, %d would change", len(p.Machines), p.Changed)
}

func printText(out io.Writer, p planned) error {
	var text strings.Builder

	for _, r := range p.Machines {
		title := fmt.Sprintf("%s/%s of %s (cluster %s, addresses: %s)", r.Namespace, r.Name, r.From, r.Cluster,
			strings.Join(r.Addresses, ", "))
		if r.Replaces != "" {
			title += ", in place of " + r.Replaces
		}

		fmt.Fprintf(&text, "%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), strings.TrimRight(r.Text, "\n")+"\n")
	}

	for _, owner := range p.Owners {
		fmt.Fprintln(&text, owner)
	}

	fmt.Fprintln(&text, p.total())
	_, err := io.WriteString(out, text.String())

	return err
}

// printMarkdown is for a comment on a pull request: a table, and the plans folded away.
func printMarkdown(out io.Writer, p planned) error {
	var text strings.Builder
	fmt.Fprintf(&text, "### Plan: %s\n\n", p.total())

	for _, owner := range p.Owners {
		fmt.Fprintf(&text, "- %s\n", escape(owner.String()))
	}

	if len(p.Owners) > 0 {
		text.WriteString("\n")
	}

	text.WriteString("| machine | of | cluster | addresses | what |\n|---|---|---|---|---|\n")

	for _, r := range p.Machines {
		fmt.Fprintf(&text, "| %s/%s | %s | %s | %s | %s |\n", r.Namespace, r.Name, r.From, r.Cluster,
			escape(strings.Join(r.Addresses, ", ")), escape(what(r)))
	}

	for _, r := range p.Machines {
		if len(r.Changes) == 0 {
			continue
		}

		fence := "```"
		for strings.Contains(r.Text, fence) {
			fence += "`"
		}

		fmt.Fprintf(&text, "\n<details><summary>%s/%s</summary>\n\n%s\n%s\n%s\n\n</details>\n", r.Namespace, r.Name,
			fence, strings.TrimRight(r.Text, "\n"), fence)
	}

	_, err := io.WriteString(out, text.String())

	return err
}

// what would become of a machine, in words.
func what(r *preview.Result) string {
	switch {
	case r.Replaced != "":
		return "replaced: " + r.Replaced
	case r.Replaces != "":
		return "new, in place of " + r.Replaces
	case len(r.Changes) == 0 && r.Plan == nil:
		return r.Text // offline
	case len(r.Changes) == 0:
		return "no change"
	}

	counts := map[string]int{}
	var order []string

	for _, change := range r.Changes {
		if counts[change.Action]++; counts[change.Action] == 1 {
			order = append(order, change.Action)
		}
	}

	var words []string
	for _, action := range order {
		words = append(words, fmt.Sprintf("%s %d", action, counts[action]))
	}

	return strings.Join(words, ", ")
}

// escape keeps a text inside of its cell.
func escape(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(text)
}
