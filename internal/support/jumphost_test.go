package support

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// jumpVM is the folder of a VM with fake programs. useradd does nothing, and sshd refuses the configured patterns.
type jumpVM struct {
	t    *testing.T
	root string
}

// newJumpVM returns a VM with the given sshd configuration.
func newJumpVM(t *testing.T, sshd string) *jumpVM {
	t.Helper()
	vm := &jumpVM{t, t.TempDir()}

	for path, content := range map[string]string{
		"etc/hosts": "127.0.0.1 localhost\n", "etc/ssh/ssh_config": "# none\n",
		"etc/ssh/sshd_config":               strings.ReplaceAll(sshd, "/etc/", vm.root+"/etc/"),
		"etc/capolvm/service/authority.pem": "CA\n",
		"etc/capolvm/service/request": "url = \"https://10.0.0.1:9445/v1/configuration/a/b\"\n" +
			"header = \"Authorization: Bearer a\"\n",
		"bin/useradd": "#!/bin/bash\n",
		// This sshd refuses unknown settings. For example, OpenSSH before 8.2 does not know Include.
		"bin/sshd":      "#!/bin/bash\n! grep -q -f " + vm.root + "/refused " + vm.root + "/etc/ssh/sshd_config\n",
		"bin/systemctl": "#!/bin/bash\necho \"$*\" >>" + vm.root + "/told\n",
		"refused":       "^NothingOfTheKind\n", "told": "",
	} {
		vm.write(path, content)
	}

	return vm
}

func (vm *jumpVM) write(path, content string) {
	vm.t.Helper()
	path = filepath.Join(vm.root, path)
	check.Error(vm.t, os.MkdirAll(filepath.Dir(path), 0o700), "")
	check.Error(vm.t, os.WriteFile(path, []byte(content), 0o700), "")
}

func (vm *jumpVM) read(path string) string {
	vm.t.Helper()
	content, err := os.ReadFile(filepath.Join(vm.root, path))
	check.Error(vm.t, err, "")

	return strings.ReplaceAll(string(content), vm.root, "")
}

// apply runs a jump host's script in the VM and returns its output.
func (vm *jumpVM) apply() (string, error) {
	vm.t.Helper()
	self, err := user.Current()
	check.Error(vm.t, err, "")

	for _, file := range (JumpHost{User: self.Username}).BuildFiles() {
		vm.write("etc/capolvm/service/next/"+file.Path,
			strings.NewReplacer("/etc/", vm.root+"/etc/", "/usr/local/", vm.root+"/usr/local/").Replace(file.Content))
	}

	command := exec.CommandContext(vm.t.Context(), "bash", "./"+applyFile)
	command.Dir = filepath.Join(vm.root, "etc/capolvm/service/next")
	command.Env = []string{"PATH=" + filepath.Join(vm.root, "bin") + ":" + os.Getenv("PATH")}
	out, err := command.CombinedOutput()

	return string(out), err
}

// TestSettingsOfAJumpHostGoBeforeThoseOfTheImage covers the order of settings, because sshd uses the first value of a
// setting. Hardened images, such as OCK's, contain other settings before Include.
func TestSettingsOfAJumpHostGoBeforeThoseOfTheImage(t *testing.T) {
	t.Parallel()

	const include = "Include /etc/ssh/sshd_config.d/*.conf\n"
	for name, tt := range map[string]struct{ image, want string }{
		"as it comes":     {"# a\n\n" + include + "PermitRootLogin no\n", "# a\n\n" + include + "PermitRootLogin no\n"},
		"without Include": {"PasswordAuthentication yes\n", include + "PasswordAuthentication yes\n"},
		"with Include at last": {
			"PasswordAuthentication yes\n" + include, include + "PasswordAuthentication yes\n" + include,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := newJumpVM(t, tt.image)
			out, err := vm.apply()
			check.Error(t, err, "")
			check.Equal(t, "output", out, "")
			check.Equal(t, "configuration of sshd", vm.read("etc/ssh/sshd_config"), tt.want)
			check.Contains(t, "what systemd is told", vm.read("told"), "reload-or-restart sshd.service")

			vm.write("told", "")
			_, err = vm.apply()
			check.Error(t, err, "")
			check.Equal(t, "what systemd is told again", vm.read("told"), "")
		})
	}
}

// TestAnSSHDThatKnowsNoIncludeKeepsItsConfiguration covers OpenSSH 8.0 of Oracle Linux 8, which would not start again
// with Include.
func TestAnSSHDThatKnowsNoIncludeKeepsItsConfiguration(t *testing.T) {
	t.Parallel()

	vm := newJumpVM(t, "PasswordAuthentication yes\n")
	vm.write("refused", "^Include\n")
	out, err := vm.apply()
	check.Error(t, err, "exit status 1")
	check.Contains(t, "output", out, "one older than OpenSSH 8.2 may not know Include")
	check.Equal(t, "configuration of sshd", vm.read("etc/ssh/sshd_config"), "PasswordAuthentication yes\n")
	check.Equal(t, "what systemd is told", vm.read("told"), "")
	_, err = os.Stat(filepath.Join(vm.root, "etc/ssh/sshd_config.d/00-capolvm.conf"))
	check.Error(t, err, "no such file")
}

// TestTheFileOfAJumpHostGoesBeforeThoseOfAnaconda covers the name of the file. sshd reads files in the order of their
// names, and uses the first value of a setting. The script removes the file with the former name, unless sshd refuses
// the new file.
func TestTheFileOfAJumpHostGoesBeforeThoseOfAnaconda(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct{ refused, problem, want string }{
		"sshd takes it": {refused: "^NothingOfTheKind\n", want: "00-capolvm.conf 01-permitrootlogin.conf"},
		"sshd refuses it": {
			refused: "^Include\n", problem: "exit status 1", want: "01-permitrootlogin.conf 10-capolvm.conf",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := newJumpVM(t, "PasswordAuthentication yes\n")
			vm.write("refused", tt.refused)
			vm.write("etc/ssh/sshd_config.d/01-permitrootlogin.conf", "PermitRootLogin yes\n")
			vm.write("etc/ssh/sshd_config.d/10-capolvm.conf", "PermitRootLogin no\n")
			_, err := vm.apply()
			check.Error(t, err, tt.problem)

			found, err := os.ReadDir(filepath.Join(vm.root, "etc/ssh/sshd_config.d"))
			check.Error(t, err, "")

			var names []string
			for _, one := range found {
				names = append(names, one.Name())
			}

			check.Equal(t, "files", strings.Join(names, " "), tt.want)
		})
	}
}
