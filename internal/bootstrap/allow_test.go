package bootstrap

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// standIns replace the programs that the script calls. Each one rejects arguments that the manual of the real program
// does not allow, and stores changes below $STATE. The real programs need a kernel with SELinux and a running
// firewalld. Only the parser of firewalld 1.3.3 was tried. It accepts these options, even repeatedly, but rejects ports
// and protocols in one call.
var standIns = map[string]string{
	"getenforce": `echo Enforcing`,
	"getsebool": `[ $# = 1 ] || exit 2
case "$1" in
keepalived_connect_any | haproxy_connect_any | httpd_can_network_connect) ;;
*) echo "Error getting active value for $1" >&2 && exit 1 ;;
esac
if [ -e "$STATE/$1" ]; then echo "$1 --> on"; else echo "$1 --> off"; fi`,
	"setsebool": `[ $# = 2 ] && [ "$1" = -P ] || exit 2
getsebool "${2%=on}" >/dev/null || exit 1
case "$2" in *=on) ;; *) exit 2 ;; esac
: >"$STATE/${2%=on}"
echo "setsebool $*" >>"$STATE/changes"`,
	"semanage": `case "$*" in
"port -l")
    echo "http_cache_port_t              tcp      8080, 8118, 8123, 10001-10010"
    echo "http_port_t                    tcp      $(cat "$STATE/http" 2>/dev/null)80, 81, 443"
    echo "kubernetes_port_t              tcp      7443"
    exit 0
    ;;
"port -a -t http_port_t -p tcp 7443")
    echo "ValueError: Port tcp/7443 already defined" >&2
    exit 1
    ;;
"port -a -t http_port_t -p tcp "[0-9]*) ;;
"port -m -t http_port_t -p tcp 7443") ;;
*) exit 2 ;;
esac
printf '%s, ' "${*##* }" >>"$STATE/http"
echo "semanage $*" >>"$STATE/changes"`,
	"firewall-cmd": `for argument in "$@"; do
    case "$argument" in
    --state | --quiet | --permanent | --add-protocol=vrrp) ;;
    --add-port=[0-9]*/tcp | --add-port=[0-9]*/udp) ;;
    --zone=trusted | --add-source=[0-9a-f]*/[0-9]*) ;;
    '--add-rich-rule=rule family="ipv'[46]'" source address="'*/*'" port port="'[0-9]*'" protocol="'???'" accept') ;;
    '--add-rich-rule=rule family="ipv'[46]'" source address="'*/*'" protocol value="4" accept') ;;
    *) exit 2 ;;
    esac
done
case "$*" in
--state) exit 0 ;;
*--add-port*--add-protocol* | *--add-port*--add-rich-rule* | *--zone*--add-port*) exit 2 ;;
esac
echo "firewall-cmd $*" >>"$STATE/changes"`,
}

// aNode is a node with these programs, and otherwise only with the basic tools of scripts.
type aNode struct{ bin, state string }

func newNode(t *testing.T, programs map[string]string) aNode {
	t.Helper()
	n := aNode{bin: t.TempDir(), state: t.TempDir()}

	for _, name := range []string{"bash", "grep", "cat"} {
		path, err := exec.LookPath(name)
		check.Error(t, err, "")
		check.Error(t, os.Symlink(path, filepath.Join(n.bin, name)), "")
	}

	for name, text := range programs {
		check.Error(t, os.WriteFile(filepath.Join(n.bin, name), []byte("#!/bin/bash\n"+text+"\n"), 0o700), "")
	}

	return n
}

// run runs a script like the node's systemd, and returns its changes without repetitions.
func (n aNode) run(t *testing.T, script string) (changes []string, output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(n.bin, "bash"), "-c", script)
	command.Env = []string{"PATH=" + n.bin, "STATE=" + n.state}
	out, err := command.CombinedOutput()
	noted, _ := os.ReadFile(filepath.Join(n.state, "changes"))
	check.Error(t, os.RemoveAll(filepath.Join(n.state, "changes")), "")

	for line := range strings.Lines(string(noted)) {
		changes = append(changes, strings.TrimSpace(line))
	}

	return changes, string(out), err
}

func programs(but ...string) map[string]string {
	out := map[string]string{}
	for name, text := range standIns {
		out[name] = text
	}

	for _, name := range but {
		delete(out, name)
	}

	return out
}

// served returns a control plane node with these services.
func served(balancer LoadBalancer, change func(*Services)) *Services {
	out := &Services{
		HostName: "demo-1", Interface: "enp1s0", Self: netip.MustParseAddr("10.20.30.7"),
		API: &APIEndpoint{
			VirtualAddress: VirtualAddress{Address: netip.MustParseAddr("10.20.30.5"), RouterID: 51},
			Port:           6443, ServerPort: 6444, LoadBalancer: balancer,
		},
	}
	if change != nil {
		change(out)
	}

	return out
}

// firewall returns the firewalld commands that allow something, now and after a reboot.
func firewall(options ...string) []string {
	var out []string
	for _, option := range options {
		out = append(out, "firewall-cmd --quiet "+option, "firewall-cmd --quiet --permanent "+option)
	}

	return out
}

func TestSELinuxAndTheFirewallAllowTheServicesOfANode(t *testing.T) {
	vip := VirtualAddress{Address: netip.MustParseAddr("10.20.30.6"), RouterID: 52}

	for name, test := range map[string]struct {
		services *Services
		want     []string
	}{
		"keepalived and haproxy": {served(HAProxy, nil), append([]string{
			"setsebool -P keepalived_connect_any=on", "setsebool -P haproxy_connect_any=on",
		}, firewall("--add-port=6443/tcp --add-port=6444/tcp", "--add-protocol=vrrp")...)},
		"keepalived and the nginx of the image": {served(Nginx, nil), append([]string{
			"setsebool -P keepalived_connect_any=on", "setsebool -P httpd_can_network_connect=on",
			"semanage port -a -t http_port_t -p tcp 6443",
		}, firewall("--add-port=6443/tcp --add-port=6444/tcp", "--add-protocol=vrrp")...)},
		"a port that SELinux has for others": {served(Nginx, func(s *Services) { s.API.Port = 7443 }), append([]string{
			"setsebool -P keepalived_connect_any=on", "setsebool -P httpd_can_network_connect=on",
			"semanage port -m -t http_port_t -p tcp 7443",
		}, firewall("--add-port=7443/tcp --add-port=6444/tcp", "--add-protocol=vrrp")...)},
		"a port that is nginx's already": {served(Nginx, func(s *Services) { s.API.Port = 443 }), append([]string{
			"setsebool -P keepalived_connect_any=on", "setsebool -P httpd_can_network_connect=on",
		}, firewall("--add-port=443/tcp --add-port=6444/tcp", "--add-protocol=vrrp")...)},
		"keepalived and nginx in a container": {
			served(Nginx, func(s *Services) { s.API.NginxImage = "nginx" }),
			append([]string{"setsebool -P keepalived_connect_any=on"},
				firewall("--add-port=6443/tcp --add-port=6444/tcp", "--add-protocol=vrrp")...),
		},
		"kube-vip": {
			served(NoLoadBalancer, func(s *Services) { s.API.KubeVIPImage = "kube-vip" }),
			firewall("--add-port=6443/tcp"),
		},
		"a worker with ingress and names": {
			&Services{Interface: "enp1s0", Self: netip.MustParseAddr("10.20.30.7"), Ingress: &vip, DNS: &DNS{}},
			append([]string{"setsebool -P keepalived_connect_any=on"}, firewall(
				"--add-port=80/tcp --add-port=443/tcp --add-port=53/tcp --add-port=53/udp", "--add-protocol=vrrp")...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			node, script := newNode(t, programs()), test.services.buildAllowed().RenderScript()
			changes, output, err := node.run(t, script)
			check.Error(t, err, "")
			check.Equal(t, "changes", changes, test.want)
			check.Equal(t, "output", output, "")

			// firewalld accepts the same rule again. The script must not repeat the slow SELinux commands.
			changes, _, err = node.run(t, script)
			check.Error(t, err, "")
			check.Lacks(t, "a second time", strings.Join(changes, "\n"), "se")
		})
	}
}

// TestTheFirewallLetsInWhatKubernetesNeeds covers each kind of node. Overlays of pods must be open only to the networks
// of the nodes, because they trust every sender.
func TestTheFirewallLetsInWhatKubernetesNeeds(t *testing.T) {
	every := []string{"10250/tcp", "10256/tcp", "30000-32767/tcp", "30000-32767/udp"}
	overlays := []string{"8472/udp", "4789/udp", "6081/udp", "51820-51821/udp", "179/tcp", "5473/tcp", "4240/tcp"}
	v4, v6 := netip.MustParsePrefix("10.20.30.0/24"), netip.MustParsePrefix("fd00::/64")

	for name, test := range map[string]struct {
		services *Services
		// ports are the ports open to everyone.
		ports []string
	}{
		"a worker": {&Services{Node: &Node{}}, every},
		"a control plane behind an endpoint of others": {
			&Services{Node: &Node{ControlPlane: true}}, append(slices.Clone(every), "6443/tcp", "2379-2380/tcp"),
		},
		"a control plane with a load balancer": {
			served(HAProxy, func(s *Services) { s.Node, s.API.Port = &Node{ControlPlane: true}, 443 }),
			append([]string{"443/tcp", "6444/tcp", "2379-2380/tcp"}, every...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.services.Node.Neighbors = []netip.Prefix{v4, v6}
			test.services.Node.Pods = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
			changes, output, err := newNode(t, programs()).run(t, test.services.buildAllowed().RenderScript())
			check.Error(t, err, "")
			check.Equal(t, "output", output, "")

			var open, trusted []string
			rules := map[string]int{}

			for _, change := range changes {
				if strings.Contains(change, "--zone") {
					trusted = append(trusted, change)
				}

				for _, option := range strings.Split(change, " --") {
					port, isPort := strings.CutPrefix(option, "add-port=")
					rule, isRule := strings.CutPrefix(option, "add-rich-rule=")

					switch {
					case strings.Contains(change, "--permanent") && isPort:
						open = append(open, port)
					case isRule:
						rules[rule]++
					}
				}
			}

			slices.Sort(open)
			slices.Sort(test.ports)
			check.Equal(t, "ports that are open for all", open, test.ports)
			check.Equal(t, "trusted", trusted, firewall("--zone=trusted --add-source=10.244.0.0/16"))

			for _, from := range []string{`family="ipv4" source address="10.20.30.0/24"`, `family="ipv6" source address="fd00::/64"`} {
				for _, each := range overlays {
					port, protocol, _ := strings.Cut(each, "/")
					rule := fmt.Sprintf("rule %s port port=%q protocol=%q accept", from, port, protocol)
					check.Equal(t, rule, rules[rule], 2) // now, and after a reboot
				}

				check.Equal(t, "IP in IP", rules["rule "+from+` protocol value="4" accept`], 2)
			}
		})
	}
}

// TestTheDocumentationHasEachPortThatIsOpen checks the table for administrators of the networks between nodes.
func TestTheDocumentationHasEachPortThatIsOpen(t *testing.T) {
	text, err := os.ReadFile("../../docs/user/endpoints.md")
	check.Error(t, err, "")

	for _, each := range nodePorts {
		check.Contains(t, "docs/user/endpoints.md", string(text), "| "+each.port+" | ")
	}
}

func TestNothingIsChangedWhereNothingHasToAllow(t *testing.T) {
	script := served(Nginx, nil).buildAllowed().RenderScript()

	for name, test := range map[string]struct {
		programs map[string]string
		// change has programs that replace others.
		change map[string]string
		// lacks has the names of programs that the script must not call.
		lacks string
		fails bool
	}{
		"nothing is installed": {programs: nil, lacks: " "},
		"SELinux is disabled": {
			programs: programs(), change: map[string]string{"getenforce": "echo Disabled"}, lacks: "se",
		},
		"SELinux is not installed": {
			programs: programs("getenforce", "getsebool", "setsebool", "semanage"), lacks: "se",
		},
		"semanage is not installed":  {programs: programs("semanage"), lacks: "semanage"},
		"firewalld is not installed": {programs: programs("firewall-cmd"), lacks: "firewall"},
		"firewalld does not run": {
			programs: programs(), change: map[string]string{"firewall-cmd": "exit 252"}, lacks: "firewall",
		},
		"the policy has no booleans": {
			programs: programs(), change: map[string]string{"getsebool": "exit 1"}, lacks: "setsebool",
		},
		"a boolean cannot be changed": {
			programs: programs(), change: map[string]string{"setsebool": "exit 1"}, lacks: "setsebool", fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for program, text := range test.change {
				test.programs[program] = text
			}

			changes, output, err := newNode(t, test.programs).run(t, script)
			if (err != nil) != test.fails {
				t.Errorf("got %v: %s", err, output)
			}

			check.Lacks(t, "changes", strings.Join(changes, "\n"), test.lacks)

			// The script must make all other changes.
			if name != "nothing is installed" && len(changes) == 0 {
				t.Errorf("nothing is changed: %s", output)
			}
		})
	}
}

// TestTheSystemAllowsServicesBeforeTheyStart checks that the unit runs before each unit that needs it.
func TestTheSystemAllowsServicesBeforeTheyStart(t *testing.T) {
	for name, services := range map[string]*Services{
		"haproxy":  served(HAProxy, nil),
		"nginx":    served(Nginx, nil),
		"kube-vip": served(NoLoadBalancer, func(s *Services) { s.API.KubeVIPImage = "kube-vip" }),
		"a worker with names": {
			Interface: "enp1s0", Self: netip.MustParseAddr("10.20.30.7"), DNS: &DNS{Domain: "a.example.com"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			units := services.buildUnits()
			check.Equal(t, "the first unit", units[0].Name, "capolvm-allow.service")
			check.Contains(t, "unit", units[0].Contents, "ExecStart=/bin/bash /etc/capolvm/allow.sh\n")
			check.Contains(t, "unit", units[0].Contents, "After=firewalld.service\n")
			_, rest, _ := strings.Cut(units[0].Contents, "\nBefore=")
			before, _, _ := strings.Cut(rest, "\n")
			check.Contains(t, "before", before, "kubelet.service")

			for _, unit := range units[1:] {
				if strings.HasSuffix(unit.Name, ".service") {
					check.Contains(t, "before", before, unit.Name)
				}
			}

			var script string

			for _, file := range services.buildFiles(false) {
				if file.Path == "/etc/capolvm/allow.sh" {
					script = file.Content
				}
			}

			check.Equal(t, "script", script, services.buildAllowed().RenderScript())
		})
	}

	check.Length(t, "units of a node without services", (*Services)(nil).buildUnits(), 0)
}
