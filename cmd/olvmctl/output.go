package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/yaml"
)

// checkOutput fails where an output is none of those of a command.
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
