package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// These constants are the statuses that gremlins, the mutation tester, gives to mutants.
const (
	killed     = "KILLED"
	lived      = "LIVED"
	timedOut   = "TIMED OUT"
	notViable  = "NOT VIABLE"
	notCovered = "NOT COVERED"
)

// mutant is one change of the code.
type mutant struct {
	file         string
	line, column int
	// kind describes the change, and status its outcome.
	kind, status string
}

// result is the measurement of one package.
type result struct {
	floor   floor
	mutants []mutant
	elapsed time.Duration
}

// readResult reads the output of gremlins.
func readResult(f floor, path string) (result, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return result{}, fmt.Errorf("failed to read the output of gremlins: %w", err)
	}

	var document struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
				Line   int    `json:"line"`
				Column int    `json:"column"`
			} `json:"mutations"`
		} `json:"files"`
	}
	if err := json.Unmarshal(content, &document); err != nil {
		return result{}, fmt.Errorf("failed to parse the output of gremlins: %w", err)
	}

	out := result{floor: f}

	for _, file := range document.Files {
		for _, m := range file.Mutations {
			out.mutants = append(out.mutants, mutant{file.Name, m.Line, m.Column, m.Type, m.Status})
		}
	}

	slices.SortFunc(out.mutants, func(a, b mutant) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column),
			cmp.Compare(a.kind, b.kind))
	})

	return out, nil
}

// countMutants returns the number of mutants with one of these statuses.
func (r result) countMutants(statuses ...string) int {
	n := 0

	for _, m := range r.mutants {
		if slices.Contains(statuses, m.status) {
			n++
		}
	}

	return n
}

// killedPercent returns the percentage of mutants that tests notice, of those that tests cover.
func (r result) killedPercent() float64 {
	return percent(r.countMutants(killed), r.countMutants(killed, lived))
}

// coveredPercent returns the percentage of mutants that tests cover.
func (r result) coveredPercent() float64 {
	return percent(r.countMutants(killed, lived), r.countMutants(killed, lived, notCovered))
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}

	return 100 * float64(part) / float64(whole)
}

// formatTable returns a line for each package, and then a line for each mutant that no test notices.
func formatTable(results []result) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "package\tmutants\tcovered\tkilled\tlived\ttimed out\tnot viable\tkilled %\tcovered %\tseconds\n")

	for _, r := range results {
		fmt.Fprintf(
			w,
			"%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%.0f\n",
			r.floor.pkg,
			len(r.mutants),
			r.countMutants(
				killed, lived, timedOut,
			),
			r.countMutants(killed),
			r.countMutants(lived),
			r.countMutants(timedOut),
			r.countMutants(notViable),
			r.killedPercent(),
			r.coveredPercent(),
			r.elapsed.Seconds(),
		)
	}

	_ = w.Flush()

	out.WriteString("\nNo test notices:\n")

	for _, r := range results {
		for _, m := range r.mutants {
			if m.status == lived {
				fmt.Fprintf(&out, "  %s/%s:%d:%d %s\n", r.floor.pkg, m.file, m.line, m.column, m.kind)
			}
		}
	}

	return out.String()
}

// belowFloors returns an error that names each package below its floor.
func belowFloors(results []result) error {
	var errs []error

	for _, r := range results {
		if r.killedPercent() < r.floor.killed {
			errs = append(errs, fmt.Errorf("%s: tests notice %.1f %% of the mutants they run; the floor is %.0f %%",
				r.floor.pkg, r.killedPercent(), r.floor.killed))
		}

		if r.coveredPercent() < r.floor.covered {
			errs = append(errs, fmt.Errorf("%s: tests run %.1f %% of the mutants; the floor is %.0f %%",
				r.floor.pkg, r.coveredPercent(), r.floor.covered))
		}
	}

	return errors.Join(errs...)
}
