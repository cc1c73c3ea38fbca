package progress

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// TransferProgress returns a function to show progress in bytes. On a terminal it shows a bar, and elsewhere a line for
// each tenth.
func TransferProgress(out io.Writer, what string) func(done, total int64) {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return newBar(file, what)
	}

	tenth := int64(-1)

	return func(done, total int64) {
		if now := done * 10 / total; now != tenth {
			tenth = now
			_, _ = fmt.Fprintf(out, "%s: %d of %d MiB\n", what, done>>20, total>>20)
		}
	}
}

func newBar(out io.Writer, what string) func(done, total int64) {
	var shown *progressbar.ProgressBar

	return func(done, total int64) {
		if shown == nil {
			shown = progressbar.NewOptions64(
				total, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what),
				progressbar.OptionShowBytes(true), progressbar.OptionFullWidth(),
				progressbar.OptionOnCompletion(func() {
					_, _ = fmt.Fprintln(out)
				}),
			)
		}

		_ = shown.Set64(done)
	}
}
