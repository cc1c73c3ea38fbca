package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// keepLinked is how long a test binary stays after its last use. keptBytes limits their total size at the start of a
// run.
const (
	keepLinked = 24 * time.Hour
	keptBytes  = 5 << 30
)

// linkOnce replaces a tool of the Go toolchain. go test runs it with the tool's command as arguments (-toolexec). It
// reuses the binary of an earlier link with the same inputs, because go test itself keeps no test binaries. It returns
// the exit code.
func linkOnce(dir string, command []string) int {
	// With the race detector, coverage or cgo, the linker has inputs that this program does not compare.
	key, output := "", flagValue(command, "-o")
	if isLink(command) && output != "" {
		key, _ = inputsOf(command) // an error costs only the time of a link
	}

	kept := filepath.Join(dir, key)
	if key != "" && copyFile(kept, output) == nil {
		now := time.Now()
		_ = os.Chtimes(kept, now, now)

		return 0
	}

	tool := exec.Command(command[0], command[1:]...) //nolint:noctx // go test ends it
	tool.Stdin, tool.Stdout, tool.Stderr = os.Stdin, os.Stdout, os.Stderr

	if err := tool.Run(); err != nil {
		if tool.ProcessState == nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}

		return tool.ProcessState.ExitCode()
	}

	if key != "" {
		if err := copyFile(output, kept); err != nil {
			fmt.Fprintln(os.Stderr, "test: failed to keep a test binary:", err)
		}
	}

	return 0
}

// isLink reports whether a command links a program with the Go linker alone. With cgo, the linker may run a C compiler
// with libraries of the machine, but this program does not compare those. Go turns cgo on by itself unless CGO_ENABLED
// is 0, as in the Makefile.
func isLink(command []string) bool {
	return os.Getenv("CGO_ENABLED") == "0" && strings.TrimSuffix(filepath.Base(command[0]), ".exe") == "link" &&
		!slices.ContainsFunc(command, func(arg string) bool {
			return strings.HasPrefix(arg, "-V") || arg == "-race" || arg == "-linkmode=external"
		})
}

// flagValue returns the value of a flag in a command, or "".
func flagValue(command []string, name string) string {
	if at := slices.Index(command, name); at >= 0 && at+1 < len(command) {
		return command[at+1]
	}

	return ""
}

// inputsOf returns a hash of the inputs of a link: the linker, its flags, and the compiled packages.
func inputsOf(command []string) (string, error) {
	linker, err := os.Stat(command[0])
	if err != nil {
		return "", fmt.Errorf("failed to look at the linker: %w", err)
	}

	output, config, work := flagValue(command, "-o"), flagValue(command, "-importcfg"), ""
	if config != "" {
		work = filepath.Dir(filepath.Dir(config))
	}

	imports, err := os.ReadFile(config)
	if err != nil {
		return "", fmt.Errorf("failed to read the packages of a link: %w", err)
	}

	hash := sha256.New()
	fmt.Fprintln(hash, linker.Size(), linker.ModTime().UnixNano(), os.Getenv("GOROOT"), os.Getenv("GOEXPERIMENT"))

	for _, arg := range command {
		if arg == output || arg == config {
			continue
		}

		if strings.HasPrefix(arg, work) {
			arg = filepath.Base(arg)
		}

		fmt.Fprintln(hash, arg)
	}

	main := "packagefile main=" + command[len(command)-1]

	for line := range strings.Lines(string(imports) + main) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), "=")

		if strings.HasPrefix(name, "packagefile ") {
			if path, err = contentHash(path); err != nil {
				return "", err
			}
		}

		fmt.Fprintln(hash, name, path)
	}

	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

// inBuildCache matches the name of a file in Go's build cache: the SHA-256 of its content.
var inBuildCache = regexp.MustCompile(`^([0-9a-f]{64})-d$`)

// contentHash returns the SHA-256 of a compiled package.
func contentHash(path string) (string, error) {
	if match := inBuildCache.FindStringSubmatch(filepath.Base(path)); match != nil {
		return match[1], nil
	}

	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("failed to read an input of a link: %w", err)
	}
	defer file.Close()

	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("failed to read an input of a link: %w", err)
	}

	return hex.EncodeToString(hash.Sum(nil)), nil
}

// copyFile copies a program. The copy appears atomically.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("failed to open a program: %w", err)
	}
	defer source.Close()

	target, err := os.CreateTemp(filepath.Dir(to), ".linked-*")
	if err != nil {
		return fmt.Errorf("failed to make a program: %w", err)
	}

	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Chmod(0o755), target.Close()); err == nil {
		err = os.Rename(target.Name(), to)
	}

	if err != nil {
		return errors.Join(fmt.Errorf("failed to copy a program: %w", err), os.Remove(target.Name()))
	}

	return nil
}

// prepareLinks creates the folder of test binaries, and deletes old binaries from it. It refuses a folder of another
// user, because the tests run the programs in it.
func prepareLinks(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("failed to make a folder for test binaries: %w", err)
	}

	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("failed to look at the folder for test binaries: %w", err)
	}

	const writtenByOthers = 0o022
	if !info.IsDir() || !hostos.IsOwn(info) || info.Mode().Perm()&writtenByOthers != 0 {
		return fmt.Errorf("%s is not a folder that this user alone can write; remove it", dir)
	}

	return deleteOldLinks(dir, now, keptBytes)
}

// deleteOldLinks deletes the test binaries that were unused for a while, and half-written files of a killed run. Of the
// others, it deletes the oldest until they have at most the given number of bytes.
func deleteOldLinks(dir string, now time.Time, most int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("failed to list the test binaries: %w", err)
	}

	var kept []fs.FileInfo

	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return fmt.Errorf("failed to look at a test binary: %w", err)
		}

		kept = append(kept, info)
	}

	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })

	var bytes int64

	for _, info := range kept {
		bytes += info.Size()
		if now.Sub(info.ModTime()) <= keepLinked && bytes <= most {
			continue
		}

		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to delete an old test binary: %w", err)
		}
	}

	return nil
}
