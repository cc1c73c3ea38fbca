package support

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// needProgram skips a test unless the given program of the images is installed. The test lets this program read its
// configuration.
func needProgram(t *testing.T, name, pack string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed; on Debian: apt-get install %s", name, pack)
	}
}

// contents returns the contents of files by their names.
func contents(files []bootstrap.File) map[string]string {
	out := map[string]string{}
	for _, file := range files {
		out[file.Path] = file.Content
	}

	return out
}

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}

	return out
}

// balancers returns VMs of each kind of load balancer.
func balancers() map[string]Balancer {
	nodes := []Node{{"a", netip.MustParseAddr("10.0.0.2"), true}, {"b", netip.MustParseAddr("fd00::2"), true}}

	return map[string]Balancer{
		"API servers": {
			Name: "lb-0", Ports: []int{6443}, BackendPort: 6444, Backends: nodes, Own: addresses("10.0.0.8"),
			VirtualIP: netip.MustParseAddr("10.0.0.5"), Self: netip.MustParseAddr("10.0.0.8"), Interface: "lo",
			Peers: addresses("10.0.0.9"), RouterID: 51,
		},
		"workers of both families": {Name: "lb-0", Ports: []int{443, 30080}, Backends: nodes,
			Own: addresses("10.0.0.8", "fd00::8")},
		"IPv6": {Name: "lb-0", Ports: []int{443}, Own: addresses("fd00::8"), Backends: nodes[1:],
			VirtualIP: netip.MustParseAddr("fd00::5"), Self: netip.MustParseAddr("fd00::8"), Interface: "lo", RouterID: 51},
		"no address is known": {Name: "lb-0", Ports: []int{443}},
	}
}

// TestALoadBalancerListensAtTheFamiliesOfItsVM verifies that a VM listens only on the address families that it has. If
// an image has turned IPv6 off, nothing can listen on ::.
func TestALoadBalancerListensAtTheFamiliesOfItsVM(t *testing.T) {
	t.Parallel()

	const v4, v6 = "    bind 0.0.0.0:", "    bind :::"

	for name, want := range map[string][2]bool{
		"API servers": {true, false}, "workers of both families": {true, true}, "IPv6": {false, true},
		"no address is known": {true, true},
	} {
		config := contents(balancers()[name].BuildFiles())["haproxy.cfg"]
		check.Equal(t, name, [2]bool{strings.Contains(config, v4), strings.Contains(config, v6)}, want)
		check.Equal(t, name+": both at once", strings.Contains(config, "v4v6"), false)
	}
}

// TestTheSystemAllowsASupportService opens the ports of the VM and no others.
func TestTheSystemAllowsASupportService(t *testing.T) {
	t.Parallel()
	files := contents(balancers()["workers of both families"].BuildFiles())
	check.Contains(t, "without an address", files["allow.sh"], "turn_on haproxy_connect_any ")
	check.Contains(t, "without an address", files["allow.sh"], "open --add-port=443/tcp --add-port=30080/tcp\n")
	check.Lacks(t, "without an address", files["allow.sh"], "vrrp")
	check.Contains(t, "what applies it", files["apply.sh"], "/bin/bash ./allow.sh")

	script := contents(balancers()["API servers"].BuildFiles())["allow.sh"]
	check.Contains(t, "with an address", script, "turn_on keepalived_connect_any ")
	check.Contains(t, "with an address", script, "open --add-protocol=vrrp\n")

	dex, err := OIDC{Issuer: "https://login:5556", Port: 5556}.BuildFiles()
	check.Error(t, err, "")
	check.Contains(t, "Dex", contents(dex)["allow.sh"], "open --add-port=5556/tcp\n")
	check.Lacks(t, "Dex", contents(dex)["allow.sh"], "turn_on")
}

// TestHAProxyReadsTheLoadBalancersConfiguration checks the configuration with the installed haproxy, as the VM does.
func TestHAProxyReadsTheLoadBalancersConfiguration(t *testing.T) {
	needProgram(t, "haproxy", "haproxy")

	for name, balancer := range balancers() {
		path := filepath.Join(t.TempDir(), "haproxy.cfg")
		check.Error(t, os.WriteFile(path, []byte(contents(balancer.BuildFiles())["haproxy.cfg"]), 0o600), "")

		if out, err := exec.CommandContext(t.Context(), "haproxy", "-c", "-f", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestKeepalivedReadsTheLoadBalancersConfiguration checks the configuration with the installed keepalived, as the VM
// does.
func TestKeepalivedReadsTheLoadBalancersConfiguration(t *testing.T) {
	needProgram(t, "keepalived", "keepalived")
	all, err := net.Interfaces()
	check.Error(t, err, "")
	at := slices.IndexFunc(all, func(i net.Interface) bool { return i.Flags&net.FlagMulticast != 0 })
	if at < 0 {
		t.Skip("this machine has no network interface that keepalived takes")
	}

	for name, balancer := range balancers() {
		balancer.Interface = all[at].Name
		config := contents(balancer.BuildFiles())["keepalived.conf"]
		check.Equal(t, name+": an address", config != "", balancer.VirtualIP.IsValid())
		path := filepath.Join(t.TempDir(), "keepalived.conf")
		check.Error(t, os.WriteFile(path, []byte(config), 0o600), "")
		out, err := exec.CommandContext(t.Context(), "keepalived", "--config-test", "--use-file", path).CombinedOutput()
		if config != "" && err != nil {
			t.Errorf("%s: %v: %s\n%s", name, err, out, config)
		}
	}
}

// TestAnAddressOfIPv6ThatAllHearOfHasOneOfTheLinkBeforeIt verifies that a link-local address comes first, because
// keepalived 2.0 refuses other orders. A pair of VMs announces the address only to each other. There, peers with
// different versions compare the lists of addresses.
func TestAnAddressOfIPv6ThatAllHearOfHasOneOfTheLinkBeforeIt(t *testing.T) {
	t.Parallel()
	const link = "        fe80::200:5eff:fe00:233/64 dev lo\n"
	balancer := balancers()["IPv6"]
	check.Contains(t, "alone", contents(balancer.BuildFiles())["keepalived.conf"], link+"        fd00::5/128 dev lo\n")
	balancer.Peers = addresses("fd00::9")
	check.Lacks(t, "a pair", contents(balancer.BuildFiles())["keepalived.conf"], link)
	check.Lacks(t, "IPv4", contents(balancers()["API servers"].BuildFiles())["keepalived.conf"], "fe80")
}

// TestSSHKnowsNodesByTheirNames verifies that keys belong to names, because other machines with other keys may get a
// node's address later.
func TestSSHKnowsNodesByTheirNames(t *testing.T) {
	needProgram(t, "ssh", "openssh-client")
	of := &infrav1alpha1.OLVMSupportServices{}
	of.Spec.JumpHost = &infrav1alpha1.SupportJumpHost{}
	jump := CollectServices(of)[0].NewJumpHost(infrav1.OLVMClusterSpec{}, []Node{
		{"cp-0", netip.MustParseAddr("10.0.0.2"), true}, {"md-0", netip.MustParseAddr("10.0.0.3"), false},
	})
	path := filepath.Join(t.TempDir(), "ssh.conf")
	check.Error(t, os.WriteFile(path, []byte(contents(jump.BuildFiles())["ssh.conf"]), 0o600), "")

	for name, address := range map[string]string{"cp-0": "10.0.0.2", "md-0": "10.0.0.3"} {
		out, err := exec.CommandContext(t.Context(), "ssh", "-G", "-F", path, name).CombinedOutput()
		check.Error(t, err, "")
		check.Contains(t, name, string(out), "\nhostname "+address+"\n")
		check.Contains(t, name, string(out), "\nhostkeyalias "+name+"\n")
		check.Contains(t, name, string(out), "\ncheckhostip no\n")
	}
}

// TestWhatAVMRunsStartsAgainWhenItEnds verifies that services start again, regardless of the unit in the image. The
// script runs with a fake systemctl that records its calls. The restart itself is the task of systemd.
func TestWhatAVMRunsStartsAgainWhenItEnds(t *testing.T) {
	t.Parallel()

	for name, balancer := range balancers() {
		files := contents(balancer.BuildFiles())
		check.Contains(t, name, files["start-again.conf"], "\nStartLimitIntervalSec=0\n")
		check.Contains(t, name, files["start-again.conf"], "\nRestart=always\n")

		_, script, found := strings.Cut(files["apply.sh"], "\nset -euo pipefail\n")
		script, _, ended := strings.Cut(script, "\n# A port that another program has")
		check.Equal(t, "the part that ends with the start of haproxy", found && ended, true)

		root := t.TempDir()
		state := filepath.Join(root, "state-")
		check.Error(t, os.WriteFile(state+"allowed", []byte(files["allow.sh"]), 0o600), "")

		for path, content := range files {
			check.Error(t, os.WriteFile(filepath.Join(root, path), []byte(content), 0o600), "")
		}

		run := func() string {
			command := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\nhaproxy() { :; }\n"+
				"keepalived() { :; }\nsystemctl() { echo \"$*\"; }\n"+
				strings.NewReplacer("/etc/", root+"/etc/", "../", state).Replace(script))
			command.Dir = root
			out, err := command.CombinedOutput()
			check.Error(t, err, "")

			return string(out)
		}

		const started = "daemon-reload\n--no-block reload-or-restart haproxy.service\nenable haproxy.service\n"
		check.Equal(t, name+": what systemd is told", run(), started)
		check.Equal(t, name+": after it was killed", run(), started)
		check.Error(t, os.Remove(state+"begun"), "")
		check.Equal(t, name+": a second time", run(), "enable haproxy.service\n")

		for _, unit := range []string{"haproxy", "keepalived"} {
			dropIn, err := os.ReadFile(filepath.Join(root, "etc/systemd/system", unit+".service.d/10-capolvm.conf"))
			held := unit == "haproxy" || balancer.VirtualIP.IsValid()
			check.Equal(t, name+": a drop-in of "+unit, err == nil, held)

			if held {
				check.Equal(t, name+": drop-in of "+unit, string(dropIn), files["start-again.conf"])
			}
		}
	}

	check.Contains(t, "Dex", render("dex.service", nil), "\nStartLimitIntervalSec=0\n")
	check.Contains(t, "Dex", render("dex.service", nil), "\nRestart=always\n")
}
