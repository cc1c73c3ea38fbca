// Command managerflags prints the reference of the manager's flags in Markdown.
package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/capolvm/cluster-api-provider-olvm/cmd/manager/command"
)

const head = `# Flags of the manager

They are arguments of the container in its Deployment, and extraArgs of the [Helm chart](install.md#with-helm). Made of
what manager --help prints.

| flag | default | |
|---|---|---|
`

func main() {
	fmt.Print(head)
	command.NewFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}

		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}

		usage := strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(f.Usage)
		fmt.Printf("| `--%s` | %s | %s |\n", f.Name, value, usage)
	})
}
