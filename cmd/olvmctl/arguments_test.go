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
		"get nodes":       `unknown command "nodes" for "olvmctl get"; available commands: clusters, kubeconfig, machines`,
		"get nodes -n x":  `unknown command "nodes" for "olvmctl get"`,
		"get clutsers -A": "did you mean clusters?",
		"image frob":      `unknown command "frob" for "olvmctl image"`,
		"local frob":      `unknown command "frob" for "olvmctl local"`,
		"frob":            `unknown command "frob"`,
		"describe -n quick": "CLUSTER is missing: specify the name of a cluster; see olvmctl " +
			"describe --help",
		"describe a b":       `olvmctl describe takes one CLUSTER: unexpected argument "b"`,
		"describe machine/a": `"machine/a" is not the name of a cluster; use NAME or cluster/NAME`,
		"logs":               "MACHINE is missing",
		"scale --workers 3":  "CLUSTER is missing",
		"upgrade":            "CLUSTER is missing",
		"support-bundle":     "CLUSTER is missing",
		"get kubeconfig":     "CLUSTER is missing",
		"image check":        "FILE is missing",
		"validate": "FILE is missing: specify a cluster file; create one with olvmctl init; " +
			"see olvmctl validate",
		"doctor":                          "FILE is missing",
		"template":                        "FILE is missing",
		"start":                           "FILE is missing",
		"start -f a.yaml b.yaml":          `specify the cluster file as the argument "b.yaml" or with -f, not both`,
		"validate a.yaml b.yaml":          `takes one cluster file: unexpected argument "b.yaml"`,
		"version x":                       `olvmctl version takes no arguments: unexpected argument "x"`,
		"validate none.yaml -o xml":       "-o xml is not supported; use text, json or yaml",
		"init -o prod.yaml":               "use text, json or yaml; to write to a file, use --out prod.yaml",
		"render x -o ./out":               "to write to a file, use --out ./out",
		"image create -o ock.qcow2":       "to write to a file, use --out ock.qcow2",
		"support-bundle a -o x.tar.gz":    "to write to a file, use --out x.tar.gz",
		"plan x -o prod.yaml":             "is not supported; use text, markdown, json or yaml",
		"get clusters -o table2":          "use table, wide, name, json or yaml",
		"describe a --colour":             "unknown flag: --colour; see olvmctl describe --help",
		"get clusters":                    "no kubeconfig and no local management cluster found; use --kubeconfig",
		"describe a":                      "no kubeconfig and no local management cluster found",
		"ui":                              "no kubeconfig and no local management cluster found",
		"inventory":                       "no kubeconfig and no local management cluster found",
		"logs a":                          "no kubeconfig and no local management cluster found",
		"support-bundle a -y":             "no kubeconfig and no local management cluster found",
		"scale a --workers 1":             "no kubeconfig and no local management cluster found",
		"upgrade a --vm-template x":       "no kubeconfig and no local management cluster found",
		"get kubeconfig a":                "no kubeconfig and no local management cluster found",
		"move --to-kubeconfig x":          "no kubeconfig and no local management cluster found",
		"get clusters --kubeconfig x":     "--kubeconfig x: ",
		"get clusters --context x":        "--context x",
		"delete a -y --driver existing":   "no kubeconfig and no local management cluster found",
		"template none.yaml --context x":  "none.yaml",
		"logs a -w":                       "unknown shorthand flag: 'w' in -w; see olvmctl logs --help",
		"logs a --follow -o json":         "omit -o json",
		"get machines a -l x=y -n z":      "specify either names or --selector, not both",
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
