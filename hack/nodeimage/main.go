// Command nodeimage builds the image that simulated machines boot from, and prints its folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodeimage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	tools, err := toolchain.New()
	if err != nil {
		return err
	}

	begin := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "node %4.0fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	tools.Progress = say

	image, err := (&nodeimage.Builder{Tools: tools, Say: say}).Ensure(ctx)
	if err != nil {
		return err
	}

	fmt.Println(image.Dir())

	return nil
}
