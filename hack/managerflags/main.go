// Command managerflags prints the reference of the manager's flags in Markdown.
package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/capolvm/cluster-api-provider-olvm/cmd/manager/command"
)

const head = `# Flags of the manager

Set these flags in the arguments of the container in the manager's Deployment, or in extraArgs of the [Helm
chart](install.md#with-helm). This page is generated from the output of manager --help.

| flag | default | description |
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
