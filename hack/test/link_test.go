package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// linker replaces the Go linker. It writes its inputs to the output, and counts its runs.
type linker struct {
	t                          *testing.T
	program, kept, work, count string
}

func newLinker(t *testing.T) *linker {
	t.Helper()

	t.Setenv("CGO_ENABLED", "0")

	dir := t.TempDir()
	l := &linker{t: t, program: filepath.Join(dir, "link"), kept: filepath.Join(dir, "kept"),
		work: filepath.Join(dir, "work"), count: filepath.Join(dir, "count")}
	check.Error(t, os.MkdirAll(filepath.Join(l.work, "b001"), 0o700), "")
	check.Error(t, os.MkdirAll(l.kept, 0o700), "")
	l.write(l.program, "#!/bin/sh\necho run >> "+l.count+"\n"+
		"case \"$*\" in *broken*) exit 3;; esac\nfor last; do :; done\ncat \"$last\" > \"$2\"\n")
	check.Error(t, os.Chmod(l.program, 0o700), "")

	return l
}

func (l *linker) write(path, content string) {
	l.t.Helper()
	check.Error(l.t, os.WriteFile(path, []byte(content), 0o600), "")
}

// link links a main package with its imports. It returns the exit code, the program and the number of runs so far.
func (l *linker) link(main, imports string, flags ...string) (code int, program string, runs int) {
	l.t.Helper()
	config, object := filepath.Join(l.work, "b001", "importcfg.link"), filepath.Join(l.work, "b001", "_pkg_.a")
	output := filepath.Join(l.work, "b001", "x.test")
	_ = os.Remove(output)

	l.write(object, main)
	l.write(config, imports)

	command := append([]string{l.program, "-o", output, "-importcfg", config}, flags...)
	code = linkOnce(l.kept, append(command, object))

	content, _ := os.ReadFile(output)
	ran, _ := os.ReadFile(l.count)

	return code, string(content), strings.Count(string(ran), "run")
}

func TestAProgramIsLinkedAgainOnlyIfSomethingChanged(t *testing.T) {
	l := newLinker(t)
	imports := "packagefile fmt=/cache/" + strings.Repeat("1", 64) + "-d\n"

	expect := func(what string, wantRuns int, main, imports string, flags ...string) {
		t.Helper()
		code, program, runs := l.link(main, imports, flags...)
		check.Equal(t, what+": exit code", code, 0)
		check.Equal(t, what+": program", program, main)
		check.Equal(t, what+": links", runs, wantRuns)
	}

	expect("first", 1, "main", imports)
	expect("the same", 1, "main", imports)
	expect("another main package", 2, "other", imports)
	expect("another import", 3, "main", strings.ReplaceAll(imports, "1", "2"))
	expect("another flag", 4, "main", imports, "-s")
	expect("the first again", 4, "main", imports)
	expect("with the race detector", 5, "main", imports, "-race")
	expect("with the race detector again", 6, "main", imports, "-race")

	// The paths of packages compiled in this run are in a folder of this run.
	fresh := filepath.Join(l.work, "b002")
	l.write(fresh, "v1")
	expect("a package that was just compiled", 7, "main", "packagefile a="+fresh+"\n")
	l.write(fresh, "v2")
	expect("that package after a change", 8, "main", "packagefile a="+fresh+"\n")

	cached := fmt.Sprintf("packagefile a=/cache/%x-d\n", sha256.Sum256([]byte("v2")))
	expect("that package, which is in the build cache now", 8, "main", cached)
}

func TestALinkThatFailedIsNotKept(t *testing.T) {
	l := newLinker(t)

	for runs := range 2 {
		code, _, ran := l.link("main", "", "-broken")
		check.Equal(t, "exit code", code, 3)
		check.Equal(t, "links", ran, runs+1)
	}

	entries, err := os.ReadDir(l.kept)
	check.Error(t, err, "")
	check.Length(t, "programs that are kept", entries, 0)
}

func TestAToolThatDoesNotLinkIsRun(t *testing.T) {
	l := newLinker(t)
	compiler := filepath.Join(filepath.Dir(l.program), "compile")
	check.Error(t, os.Rename(l.program, compiler), "")
	l.program = compiler

	for runs := range 2 {
		code, program, ran := l.link("main", "")
		check.Equal(t, "exit code", code, 0)
		check.Equal(t, "output", program, "main")
		check.Equal(t, "runs", ran, runs+1)
	}
}

func TestProgramsThatNothingUsesAreDeleted(t *testing.T) {
	dir, now := t.TempDir(), time.Now()

	for name, age := range map[string]time.Duration{"used": time.Hour, "unused": keepLinked + time.Minute} {
		path := filepath.Join(dir, name)
		check.Error(t, os.WriteFile(path, nil, 0o600), "")
		check.Error(t, os.Chtimes(path, now.Add(-age), now.Add(-age)), "")
	}

	check.Error(t, deleteOldLinks(dir, now, keptBytes), "")

	entries, err := os.ReadDir(dir)
	check.Error(t, err, "")
	check.Length(t, "programs", entries, 1)
	check.Equal(t, "program", entries[0].Name(), "used")
}

func TestTheOldestProgramsBeyondABoundAreDeleted(t *testing.T) {
	dir, now := t.TempDir(), time.Now()

	for i, name := range []string{"newest", "second", "third", "oldest"} {
		path := filepath.Join(dir, name)
		check.Error(t, os.WriteFile(path, make([]byte, 10), 0o600), "")
		check.Error(t, os.Chtimes(path, now, now.Add(-time.Duration(i)*time.Minute)), "")
	}

	check.Error(t, deleteOldLinks(dir, now, 29), "")

	entries, err := os.ReadDir(dir)
	check.Error(t, err, "")
	check.Length(t, "programs", entries, 2)
	check.Equal(t, "first", entries[0].Name(), "newest")
	check.Equal(t, "second", entries[1].Name(), "second")
}

func TestALinkWithCgoIsNotKept(t *testing.T) {
	for name, value := range map[string]string{"on": "1", "left to Go": ""} {
		l := newLinker(t)
		t.Setenv("CGO_ENABLED", value)

		for runs := range 2 {
			_, _, ran := l.link("main", "")
			check.Equal(t, name+": links", ran, runs+1)
		}
	}
}

func TestAFolderThatOthersCanWriteKeepsNoPrograms(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }

	check.Error(t, prepareLinks(path("new"), time.Now()), "")
	check.Error(t, prepareLinks(path("new"), time.Now()), "")
	check.Error(t, os.Symlink(path("new"), path("link")), "")
	check.Error(t, prepareLinks(path("link"), time.Now()), "not a folder that this user alone can write")
	check.Error(t, os.Mkdir(path("shared"), 0o700), "")
	check.Error(t, os.Chmod(path("shared"), 0o777), "") //nolint:gosec // it is refused
	check.Error(t, prepareLinks(path("shared"), time.Now()), "not a folder that this user alone can write")

	if os.Getuid() != 0 {
		return // only root can give a folder to another user
	}

	check.Error(t, os.Mkdir(path("of another"), 0o700), "")
	check.Error(t, os.Chown(path("of another"), 65534, 65534), "")
	check.Error(t, prepareLinks(path("of another"), time.Now()), "not a folder that this user alone can write")
}
