package release

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// wholeRelease is an output of make release. Without it, the test makes those parts of a release that it installs.
var wholeRelease = flag.String("release", "", "folder of a release to install, such as out/release")

// installations is the document with a transcript of each installation.
const installations = "docs/develop/installations.md"

var transcript = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestInstallationsAreAsTheTranscriptsShow types the commands of installations.md, and compares their output with the
// document. No kubelet runs what is installed; olvmctl runs it as processes.
func TestInstallationsAreAsTheTranscriptsShow(t *testing.T) {
	testenv.SkipInShort(t, "links two programs, and makes a cluster")

	release := folderToInstall(t)

	for heading, setUp := range map[string]func(*testing.T) *management{
		"The checksums": newFolder,
		"With clusterctl": func(t *testing.T) *management {
			m := newManagement(t)
			m.others()

			return m
		},
		"With olvmctl": func(t *testing.T) *management {
			m := newFolder(t)
			m.setUpEngine()

			return m
		},
	} {
		t.Run(heading, func(t *testing.T) {
			m := setUp(t)
			m.addPrograms(release)
			m.follow(heading)
		})
	}
}

// newFolder returns a folder without a management cluster.
func newFolder(t *testing.T) *management {
	t.Helper()

	return &management{t: t, tools: testenv.Toolchain(t), dir: t.TempDir()}
}

// folderToInstall returns the release of the flag, or makes the files and the programs for this machine.
func folderToInstall(t *testing.T) string {
	t.Helper()

	if *wholeRelease != "" {
		folder, err := filepath.Abs(*wholeRelease)
		check.Error(t, err, "")

		return folder
	}

	folder := t.TempDir()
	check.Error(t, os.CopyFS(folder, os.DirFS(makeRelease(t, "v0.1.0"))), "")
	buildPrograms(t, folder, "olvmctl", "ovirtsim")
	writeChecksums(t, folder)

	return folder
}

// buildPrograms builds programs for this machine as hack/release does, and adds the script that installs olvmctl.
func buildPrograms(t *testing.T, release string, names ...string) {
	t.Helper()
	root := testenv.Toolchain(t).Root()

	for _, name := range names {
		command := exec.CommandContext(t.Context(), "go", "build", "-ldflags",
			"-s -w -X github.com/capolvm/cluster-api-provider-olvm/internal/version.Version=v0.1.0",
			"-o", filepath.Join(release, name+"-"+runtime.GOOS+"-"+runtime.GOARCH), "./cmd/"+name)
		command.Dir = root
		out, err := command.CombinedOutput()
		check.Error(t, err, "")
		check.Equal(t, "go build", string(out), "")
	}

	script, err := os.ReadFile(filepath.Join(root, "hack", "install", "install.sh"))
	check.Error(t, err, "")

	filled := strings.ReplaceAll(string(script), "@VERSION@", "v0.1.0")
	check.Error(t, os.WriteFile(filepath.Join(release, "install.sh"), []byte(filled), 0o600), "")
}

// writeChecksums writes checksums.txt, as hack/release does.
func writeChecksums(t *testing.T, release string) {
	t.Helper()
	entries, err := os.ReadDir(release)
	check.Error(t, err, "")

	var lines strings.Builder

	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "checksums.txt") {
			continue
		}

		content, err := os.ReadFile(filepath.Join(release, entry.Name()))
		check.Error(t, err, "")
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}

	check.Error(t, os.WriteFile(filepath.Join(release, "checksums.txt"), []byte(lines.String()), 0o600), "")
}

// setUpEngine writes the sample with other addresses, because another test uses those of the sample at the same time.
// It ends the processes of a transcript that stops in its middle.
func (m *management) setUpEngine() {
	m.t.Helper()
	sample, err := os.ReadFile(filepath.Join(m.tools.Root(), "config", "samples", "quickstart.yaml"))
	check.Error(m.t, err, "")
	m.write("cluster.yaml", strings.NewReplacer("127.0.0.90", "127.0.0.91", "127.20.90.", "127.20.91.",
		"../../sim.json.ca.pem", "sim.json.ca.pem").Replace(string(sample)))
	m.t.Cleanup(func() {
		_, _ = m.run("bin/olvmctl local stop")

		var pid int
		if content, err := os.ReadFile(filepath.Join(m.dir, "sim.pid")); err == nil {
			_, _ = fmt.Sscan(string(content), &pid)
		}

		if pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	})
}

// addPrograms makes a folder with all programs of the transcripts, among them no cosign. clusterctl finds its
// configuration, and the release is in out/release.
func (m *management) addPrograms(release string) {
	m.t.Helper()
	programs := filepath.Join(m.dir, "programs")
	check.Error(m.t, os.MkdirAll(programs, 0o755), "")

	for _, name := range []string{
		"awk", "bash", "cat", "chmod", "cp", "curl", "ln", "mkdir", "mktemp", "mv", "rm", "sh", "sha256sum", "sleep",
		"tr", "uname",
	} {
		found, err := exec.LookPath(name)
		check.Error(m.t, err, "")
		check.Error(m.t, os.Symlink(found, filepath.Join(programs, name)), "")
	}

	for module, name := range map[string]string{"plane": "kubectl", "clusterctl": "clusterctl"} {
		check.Error(m.t, m.tools.Build(m.t.Context(), module), "")
		found, err := m.tools.Path(module, name)
		check.Error(m.t, err, "")
		check.Error(m.t, os.Symlink(found, filepath.Join(programs, name)), "")
	}

	executor := testenv.FindExecutable(m.t).Path
	check.Error(m.t, os.Symlink(executor, filepath.Join(programs, filepath.Base(executor))), "")
	check.Error(m.t, os.MkdirAll(filepath.Join(m.dir, "out"), 0o755), "")
	check.Error(m.t, os.Symlink(release, filepath.Join(m.dir, "out", "release")), "")

	if m.config != "" {
		content, err := os.ReadFile(m.config)
		check.Error(m.t, err, "")
		m.write("cluster-api/clusterctl.yaml", string(content))
	}
}

// follow types the commands of a transcript, and compares what they print.
func (m *management) follow(heading string) {
	m.t.Helper()
	_, section, _ := strings.Cut(testenv.ReadDocuments(m.t)[installations], "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := transcript.FindAllStringSubmatch(section, -1)
	check.Equal(m.t, "there are transcripts", len(blocks) > 0, true)

	for _, block := range blocks {
		text := strings.ReplaceAll(block[1], "-linux-amd64", "-"+runtime.GOOS+"-"+runtime.GOARCH)

		for _, typed := range strings.Split("\n"+text, "\n$ ")[1:] {
			command, want, _ := strings.Cut(strings.ReplaceAll(typed, "\n> ", "\x00"), "\n")
			command = strings.ReplaceAll(command, "\x00", "\n")
			out, err := m.run(command)
			m.t.Logf("$ %s\n%s", command, out)
			check.Error(m.t, err, "")

			if !outputPattern(want).MatchString(out) {
				m.t.Errorf("$ %s\n%s\nThe document says:\n%s", command, out, want)
			}
		}
	}
}

// outputPattern returns a pattern of the output in a transcript. Three dots stand for any text, and on a line of their
// own for any lines.
func outputPattern(want string) *regexp.Regexp {
	pattern := ""

	if want = strings.TrimSuffix(want, "\n"); want != "" {
		want += "\n"
	}

	for line := range strings.Lines(want) {
		if line == "...\n" {
			pattern += `(?:.*\n)*`
		} else {
			pattern += strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`)
		}
	}

	return regexp.MustCompile(`^` + pattern + `$`)
}

var spaceAtEnd = regexp.MustCompile(`(?m)[ \t]+$`)

// run runs a command in the folder of the transcripts, and returns its output without spaces at the ends of lines.
func (m *management) run(command string) (string, error) {
	m.t.Helper()
	shell := exec.Command("bash", "-c", "set -eo pipefail\n"+command)
	shell.Dir = m.dir
	shell.Env = append(m.environment(), "PATH="+filepath.Join(m.dir, "programs"), "XDG_STATE_HOME="+m.dir,
		"XDG_CACHE_HOME="+filepath.Dir(toolchain.CacheDir()), "OCNE_DEFAULTS=",
		"OLVM_USERNAME=admin@internal", "OLVM_PASSWORD=quick-start")
	out, err := shell.CombinedOutput()

	return spaceAtEnd.ReplaceAllString(string(out), ""), err
}
