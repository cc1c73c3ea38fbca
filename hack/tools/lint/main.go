// Command lint is golangci-lint with the linter of Kubernetes APIs, which golangci-lint does not have.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"

	// The linter registers itself.
	_ "sigs.k8s.io/kube-api-linter"
)

const golangci = "github.com/golangci/golangci-lint/v2"

func main() {
	if err := commands.Execute(build()); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(exitcodes.Failure)
	}
}

// build says of which golangci-lint the program is.
func build() commands.BuildInfo {
	info := commands.BuildInfo{Version: "unknown", Commit: "unknown", Date: "unknown"}
	read, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}

	info.GoVersion = read.GoVersion

	for _, module := range read.Deps {
		if module.Path == golangci {
			info.Version = module.Version
		}
	}

	return info
}
