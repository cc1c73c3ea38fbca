// Package gobuild runs go build and reports its progress.
//
// Programs that are compiled before all others use it. Therefore, it imports only a little of the standard library.
package gobuild

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/heartbeat"
)

// SmallLDFlags omit data that only debuggers need. Linking then takes a third less CPU time. Stack traces still have
// line numbers.
const SmallLDFlags = "-s -w"

// Build is one call of go build.
type Build struct {
	// What names the result of the build for users.
	What string
	// Dir and Env are the folder and the environment of the go command. An empty Env means the environment of this
	// process.
	Dir string
	Env []string
	// Flags are flags such as -o, and Packages are the packages to build.
	Flags, Packages []string
	// Say receives progress messages for users, from one goroutine at a time.
	Say func(format string, args ...any)
}

const (
	// etaStep is the step to which remaining times are rounded.
	etaStep = 15 * time.Second
	// etaShare is a divisor. Only after one such part of all packages is compiled does the build estimate the remaining
	// time, because most of the rest may be in the cache.
	etaShare = 10
)

// Run runs the build. While the build runs, Run reports how many modules were downloaded and how many packages were
// compiled.
func (b Build) Run(ctx context.Context) error {
	arguments := append(append([]string{"build", "-v"}, b.Flags...), b.Packages...)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir, command.Env = b.Dir, b.Env

	stderr, err := command.StderrPipe()
	if err != nil {
		return fmt.Errorf("failed to build %s: %w", b.What, err)
	}

	if err := command.Start(); err != nil {
		return fmt.Errorf("failed to build %s: %w", b.What, err)
	}

	p := &progress{begin: time.Now(), count: func() int { return b.countPackages(ctx) }}
	stop := heartbeat.Start(func(since time.Duration) { b.Say("  %s", p.formatLine(since)) })
	problems := p.readOutput(stderr)
	err = command.Wait()

	stop()

	if err != nil {
		return fmt.Errorf("failed to build %s: %w\n%s", b.What, err, problems)
	}

	return nil
}

// countPackages returns the maximum number of packages in the build, or 0 if this is unknown.
func (b Build) countPackages(ctx context.Context) int {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-deps"}, b.Packages...)...)
	command.Dir, command.Env = b.Dir, b.Env

	output, err := command.Output()
	if err != nil {
		return 0
	}

	return strings.Count(string(output), "\n")
}

// progress is the progress of a build.
type progress struct {
	// begin is the time at which the first package was compiled. Until then, it is the time at which the build began.
	begin time.Time
	// count returns the maximum number of packages. This takes seconds.
	count func() int

	// mu guards the following fields.
	mu sync.Mutex
	// modules is the number of downloaded modules, and packages is the number of compiled packages.
	modules, packages int
	// total is the maximum number of packages; 0 means that it is not known yet.
	total int
	asked bool
	// shown is the number of packages in the last line of progress.
	shown int
}

// readOutput reads the output of go build, and returns everything in it that is not progress.
func (p *progress) readOutput(stderr io.Reader) (problems string) {
	var other strings.Builder

	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		if !p.readLine(lines.Text()) {
			other.WriteString(lines.Text() + "\n")
		}
	}

	return other.String()
}

// readLine processes a line of output, and reports whether the line is progress.
func (p *progress) readLine(line string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.modules++
	case isPackage(line):
		if p.packages == 0 {
			p.begin = time.Now()
		}

		p.packages++
	default:
		return false
	}

	return true
}

// isPackage reports whether a line is the path of a package. The command go build -v prints this path when it compiles
// the package.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#")
}

// formatLine describes the progress of the build. Packages in the cache are not compiled, so the number of all packages
// is only a maximum.
func (p *progress) formatLine(since time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.packages > 0 && !p.asked {
		p.asked = true // go list needs the modules, which are all downloaded now

		go p.fetchTotal()
	}

	switch {
	case p.packages == 0 && p.modules == 0:
		return fmt.Sprintf("reading the packages, %.0f s elapsed", since.Seconds())
	case p.packages == 0:
		return fmt.Sprintf("modules downloaded so far: %d", p.modules)
	case p.total == 0:
		return fmt.Sprintf("packages compiled so far: %d", p.packages)
	}

	before := p.shown
	p.shown = p.packages
	line := fmt.Sprintf("%d of at most %d packages", p.packages, p.total)

	switch {
	case p.packages == before:
		return line + "; it compiles a large one, or links"
	case p.packages*etaShare < p.total:
		return line
	}

	each := float64(time.Since(p.begin)) / float64(p.packages)
	left := time.Duration(each * float64(max(0, p.total-p.packages)))

	return fmt.Sprintf("%s, at most %s left", line, left.Round(etaStep))
}

func (p *progress) fetchTotal() {
	total := p.count()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
}
