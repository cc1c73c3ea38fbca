package main

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestPackagesThatTakeLongestAreBegunFirst(t *testing.T) {
	packages, single := orderPackages(
		[]string{module + "api", module + "controllers", module + "e2e", module + "e2e/nodes", module + "render"},
		[]string{"./e2e/nodes"}, []string{"./e2e", "./controllers"},
	)
	check.Equal(t, "packages", packages,
		[]string{module + "e2e", module + "controllers", module + "api", module + "render"})
	check.Equal(t, "packages that are tested alone", single, []string{module + "e2e/nodes"})
}

// TestLinesOfSeveralProgramsDoNotMix lets two programs write their lines in pieces.
func TestLinesOfSeveralProgramsDoNotMix(t *testing.T) {
	reader, writer := io.Pipe()

	var programs sync.WaitGroup

	for _, letter := range []string{"a", "b"} {
		programs.Go(func() {
			to := &lines{to: writer}

			for range 100 {
				for _, piece := range []string{letter, letter + letter + "\n" + letter, letter, letter + "\n"} {
					_, err := io.WriteString(to, piece)
					check.Error(t, err, "")
				}
			}
		})
	}

	go func() {
		programs.Wait()

		_ = writer.Close()
	}()

	output, err := io.ReadAll(reader)
	check.Error(t, err, "")

	count := map[string]int{}
	for line := range strings.Lines(string(output)) {
		count[line]++
	}

	check.Equal(t, "lines", count, map[string]int{"aaa\n": 200, "bbb\n": 200})
}
