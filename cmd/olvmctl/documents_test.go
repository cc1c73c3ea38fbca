package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// programs are the programs under test. Stand-ins replace other programs in blocks of commands.
var (
	programs = []string{"olvmctl", "make"}
	others   = []string{
		"kubectl",
		"clusterctl",
		"terraform",
		"openssl",
		"curl",
		"jq",
		"ovirtsim",
		"cp",
		"mkdir",
		"cd",
		"kill",
		"sleep",
		"test",
		"grep",
		"head",
		"sed",
		"tar",
	}
)

// synopsis matches a line that describes syntax, and is not a command.
var synopsis = regexp.MustCompile(`\[|[A-Z]\|| \| [a-z-]`)

// waiting matches a loop that waits until a command succeeds. In this test, a command always succeeds or never does.
var waiting = regexp.MustCompile(`(?:while|until) ([^;]+); do\s+sleep \d+;?\s+done`)

// calls makes bash read blocks of commands. It returns the calls of our programs with their arguments.
func calls(t *testing.T, blocks []string) [][]string {
	t.Helper()
	var script strings.Builder

	for _, name := range programs {
		for _, path := range []string{name, "bin/" + name} {
			// Write each call at once, because commands in the background write at the same time.
			script.WriteString(path + "() { printf '%s\\0' " + name + " \"$@\" '' >&9; }\n")
		}
	}

	for _, name := range others {
		for _, path := range []string{name, "bin/" + name} {
			script.WriteString(path + "() { cat >/dev/null </dev/null; echo x; }\n")
		}
	}

	for _, block := range blocks {
		script.WriteString(waiting.ReplaceAllString(block, "$1") + "\n")
	}

	script.WriteString("wait\n")
	command := exec.CommandContext(t.Context(), "bash", "-c", "exec 9>&1 >/dev/null\n"+script.String())
	command.Dir = t.TempDir()
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil || problems.Len() > 0 {
		t.Fatalf("bash: %v: %s", err, problems.String())
	}

	var found [][]string

	for call := range strings.SplitSeq(out.String(), "\x00\x00") {
		if call != "" {
			found = append(found, strings.Split(call, "\x00"))
		}
	}

	return found
}

// hasTarget reports whether the Makefile has a target, or a pattern for it: tools-GROUP is a folder of hack/tools.
func hasTarget(t *testing.T, makefile []byte, target string) bool {
	t.Helper()

	if group, ok := strings.CutPrefix(target, "tools-"); ok {
		_, err := os.Stat(filepath.Join(testenv.Toolchain(t).Root(), "hack", "tools", group))
		return err == nil
	}

	return bytes.Contains(makefile, []byte("\n"+target+":"))
}

// TestCommandsOfTheDocuments runs the commands of documents. The tests of e2e (the journeys, the quick start) run
// commands needing a management cluster, and image create. Here such calls are only parsed, to check that each command
// and flag exists.
func TestCommandsOfTheDocuments(t *testing.T) {
	codes := map[string]int{
		"validate":        0,
		"doctor":          0,
		"template":        0,
		"plan":            2,
		"render":          0,
		"image list":      0,
		"image upload":    0,
		"image template":  0,
		"completion bash": 0,
	}
	elsewhere := []string{
		"init",
		"image create",
		"image check", // TestAnImageFileIsCheckedWithoutBooting runs it, with a stand-in for guestfish
		"start",
		"upgrade",
		"move",
		"delete",
		"describe",
		"logs",
		"get kubeconfig",
		"inventory",
		"scale",
		"local start",
		"local stop",
		"local status",
		"ui",
	}
	makefile, err := os.ReadFile(filepath.Join(testenv.Toolchain(t).Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}

	ran, read := 0, 0

	for name, text := range testenv.ReadDocuments(t) {
		t.Run(name, func(t *testing.T) {
			var blocks []string

			for _, block := range testenv.CommandBlocks(text) {
				if strings.Contains(block, "...") && !strings.HasPrefix(block, "export ") {
					continue // an incomplete command
				}

				words := strings.Fields(block)
				if words[0] == "olvmctl" &&
					(synopsis.MatchString(block) ||
						strings.HasPrefix(words[len(words)-1], "-") && len(words[len(words)-1]) > 1) {
					checkSynopsis(t, block)
					continue
				}

				blocks = append(blocks, block)
			}

			if len(blocks) == 0 {
				return
			}

			var s *site

			for _, call := range calls(t, blocks) {
				if call[0] == "make" {
					for _, target := range call[1:] {
						if !strings.Contains(target, "=") && !hasTarget(t, makefile, target) {
							t.Errorf("make has no %s", target)
						}
					}

					continue
				}

				args := call[1:]
				command, rest, err := wholeCommand().Find(args)
				if err == nil {
					err = command.ParseFlags(rest)
				}

				if err == nil {
					err = command.ValidateArgs(command.Flags().Args())
				}

				if err != nil {
					t.Errorf("olvmctl %s: %v", strings.Join(args, " "), err)
					continue
				}

				read++
				verb := strings.TrimPrefix(command.CommandPath(), "olvmctl ")
				want, here := codes[verb]
				if flag := command.Flags().Lookup("kubeconfig"); !here || flag != nil && flag.Changed {
					if !here && !slices.Contains(elsewhere, verb) {
						t.Errorf("no test runs olvmctl %s", verb)
					}

					continue
				}

				if len(args) == 1 || verb == "image template" && len(rest) == 0 {
					continue // only the name of a command
				}

				if slices.Contains(args, "--provider") && !slices.Contains(args, "-f") {
					continue // needs ~/.ocne/defaults.yaml: see TestAProviderStandsForAClusterFile
				}

				if s == nil {
					s = newSite(t)
					s.files()
				}

				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "https://engine.example.com/ovirt-engine", s.sim.URL())
					if args[i] == "data" { // the name of a storage domain
						args[i] = "olvm-data"
					}
				}

				if slices.Contains(args, "--offline") {
					want = 0
				}

				ran++
				if code, _, problems := s.run(s.manifests, args...); code != want {
					t.Errorf("olvmctl %s: exit code %d, not %d: %s", strings.Join(args, " "), code, want, problems)
				}
			}
		})
	}

	if ran < 12 || read < 30 {
		t.Errorf("%d commands were run and %d read", ran, read)
	}
}

// files changes to a folder with the files named in the documents.
func (s *site) files() {
	s.t.Helper()
	dir := filepath.Dir(s.clusterFile())
	s.t.Chdir(dir)
	s.t.Setenv("OCNE_DEFAULTS", "")
	content, err := os.ReadFile(filepath.Join(dir, "cluster.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}

	ca := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "demo-ovirt-ca", Namespace: "default"},
		Data:       map[string]string{"ca.crt": string(s.sim.CA())},
	}
	text, err := kyaml.Marshal(ca)
	if err != nil {
		s.t.Fatal(err)
	}

	s.manifests += "---\n" + string(text)

	// The header has version 2, clusters of 64 KiB and a size of 1 GiB.
	qcow2 := "QFI\xfb" + "\x00\x00\x00\x02" + strings.Repeat("\x00",
		8+4) + "\x00\x00\x00\x10" + "\x00\x00\x00\x00\x40\x00\x00\x00" +
		strings.Repeat(
			"\x00",
			4+4,
		) + "\x00\x00\x00\x00\x00\x01\x00\x00" + "\x00\x00\x00\x00\x00\x02\x00\x00" + strings.Repeat("\x00", 100)

	cluster := strings.NewReplacer("ock-1.36", "ock-1.33", "    olvmDatacenterName",
		"    olvmOCK: {storageDomainName: olvm-data}\n    olvmDatacenterName").
		Replace(string(content))
	for file, text := range map[string]string{
		"new.yaml":                       string(content),
		"manifests/demo.yaml":            s.manifests,
		"clusters/prod/demo.yaml":        s.manifests,
		"config/samples/quickstart.yaml": strings.Replace(string(content), "ca.pem", s.caFile, 1),
		"ock-1.33.qcow2":                 qcow2 + strings.Repeat("image", 1<<18),
		"ol9.qcow2":                      qcow2 + strings.Repeat("other", 1<<18),
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			s.t.Fatal(err)
		}

		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}

	// These two documents create the template.
	if strings.HasSuffix(s.t.Name(), "/docs/user/images.md") || strings.HasSuffix(s.t.Name(), "/docs/user/quickstart.md") {
		if err := os.WriteFile("cluster.yaml", []byte(cluster), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// checkSynopsis checks that each command and flag exists in lines such as olvmctl plan -f FILE [--offline].
func checkSynopsis(t *testing.T, block string) {
	t.Helper()
	flag := regexp.MustCompile(`(^|[ \[])--?([a-z][a-z-]*)`)

	for line := range strings.SplitSeq(block, "\n") {
		words := strings.Fields(line)
		command, _, err := wholeCommand().Find(words[1:min(3, len(words))])
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}

		for _, found := range flag.FindAllStringSubmatch(line, -1) {
			if lookUp(command, found[2]) == nil {
				t.Errorf("%s: %s has no flag %s", line, command.CommandPath(), found[2])
			}
		}
	}
}

// wholeCommand returns olvmctl with the commands added by cobra at run time.
func wholeCommand() *cobra.Command {
	root := newCommand(streams{out: io.Discard, err: io.Discard})
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()

	return root
}

func lookUp(command *cobra.Command, name string) *pflag.Flag {
	command.InheritedFlags() // also adds those of its parents
	if len(name) == 1 {
		return command.Flags().ShorthandLookup(name)
	}

	return command.Flags().Lookup(name)
}
