package bootstrap

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// following runs the follow.sh of a control plane node below a folder, with a kubectl that lists these nodes. It
// returns the resulting configuration of keepalived, and the applied objects.
func following(t *testing.T, services *Services, nodes string) (keepalived, applied string) {
	t.Helper()

	return followingWith(t, "bin/kubectl", services, nodes)
}

// followingWith is following with a kubectl at this path.
func followingWith(t *testing.T, kubectl string, services *Services, nodes string) (keepalived, applied string) {
	t.Helper()
	root := t.TempDir()
	write := func(path, content string) {
		path = filepath.Join(root, path)
		check.Error(t, os.MkdirAll(filepath.Dir(path), 0o700), "")
		check.Error(t, os.WriteFile(path, []byte(content), 0o700), "")
	}

	for path, content := range written(services.buildFiles(false)) {
		write(path, strings.NewReplacer("/etc/", root+"/etc/", "/opt/", root+"/opt/").Replace(content))
	}

	write("etc/kubernetes/admin.conf", "")
	write("bin/systemctl", "#!/bin/bash\n")
	write("nodes", nodes)
	write(kubectl, "#!/bin/bash\ncase \"$*\" in\n*' get nodes '*) cat "+root+"/nodes ;;\n"+
		"*' apply '*) cat >"+root+"/applied ;;\n*) exit 1 ;;\nesac\n")

	// This machine may have a kubectl.
	for _, name := range strings.Fields("awk bash cat chmod cmp cp date dirname grep head mkdir mv paste rm sed sort " +
		"tail touch tr wc") {
		path, err := exec.LookPath(name)
		check.Error(t, err, "")
		check.Error(t, os.Symlink(path, filepath.Join(root, "bin", name)), "")
	}

	command := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "etc/capolvm/follow.sh"))
	command.Env = []string{"PATH=" + filepath.Join(root, "bin")}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	config, err := os.ReadFile(filepath.Join(root, "etc/keepalived/keepalived.conf"))
	check.Error(t, err, "")

	told, _ := os.ReadFile(filepath.Join(root, "applied"))

	return string(config), string(told)
}

// TestATextThatIsNoAddressGoesIntoNoConfiguration has a kubelet that reports arbitrary text as its node's address.
func TestATextThatIsNoAddressGoesIntoNoConfiguration(t *testing.T) {
	services := served(NoLoadBalancer, func(s *Services) {
		s.Ingress = &VirtualAddress{Address: netip.MustParseAddr("10.20.30.6"), RouterID: 52}
	})
	const controlPlane = `{"node-role.kubernetes.io/control-plane":""}`
	config, applied := following(t, services,
		"demo-1 "+controlPlane+" 10.20.30.7 fd00::7\n"+
			"demo-2 "+controlPlane+" 10.20.30.8 fd00::8\n"+
			`worker-1 {"a":"b"} 10.20.30.9 include/tmp/a.conf 10.20.30.10} 10.20.30.11"} a.b`+"\n")

	_, instances, _ := strings.Cut(config, "vrrp_instance api")
	api, ingress, _ := strings.Cut(instances, "vrrp_instance ingress")
	check.Contains(t, "peers of the endpoint", api, "unicast_peer {\n        10.20.30.8\n    }")
	check.Contains(
		t, "peers of the ingress address", ingress, "unicast_peer {\n        10.20.30.8\n        10.20.30.9\n    }",
	)
	check.Contains(t, "what kubelets are told", applied,
		`data: {addresses: "10.20.30.7 10.20.30.8 10.20.30.9 fd00::7 fd00::8"}`)
	check.Lacks(t, "configuration", config+applied, "a.conf")
}

// TestANodeWithAnIngressOfTheOtherFamilyHasPeersOfBoth expects two VRRP instances, because each has one address family.
func TestANodeWithAnIngressOfTheOtherFamilyHasPeersOfBoth(t *testing.T) {
	services := served(NoLoadBalancer, func(s *Services) {
		s.Ingress = &VirtualAddress{Address: netip.MustParseAddr("fd00::6"), RouterID: 52}
		s.IngressSelf = netip.MustParseAddr("fd00::7")
	})
	const controlPlane = `{"node-role.kubernetes.io/control-plane":""}`
	config, _ := following(t, services,
		"demo-1 "+controlPlane+" 10.20.30.7 fd00::7\ndemo-2 "+controlPlane+" 10.20.30.8 fd00::8\n")

	check.Contains(
		t, "the endpoint", config, "unicast_src_ip 10.20.30.7\n    unicast_peer {\n        10.20.30.8\n    }",
	)
	check.Contains(
		t, "the ingress address", config, "unicast_src_ip fd00::7\n    unicast_peer {\n        fd00::8\n    }",
	)
}

// TestANodeFindsItsPeersWithAKubectlBelowOpt covers Flatcar, where services do not have /opt/bin in their PATH.
func TestANodeFindsItsPeersWithAKubectlBelowOpt(t *testing.T) {
	config, _ := followingWith(t, "opt/bin/kubectl", served(NoLoadBalancer, nil),
		`demo-1 {"node-role.kubernetes.io/control-plane":""} 10.20.30.7`+"\n"+
			`demo-2 {"node-role.kubernetes.io/control-plane":""} 10.20.30.8`+"\n")
	check.Contains(t, "configuration", config, "unicast_peer {\n        10.20.30.8\n    }")
}
