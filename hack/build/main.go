// Command build compiles commands of this project. Unlike go build and go run, it reports its progress. It is itself
// compiled without messages, so it imports only a little of the standard library.
//
//	go run ./hack/build [-o FILE|FOLDER/] PACKAGE ...
//
// Without -o, only the cache keeps the result, so that go run PACKAGE starts quickly afterwards.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/gobuild"
)

// briefly is how long a build runs before it prints progress messages. A build without changes takes less time.
const briefly = 2 * time.Second

func main() {
	output := flag.String("o", os.DevNull, "write executables to this `place`: a file, or a folder with a last slash")
	flag.Parse()

	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := buildPackages(ctx, flag.Args(), *output)

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func buildPackages(ctx context.Context, packages []string, output string) error {
	what := strings.Join(packages, ", ")
	begin := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("build %4.0fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}

	intro := time.AfterFunc(briefly, func() { say("compiling %s", what) })
	defer intro.Stop()

	flags := []string{"-o", output, "-ldflags", gobuild.SmallLDFlags}
	b := gobuild.Build{What: what, Flags: flags, Packages: packages, Say: say}

	if err := b.Run(ctx); err != nil {
		return err
	}

	if time.Since(begin) > briefly {
		say("compiled %s", what)
	}

	return nil
}
