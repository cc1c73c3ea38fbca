// Command nodeimage builds the boot image of simulated machines, and prints its folder. With -tests, it builds all boot
// images and other programs that tests need, and prints nothing.
//
//	go run ./hack/nodeimage [-tests]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

func main() {
	tests := flag.Bool("tests", false, "build what tests boot, also the version before; nothing where they are skipped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := ensureImages(ctx, *tests)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodeimage:", err)
		os.Exit(1)
	}
}

func ensureImages(ctx context.Context, tests bool) error {
	if reason := nodeimage.Check(); tests && reason != nil {
		fmt.Fprintln(os.Stderr, "node        no image is built:", reason)
		return nil
	}

	tools, err := toolchain.New()
	if err != nil {
		return err
	}

	begin := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "node %4.0fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	tools.Progress = say

	builder := nodeimage.Builder{Tools: tools, Say: say}
	if tests {
		_, _, err := nodeimage.EnsureTested(ctx, builder)
		return err
	}

	image, err := builder.EnsureImage(ctx)
	if err != nil {
		return err
	}

	fmt.Println(image.Dir())

	return nil
}
