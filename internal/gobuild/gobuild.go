// Package gobuild runs go build and says how far it is.
//
// Programs that are compiled before all others use it, so it imports little of the standard library and nothing else.
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

// SmallLDFlags leave out what only debuggers need, and linking takes a third less processor time. Stack traces still
// have line numbers.
const SmallLDFlags = "-s -w"

// Build is a call of go build.
type Build struct {
	// What is built, for people.
	What string
	// Dir and Env of the go command; an empty Env is that of this process.
	Dir string
	Env []string
	// Flags such as -o, and the packages to build.
	Flags, Packages []string
	// Say is called with lines for people, by one goroutine at a time.
	Say func(format string, args ...any)
}

const (
	// etaStep is what times that are left are rounded to.
	etaStep = 15 * time.Second
	// etaShare is the share of all packages, as one of so many, that tells something about the rest: most of the rest
	// may be in the cache.
	etaShare = 10
)

// Run runs the build. While it runs, it says how many modules were downloaded and how many packages were compiled.
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

// countPackages is how many packages the build has at most; 0 if that cannot be found out.
func (b Build) countPackages(ctx context.Context) int {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-deps"}, b.Packages...)...)
	command.Dir, command.Env = b.Dir, b.Env

	output, err := command.Output()
	if err != nil {
		return 0
	}

	return strings.Count(string(output), "\n")
}

// progress is how far a build is.
type progress struct {
	// begin is when the first package was compiled; until then, when the build began.
	begin time.Time
	// count asks how many packages there are at most, which takes seconds.
	count func() int

	// mu guards what follows.
	mu sync.Mutex
	// modules were downloaded, and packages compiled.
	modules, packages int
	// total is the most packages that there are; 0 as long as that is not known.
	total int
	asked bool
	// shown is how many packages there were when a line said so last.
	shown int
}

// readOutput reads what go build says, and returns all that is not about progress.
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

// readLine takes a line, and reports whether it is about progress.
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

// isPackage reports whether a line is the path of a package, which go build -v prints when it compiles one.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#")
}

// formatLine says how far the build is. Packages that are in the cache are not compiled, so their number is the most
// that there are.
func (p *progress) formatLine(since time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.packages > 0 && !p.asked {
		p.asked = true // go list needs the modules, which are all there now

		go p.fetchTotal()
	}

	switch {
	case p.packages == 0 && p.modules == 0:
		return fmt.Sprintf("reading the packages, %.0f s so far", since.Seconds())
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
