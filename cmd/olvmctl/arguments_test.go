package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

func TestWhatPeopleMistypeIsSaid(t *testing.T) {
	testenv.EmptyState(t)
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	s := &site{t: t}

	for args, want := range map[string]string{
		"get nodes":                       `olvmctl get has no command "nodes"; it has clusters, kubeconfig, machines`,
		"get nodes -n x":                  `olvmctl get has no command "nodes"`,
		"get clutsers -A":                 "did you mean clusters?",
		"image frob":                      `olvmctl image has no command "frob"`,
		"local frob":                      `olvmctl local has no command "frob"`,
		"frob":                            `unknown command "frob"`,
		"describe -n quick":               "CLUSTER is missing: olvmctl describe CLUSTER needs the name of a cluster",
		"describe a b":                    `olvmctl describe takes one CLUSTER, and "b" is one more`,
		"describe machine/a":              `"machine/a" does not name a cluster; write its name, or cluster/NAME`,
		"logs":                            "MACHINE is missing",
		"scale --workers 3":               "CLUSTER is missing",
		"upgrade":                         "CLUSTER is missing",
		"support-bundle":                  "CLUSTER is missing",
		"get kubeconfig":                  "CLUSTER is missing",
		"image check":                     "FILE is missing",
		"validate":                        "FILE is missing: olvmctl validate FILE needs a cluster file; olvmctl init",
		"doctor":                          "FILE is missing",
		"template":                        "FILE is missing",
		"start":                           "FILE is missing",
		"start -f a.yaml b.yaml":          `"b.yaml" is a cluster file, and so is that of -f`,
		"validate a.yaml b.yaml":          `takes one cluster file, and "b.yaml" is one more`,
		"version x":                       `olvmctl version takes no argument, and "x" is one`,
		"validate none.yaml -o xml":       "-o xml is not known; write text, json or yaml",
		"init -o prod.yaml":               "write text, json or yaml, and the file with --out prod.yaml",
		"render x -o ./out":               "and the file with --out ./out",
		"image create -o ock.qcow2":       "and the file with --out ock.qcow2",
		"support-bundle a -o x.tar.gz":    "and the file with --out x.tar.gz",
		"plan x -o prod.yaml":             "is not known; write text, markdown, json or yaml",
		"get clusters -o table2":          "write table, wide, name, json or yaml",
		"describe a --colour":             "unknown flag: --colour; see olvmctl describe --help",
		"get clusters":                    "there is no kubeconfig, and no local management cluster; give --kubeconfig",
		"describe a":                      "there is no kubeconfig",
		"ui":                              "there is no kubeconfig",
		"inventory":                       "there is no kubeconfig",
		"logs a":                          "there is no kubeconfig",
		"support-bundle a -y":             "there is no kubeconfig",
		"scale a --workers 1":             "there is no kubeconfig",
		"upgrade a --vm-template x":       "there is no kubeconfig",
		"get kubeconfig a":                "there is no kubeconfig",
		"move --to-kubeconfig x":          "there is no kubeconfig",
		"get clusters --kubeconfig x":     "--kubeconfig x: ",
		"get clusters --context x":        "--context x",
		"delete a -y --driver existing":   "there is no kubeconfig",
		"template none.yaml --context x":  "none.yaml",
		"logs a -w":                       "unknown shorthand flag: 'w' in -w; see olvmctl logs --help",
		"logs a --follow -o json":         "omit -o json",
		"get machines a -l x=y -n z":      "give names or a selector, not both",
		"delete cluster a -f cluster.yml": "not both",
	} {
		code, _, problems := s.run("", strings.Fields(args)...)
		check.Equal(t, args+": exit code, after "+problems, code, 1)
		check.Contains(t, args, problems, want)
		check.Lacks(t, args, problems, "accepts ")
	}
}

// TestOMeansTheFormatInEveryCommand checks that -o, -y, -n, --kubeconfig and --context have the same meaning in all
// commands.
func TestOMeansTheFormatInEveryCommand(t *testing.T) {
	without := []string{"local", "serve", "completion", "help", "get", "image", "olvmctl"}

	seen := 0

	each(wholeCommand(), func(command *cobra.Command) {
		path := command.CommandPath()
		flag := command.Flags().ShorthandLookup("o")

		switch {
		case flag != nil:
			seen++
			check.Equal(t, path+": the flag of -o", flag.Name, "output")
			check.Equal(t, path+": the type of -o", flag.Value.Type(), "format")
			check.Contains(t, path, flag.Usage, "json")
			check.Contains(t, path, flag.Usage, "yaml")
		case strings.Contains(path, " completion"):
		default:
			found := false
			for _, name := range without {
				found = found || command.Name() == name
			}

			check.Equal(t, path+": has no -o, and that is known", found, true)
		}

		if asks := command.Flags().Lookup("yes"); asks != nil {
			check.Equal(t, path+": the short form of --yes", asks.Shorthand, "y")
		}

		if there := command.Flags().Lookup("kubeconfig"); there != nil {
			check.Equal(t, path+": has --context", command.Flags().Lookup("context") != nil, true)
		}

		if there := command.Flags().Lookup("namespace"); there != nil {
			check.Equal(t, path+": the short form of --namespace", there.Shorthand, "n")
		}
	})
	check.Equal(t, "commands with -o: at least 20", seen >= 20, true)
}

func each(command *cobra.Command, do func(*cobra.Command)) {
	do(command)

	for _, below := range command.Commands() {
		each(below, do)
	}
}
