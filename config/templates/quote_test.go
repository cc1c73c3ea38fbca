package templates

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// hostile are values misread by YAML unless they are quoted.
var hostile = []string{
	"010", "8", "1e3", "0x1F", "1_000", "-0", ".5", "true", "No", "null", "~", "2026-01-01", "12:30:45", "kvm #2", "a: b",
	"- a", "? a", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "{a}", "[a]", "{a: b}", " a ", `a\nb`, `"a"`, `C:\vm`,
	"a\tb", "\ta", "ümläut", "=", "<<", "yes", "kvm #2 # 3", `it's`, `'a'`, `''`, `'`, `"`, `a"b`, `\`,
	`a\`, `${A}`, "$a", "  a", "日本 #1", "a:", "--- a", "...",
}

// severalLines are values impossible in any text field.
var severalLines = []string{"a\nb", "a\n", "a\n\nb", "a\n  b", "a\rb", "a\n---\nb: c", "\nb"}

// notText matches the variables of numbers, and of lists with commas between the elements.
var notText = regexp.MustCompile(
	`(?:_COUNT|_PORT|_CORES|_SOCKETS|_SECONDS|_BITS|ADDRESSES|ADDRESSES_IPV6|_KEYS)$|^NODES_LOST_AT_MOST$`)

// checkedNames matches the variables of object names, without quotes and spaces, and of sizes, without leading blanks.
// The API server refuses other values, as tested in e2e/release.
var checkedNames = regexp.MustCompile(`^(?:CLUSTER_NAME|NAMESPACE|.*_(?:SECRET|CONFIGMAP|DISK))$`)

// TestAVariableOfATemplateIsTheTextThatTheUserGave has clusterctl fill in values easily misread by YAML. Each must
// reach the fields of its variable unchanged. In -short runs, one flavor gets all of them.
func TestAVariableOfATemplateIsTheTextThatTheUserGave(t *testing.T) {
	names, err := fs.Glob(Files, "*.yaml")
	check.Error(t, err, "")

	for index, name := range names {
		t.Run(name, func(t *testing.T) {
			template, err := fs.ReadFile(Files, name)
			check.Error(t, err, "")

			variables, err := yamlprocessor.NewSimpleProcessor().GetVariables(template)
			check.Error(t, err, "")

			texts := slices.DeleteFunc(variables, notText.MatchString)
			checked := slices.DeleteFunc(slices.Clone(texts), func(name string) bool {
				return !checkedNames.MatchString(name)
			})

			// Marks reveal the variables of each field. No text of a template contains one.
			plain := textsOf(t, fill(t, template, texts, mark))

			for i, value := range hostile {
				if testing.Short() && name != "cluster-template.yaml" && i%len(names) != index {
					continue
				}

				given := func(variable string) string {
					if slices.Contains(checked, variable) && strings.ContainsAny(value, "' \t") {
						return mark(variable)
					}

					return value
				}
				filled := textsOf(t, fill(t, template, texts, given))
				check.Length(t, "the texts with "+value, filled, len(plain))

				for i, text := range plain {
					want := text
					for _, variable := range texts {
						want = strings.ReplaceAll(want, mark(variable), given(variable))
					}

					// A text in a file of the guest has the value in a line of the file.
					if want != text && !strings.Contains(text, "\n") {
						check.Equal(t, fmt.Sprintf("%s with %q", text, value), filled[i], want)
					}
				}
			}
		})
	}
}

// TestAValueOfSeveralLinesIsRefused fills in one variable after the other. YAML would read a line break within quotes
// as a space. A value breaking the template is an error instead, unless it arrives unchanged. Line breaks at its end
// are dropped.
func TestAValueOfSeveralLinesIsRefused(t *testing.T) {
	isText := func(variable string) bool { return !notText.MatchString(variable) }

	forEachVariable(t, isText, func(name string, template []byte, texts []string, variable string) {
		plain, err := readTexts(fill(t, template, texts, mark))
		check.Error(t, err, "")

		for _, value := range severalLines {
			filled, err := readTexts(fill(t, template, texts, func(other string) string {
				if other == variable {
					return value
				}

				return mark(other)
			}))
			isChecked := checkedNames.MatchString(variable)
			if err == nil && !isChecked && !areFilled(filled, plain, mark(variable), value) {
				t.Errorf("%s: %s with %q changes silently", name, variable, value)
			}
		}
	})
}

// forEachVariable calls try for each variable of a kind, with the first template that has it and with the template's
// variables of this kind. It returns the number of variables.
func forEachVariable(
	t *testing.T, isWanted func(variable string) bool,
	try func(name string, template []byte, wanted []string, variable string),
) int {
	t.Helper()

	names, err := fs.Glob(Files, "cluster-template*.yaml")
	check.Error(t, err, "")

	done := map[string]bool{}

	for _, name := range names {
		template, err := fs.ReadFile(Files, name)
		check.Error(t, err, "")
		variables, err := yamlprocessor.NewSimpleProcessor().GetVariables(template)
		check.Error(t, err, "")

		wanted := slices.DeleteFunc(variables, func(variable string) bool { return !isWanted(variable) })

		for _, variable := range wanted {
			if !done[variable] {
				done[variable] = true
				try(name, template, wanted, variable)
			}
		}
	}

	return len(done)
}

// areFilled reports whether texts have a value at the place of a mark, or differ from the template's in number: the API
// server rejects any field added by a value.
func areFilled(filled, plain []string, mark, value string) bool {
	if len(filled) != len(plain) {
		return true
	}

	for i, text := range plain {
		if !strings.Contains(text, "\n") && filled[i] != strings.ReplaceAll(text, mark, strings.TrimRight(value, "\n")) {
			return false
		}
	}

	return true
}

// listNames matches the variables of lists with commas between the elements.
var listNames = regexp.MustCompile(`(?:ADDRESSES|ADDRESSES_IPV6|_KEYS)$`)

// hostileLists end their list, or the text around it, and go on with something else.
var hostileLists = []string{
	`10.0.0.1", evil: "x`, `10.0.0.1', evil: 'x`, "10.0.0.1], evil: [x", "10.0.0.1] , evil: [x",
	"10.0.0.1]}, {evil: [x",
	"10.0.0.1}, evil: {a: b", `10.0.0.1"}, {evil: "x`, "10.0.0.1] # x", "10.0.0.1 # x",
	"[10.0.0.1", "10.0.0.1]", `"`, `'`, `\`,
	`10.0.0.1\", evil: \"x`, "{evil: x}", "evil: x", "? evil", "&a 10.0.0.1", "*a",
	"!!binary ZXZpbA==", "!x 10.0.0.1", "|", ">",
	"10.0.0.1,, 10.0.0.2", ", evil: x", "10.0.0.1\\n  evil: x", "- evil", "%x", "@x", "`x`", "---", "...",
}

// TestAListOfATemplateAddsNoKeyBesideIt fills in one list after the other. A value must be an error, or arrive in its
// list: all other keys and values of the manifests, and of the manifests in them, stay as they are.
func TestAListOfATemplateAddsNoKeyBesideIt(t *testing.T) {
	try := func(name string, template []byte, _ []string, variable string) {
		plain, err := outsideLists(fill(t, template, []string{variable}, mark), mark(variable))
		check.Error(t, err, "")

		for _, value := range hostileLists {
			filled, err := outsideLists(fill(t, template, []string{variable},
				func(string) string { return value }), value)
			if err == nil && !slices.Equal(filled, plain) {
				t.Errorf("%s: %s with %q changes something else:\n%v", name, variable,
					value, difference(filled, plain))
			}
		}
	}

	check.Equal(t, "lists were tried", forEachVariable(t, listNames.MatchString, try) > 6, true)
}

// difference returns the elements of only one of two lists.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Concat(a, b), func(text string) bool {
		return slices.Contains(a, text) && slices.Contains(b, text)
	})
}

// outsideLists lists the paths of all scalars of manifests, and of manifests in their texts, with the values that are
// not those of a list of the template.
func outsideLists(manifests []byte, value string) ([]string, error) {
	var out []string

	decoder := yaml.NewDecoder(bytes.NewReader(manifests))

	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}

		found, err := pathsOf(&document, "", value)
		if err != nil {
			return nil, err
		}

		out = append(out, found...)
	}
}

// pathsOf is outsideLists for one node. The elements of a list with names of lists are not compared, because an API
// server checks their types.
func pathsOf(node *yaml.Node, path, value string) ([]string, error) {
	var out []string

	switch {
	case node.Kind == yaml.SequenceNode && slices.Contains(
		[]string{"ipAddresses", "addresses", "authorizedKeys"}, path[strings.LastIndex(path, ".")+1:]):
		return []string{path + " list"}, nil
	case node.Kind == yaml.ScalarNode && strings.Contains(node.Value, "\nkind: "):
		return outsideLists([]byte(node.Value), value)
	case node.Kind == yaml.ScalarNode && node.Value == value:
		return []string{path + " value"}, nil
	case node.Kind == yaml.ScalarNode:
		return []string{path + " " + node.Value}, nil
	}

	for i, child := range node.Content {
		below := path
		if node.Kind == yaml.MappingNode {
			below += "." + node.Content[i-i%2].Value
		}

		found, err := pathsOf(child, below, value)
		if err != nil {
			return nil, err
		}

		out = append(out, found...)
	}

	return out, nil
}

// TestKeysForSSHAndSizesOfDisksAreVariables expects the fields to be empty unless users set them.
func TestKeysForSSHAndSizesOfDisksAreVariables(t *testing.T) {
	for name, want := range map[string]struct{ keys, size string }{
		"none":        {},
		"one key":     {keys: `ssh-ed25519 AAAA it's "me"@example.com`, size: "100GB"},
		"two keys":    {keys: "ssh-ed25519 AAAA a@b,ssh-rsa BBBB", size: "50 GB"},
		"an odd size": {size: "1e3"},
	} {
		t.Run(name, func(t *testing.T) {
			template, err := fs.ReadFile(Files, "cluster-template.yaml")
			check.Error(t, err, "")
			out, err := yamlprocessor.NewSimpleProcessor().Process(template, func(variable string) (string, error) {
				switch {
				case strings.HasSuffix(variable, "_DISK"):
					return want.size, nil
				case variable == "OLVM_SSH_AUTHORIZED_KEYS":
					return want.keys, nil
				}

				return "3", nil
			})
			check.Error(t, err, "")

			keys, sizes := []string{}, 0

			for document := range strings.SplitSeq(string(out), "\n---\n") {
				var object struct {
					Spec struct {
						UserData struct {
							SSH struct {
								AuthorizedKeys []string `yaml:"authorizedKeys"`
							}
						} `yaml:"userData"`
						Template struct {
							Spec struct {
								VirtualMachine struct {
									RootDisk *struct{ Size string } `yaml:"rootDisk"`
								} `yaml:"virtualMachine"`
							}
						}
					}
				}
				check.Error(t, yaml.Unmarshal([]byte(document), &object), "")
				keys = append(keys, object.Spec.UserData.SSH.AuthorizedKeys...)

				if disk := object.Spec.Template.Spec.VirtualMachine.RootDisk; disk != nil {
					sizes++

					check.Equal(t, "size", disk.Size, want.size)
				}
			}

			check.Equal(t, "sizes", sizes, 2)
			check.Equal(t, "keys", strings.Join(keys, ","), want.keys)
		})
	}
}

// mark returns a value standing for a variable.
func mark(variable string) string { return "mark-of-" + variable + "-end" }

// fill has clusterctl fill in the variables. Variables other than texts get a number.
func fill(t *testing.T, template []byte, texts []string, value func(variable string) string) []byte {
	t.Helper()

	out, err := yamlprocessor.NewSimpleProcessor().Process(template, func(variable string) (string, error) {
		if slices.Contains(texts, variable) {
			return value(variable), nil
		}

		return "3", nil
	})
	check.Error(t, err, "")

	return out
}

// textsOf lists the keys and values of all documents in order. It adds the type to values other than texts.
func textsOf(t *testing.T, manifests []byte) []string {
	t.Helper()
	out, err := readTexts(manifests)
	check.Error(t, err, "")

	return out
}

// readTexts is textsOf for possibly broken manifests.
func readTexts(manifests []byte) ([]string, error) {
	var out []string

	decoder := yaml.NewDecoder(bytes.NewReader(manifests))

	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}

		out = append(out, scalarsOf(&document)...)
	}
}

func scalarsOf(node *yaml.Node) []string {
	if node.Kind == yaml.ScalarNode {
		if node.ShortTag() != "!!str" {
			return []string{node.ShortTag() + " " + node.Value}
		}

		return []string{node.Value}
	}

	var out []string
	for _, child := range node.Content {
		out = append(out, scalarsOf(child)...)
	}

	return out
}
