package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/capolvm/cluster-api-provider-olvm/internal/gobuild"
)

// Build downloads or builds those tools of a module that the cache lacks. Without names, it does this for all tools.
func (t *Toolchain) Build(ctx context.Context, module string, names ...string) error {
	dir, err := t.Dir(module)
	if err != nil {
		return err
	}

	versions, err := t.readVersions(module)
	if err != nil {
		return err
	}

	var missing []tool

	for _, tool := range modules[module] {
		if len(names) > 0 && !slices.Contains(names, tool.name) {
			continue
		}

		if _, err := os.Stat(filepath.Join(dir, tool.name)); err != nil {
			missing = append(missing, tool)
		}
	}

	for _, group := range buildGroups(t.downloadTools(ctx, dir, missing, versions), versions) {
		if err := t.buildGroup(ctx, module, dir, group); err != nil {
			return err
		}
	}

	return t.copyManifests(ctx, module, dir)
}

// buildGroup is a group of tools that one call of go build makes. This call compiles shared packages once, and uses all
// processors until it has linked the last tool.
type buildGroup struct {
	ldflags, tags string
	tools         []tool
}

// toolNames returns the names of the tools in the group.
func (g buildGroup) toolNames() []string {
	var out []string
	for _, tool := range g.tools {
		out = append(out, tool.name)
	}

	return out
}

// hasExecutable reports whether go build would give an executable of the group this name.
func (g buildGroup) hasExecutable(executable string) bool {
	return slices.ContainsFunc(g.tools, func(t tool) bool { return t.executableName() == executable })
}

// buildGroups groups tools that have the same linker flags, and to which go build gives different names.
func buildGroups(tools []tool, versions map[string]string) []buildGroup {
	var out []buildGroup

	for _, tool := range tools {
		flags := tool.buildLDFlags(versions[tool.module])
		at := slices.IndexFunc(out, func(g buildGroup) bool {
			return g.ldflags == flags && g.tags == tool.tags && !g.hasExecutable(tool.executableName())
		})

		if at < 0 {
			out = append(out, buildGroup{ldflags: flags, tags: tool.tags})
			at = len(out) - 1
		}

		out[at].tools = append(out[at].tools, tool)
	}

	return out
}

// buildLDFlags returns the linker flags of a tool for the given version.
func (t tool) buildLDFlags(version string) string {
	if t.stamp == "" {
		return strings.TrimSpace(gobuild.SmallLDFlags + " " + t.ldflags)
	}

	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)

	return fmt.Sprintf("%[1]s -X %[2]s.gitVersion=%[3]s -X %[2]s.gitMajor=%[4]s -X %[2]s.gitMinor=%[5]s",
		gobuild.SmallLDFlags, t.stamp, version, parts[0], parts[1])
}

// majorVersion matches the end of a package path that go build omits from the name of an executable.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// executableName returns the name that go build gives the tool.
func (t tool) executableName() string {
	if t.pkg == "." {
		return t.name
	}

	return path.Base(majorVersion.ReplaceAllString(t.pkg, ""))
}

// buildGroup builds a group into a folder next to the tools, and renames each tool. Therefore, an interrupted build
// leaves nothing that looks complete.
func (t *Toolchain) buildGroup(ctx context.Context, module, dir string, group buildGroup) error {
	temporary := filepath.Join(dir, fmt.Sprintf(".build.%d", os.Getpid()))
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return fmt.Errorf("failed to make the cache folder: %w", err)
	}

	defer os.RemoveAll(temporary)

	var packages []string
	for _, tool := range group.tools {
		packages = append(packages, tool.pkg)
	}

	target := temporary + string(filepath.Separator)
	if len(packages) == 1 {
		target += group.tools[0].executableName()
	}

	flags := []string{"-o", target, "-ldflags", group.ldflags, "-tags", group.tags}
	environment := toolsEnvironment(group.tools[0].cgo)
	err := t.runGoBuild(ctx, strings.Join(group.toolNames(), ", "), t.moduleDir(module), environment, packages, flags)
	if err != nil {
		return err
	}

	for _, tool := range group.tools {
		if err := os.Rename(
			filepath.Join(temporary, tool.executableName()), filepath.Join(dir, tool.name),
		); err != nil {
			return fmt.Errorf("failed to install %s: %w", tool.name, err)
		}
	}

	return nil
}

// toolsEnvironment returns the environment for builds of tools. Its settings equal those of the project's own builds,
// so that both share the build cache.
func toolsEnvironment(cgo bool) []string {
	enabled := "CGO_ENABLED=0"
	if cgo {
		enabled = "CGO_ENABLED=1"
	}

	return append(os.Environ(), enabled, "GOWORK=off", "GOFLAGS=-buildvcs=false")
}

// BuildProject builds the project's own commands into a folder. It builds them in the checkout first, because go build
// does not link an unchanged command there again. Each suite of tests needs the current commands in its own folder.
// Suites that run at the same time wait for one another, so that no suite copies a command while another suite links
// it.
func (t *Toolchain) BuildProject(ctx context.Context, dir string, names ...string) error {
	built := filepath.Join(t.root, "bin", ".built")
	if err := errors.Join(os.MkdirAll(built, 0o755), os.MkdirAll(dir, 0o755)); err != nil {
		return fmt.Errorf("failed to make the folders of commands: %w", err)
	}

	lock := flock.New(built + ".lock")
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("failed to lock %s: %w", built, err)
	}

	defer func() { _ = lock.Unlock() }()

	if err := t.buildCommands(ctx, built, names); err != nil {
		return err
	}

	for _, name := range names {
		target := filepath.Join(dir, name)
		if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to replace a command: %w", err)
		}

		if err := os.Link(filepath.Join(built, name), target); err != nil { // the folder is on another file system
			return t.buildCommands(ctx, dir, names)
		}
	}

	return nil
}

// buildCommands builds the project's own commands directly into a folder.
func (t *Toolchain) buildCommands(ctx context.Context, dir string, names []string) error {
	var packages []string
	for _, name := range names {
		packages = append(packages, "./cmd/"+name)
	}

	flags := []string{"-o", dir + string(filepath.Separator), "-ldflags", gobuild.SmallLDFlags}

	return t.runGoBuild(ctx, strings.Join(names, ", "), t.root, append(os.Environ(), "CGO_ENABLED=0"), packages, flags)
}

// runGoBuild runs go build in a folder and reports its progress.
func (t *Toolchain) runGoBuild(ctx context.Context, what, dir string, env, packages, flags []string) error {
	begin := time.Now()
	t.reportProgress("building %s", what)

	build := gobuild.Build{What: what, Dir: dir, Env: env, Flags: flags, Packages: packages, Say: t.reportProgress}
	if err := build.Run(ctx); err != nil {
		return err
	}

	t.reportProgress("built %s in %.0f s", what, time.Since(begin).Seconds())

	return nil
}
