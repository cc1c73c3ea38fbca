// Command tools finds or builds the tools of the project.
//
//	go run ./hack/tools [-path MODULE/NAME] [GROUP ...]
//
// Groups are the folders next to this file. Examples are plane (the management plane), ipam and oci (its providers),
// lint and actions (linters), dev and apidocs (generators), and executor (Terraform or OpenTofu). Without groups, it
// uses plane and executor.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

func main() {
	path := flag.String("path", "", "print the path of this tool, as MODULE/NAME, and do nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := provideTools(ctx, *path, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tools:", err)
		os.Exit(1)
	}
}

func provideTools(ctx context.Context, path string, groups []string) error {
	tools, err := toolchain.New()
	if err != nil {
		return err
	}

	start := time.Now()
	tools.Progress = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "tools %4.0fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	if path != "" {
		module, name, _ := strings.Cut(path, "/")
		found, err := tools.Path(module, name)
		if err != nil {
			return err
		}

		fmt.Println(found)

		return nil
	}

	if len(groups) == 0 {
		groups = []string{"plane", "executor"}
	}

	for _, group := range groups {
		if group == "executor" {
			found, err := tools.EnsureExecutor(ctx)
			if err != nil {
				return err
			}

			tools.Progress("executor: %s", found)
			continue
		}

		if err := tools.Build(ctx, group); err != nil {
			return err
		}

		dir, err := tools.Dir(group)
		if err != nil {
			return err
		}

		tools.Progress("%s: %s", group, dir)
	}

	return nil
}
