package guestnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/jumphost"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testssh"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// keyPair is an SSH key.
type keyPair struct {
	// private is in OpenSSH's format. public is a line of authorized_keys.
	private []byte
	public  string
	// file is the path of the file with the private key.
	file string
}

// newKey creates a key in a folder of the test.
func newKey(t *testing.T, name string) keyPair {
	t.Helper()
	public, private := testssh.NewKey(t)
	out := keyPair{
		private: private,
		public:  strings.TrimSpace(public) + " " + name,
		file:    filepath.Join(t.TempDir(), name),
	}
	check.Error(t, os.WriteFile(out.file, out.private, 0o600), "")

	return out
}

// ssh runs a command with a key, on the jump host or on a host behind it.
func (s *site) ssh(key keyPair, user string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()

	out, err := exec.CommandContext(ctx, "ip", append([]string{
		"netns", "exec", s.lan.client, "ssh", "-F", "/dev/null", "-i", key.file, "-o", "BatchMode=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=60", user + "@10.99.0.41", "--",
	}, command...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, out)
	}

	return string(out), nil
}

// fakeHosts replaces the handler of requests to the engine. The file controllers/support_test.go covers the real one.
type fakeHosts struct{}

func (fakeHosts) List(_ context.Context, jumpHost client.ObjectKey) (string, error) {
	return "NAME  POWER\ncp-1  up\nasked by " + jumpHost.Name + "\n", nil
}

func (fakeHosts) Reboot(_ context.Context, _ client.ObjectKey, name string) (string, error) {
	if name != "cp-1" {
		return "", &jumphost.RefusedError{Reason: "the cluster has no machine " + name}
	}

	return name + " reboots\n", nil
}

func (fakeHosts) Console(context.Context, client.ObjectKey, string) (string, error) {
	return "[virt-viewer]\ntype=vnc\n", nil
}

// sshNode starts a node with sshd. The key allows logins as root.
func (s *site) sshNode(name, address string, key keyPair) {
	t := s.lan.t
	t.Helper()
	n := &node{cluster: s.cluster, name: name, address: netip.MustParseAddr(address), worker: true}
	n.namespace = s.lan.namespace(name)
	s.lan.connect(n.namespace, address)
	n.root = filepath.Join(s.lan.dir, name)
	n.write("etc/capolvm/jump/authorized_keys", key.public+"\n", false)
	n.write("etc/ssh/sshd_config.d/10-test.conf",
		"PermitRootLogin prohibit-password\nAuthorizedKeysFile /etc/capolvm/jump/authorized_keys\n", false)
	n.installUserData([]byte("#cloud-config\nruncmd: ['systemctl enable --now ssh.service']\n"), hostNamed(name))
	n.power()
	t.Cleanup(n.off)
}

// TestAJumpHostLetsItsUsersIn (row 53) runs a real sshd on a jump host and on a node.
func TestAJumpHostLetsItsUsersIn(t *testing.T) {
	l := newLAN(t, "sshd", "ssh")
	s := newSupported(l, "j")
	s.server.EnableHosts(fakeHosts{})
	listed, other, late, nodeKey := newKey(t, "listed"), newKey(t, "other"), newKey(t, "late"), newKey(t, "node")
	s.sshNode("cp-1", "10.99.0.11", nodeKey)

	of := &infrav1alpha1.OLVMSupportServices{}
	of.Spec.JumpHost = &infrav1alpha1.SupportJumpHost{AuthorizedKeys: []string{listed.public}, NodeUser: "root"}
	v := s.supportVM("j-jump-host-0", "10.99.0.41")
	configure := func(nodes ...support.Node) {
		t.Helper()
		check.Error(t, support.Validate(infrav1.OLVMClusterSpec{}, of), "")
		jump := support.CollectServices(of)[0].NewJumpHost(infrav1.OLVMClusterSpec{}, nodes)
		jump.NodeKeys = map[string][]byte{"cluster": nodeKey.private}
		jump.Kubeconfig = []byte("kind: Config\n")
		v.configure(jump.BuildFiles())

		if v.process == nil {
			v.begin()
		}

		v.expectUsed(jump.BuildFiles())
	}
	configure(support.Node{Name: "cp-1", Address: netip.MustParseAddr("10.99.0.11")})

	l.eventually("the listed key logs in", func() error {
		out, err := s.ssh(listed, "jump", "whoami")
		if err == nil && out != "jump\n" {
			err = errors.New(out)
		}

		return err
	})

	if out, err := s.ssh(other, "jump", "whoami"); err == nil {
		t.Errorf("a key that is not listed logs in: %s", out)
	}

	if out, err := s.ssh(listed, "root", "whoami"); err == nil {
		t.Errorf("the listed key logs in as root: %s", out)
	}

	for command, want := range map[string]string{
		"ssh cp-1 cat /proc/sys/kernel/ostype":  "Linux\n",
		"ssh cp-1 ip -o -4 address show enp1s0": "10.99.0.11/24",
		"getent hosts cp-1":                     "10.99.0.11",
		"cat $KUBECONFIG":                       "kind: Config\n",
		"touch /etc/capolvm/jump/keys/x":        "Permission denied",
		// sshd sends output and errors in two streams without a common order. Here, the node merges them, so the test
		// can compare the whole text.
		"host list":                                "asked by j-jump-host-0\n",
		"host reboot cp-1":                         "cp-1 reboots\n",
		"host console cp-1 && cat cp-1.vv":         "[virt-viewer]\ntype=vnc\n",
		"host reboot elsewhere 2>&1; echo code $?": "the cluster has no machine elsewhere\ncode 1\n",
		"host reboot '../x' 2>&1; echo code $?":    "is no name of a machine; see: host list\ncode 2\n",
		"host reset cp-1; echo code $?":            "usage: host list",
		"cat /etc/capolvm/service/request; id -un": "Permission denied",
		"curl -s -o /dev/null -w '%{http_code}' -k -K /etc/capolvm/jump/request " +
			"https://" + managerAddress + ":9445/v1/configuration/default/j-jump-host-0": "403",
	} {
		out, err := s.ssh(listed, "jump", command)
		if !strings.Contains(out, want) {
			t.Errorf("%s: got %q, %v, want %q", command, out, err, want)
		}
	}

	// Users change keys, and machines come and go.
	of.Spec.JumpHost.AuthorizedKeys = []string{late.public}
	configure(support.Node{Name: "cp-2", Address: netip.MustParseAddr("10.99.0.11")})
	l.eventually("the later key logs in", func() error {
		_, err := s.ssh(late, "jump", "whoami")
		return err
	})

	if out, err := s.ssh(listed, "jump", "whoami"); err == nil {
		t.Errorf("a key that is not listed any more logs in: %s", out)
	}

	out, err := s.ssh(late, "jump", "ssh cp-2 whoami; getent hosts cp-1; host list")
	check.Equal(t, "the other machine", out, "root\nNAME  POWER\ncp-1  up\nasked by j-jump-host-0\n")
	check.Error(t, err, "")
}
