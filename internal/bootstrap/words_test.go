package bootstrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// oldWords are the directives that the oldest versions document: haproxy 1.8, keepalived 2.0 and nginx 1.14. Installed
// programs also accept newer directives, so they prove nothing. A directive has a second word if the versions differ in
// it.
var oldWords = map[string][]string{
	"haproxy.cfg": {
		"global", "defaults", "frontend", "backend", "listen", "log /dev/log", "log global", "user", "group", "maxconn",
		"hard-stop-after", "mode tcp", "mode http", "option dontlognull", "option clitcpka", "option srvtcpka",
		"option redispatch", "option httpchk", "option tcp-check", "timeout connect", "timeout client",
		"timeout server",
		"timeout check", "bind", "default_backend", "balance leastconn", "http-check expect", "default-server",
		"server",
		"stats enable", "stats uri", "stats show-node",
	},
	"keepalived.conf": {
		"global_defs", "router_id", "enable_script_security", "script_user", "vrrp_garp_master_refresh", "vrrp_script",
		"script", "interval", "timeout", "fall", "rise", "vrrp_instance", "state", "interface", "virtual_router_id",
		"priority", "advert_int", "nopreempt", "unicast_src_ip", "unicast_peer", "virtual_ipaddress",
		"virtual_ipaddress_excluded", "track_script",
		// Items tracked by instances, and addresses with their devices.
		"api", "ingress", "balancer", "",
	},
	"nginx.conf": {
		"include", "worker_processes", "pid", "error_log", "events", "worker_connections", "stream", "upstream",
		"least_conn", "server", "listen", "proxy_pass", "proxy_connect_timeout", "proxy_next_upstream", "proxy_timeout",
	},
}

// oldBindOptions are the options after an address that haproxy 1.8 knows and the configurations use.
var oldBindOptions = []string{"v6only"}

// withoutActions removes the actions of templates.
func withoutActions(line string) string {
	for {
		before, rest, found := strings.Cut(line, "{{")
		if !found {
			return line
		}

		_, after, _ := strings.Cut(rest, "}}")
		line = before + after
	}
}

// TestTheOldestProgramsKnowEachWordOfTheirConfiguration covers nodes, and VMs with load balancers.
func TestTheOldestProgramsKnowEachWordOfTheirConfiguration(t *testing.T) {
	t.Parallel()

	looked := 0

	for _, folder := range []string{"files", "../support/files"} {
		for name, known := range oldWords {
			content, err := os.ReadFile(filepath.Join(folder, name))
			if os.IsNotExist(err) {
				continue
			}

			check.Error(t, err, "")

			looked++

			for line := range strings.Lines(string(content)) {
				words := strings.Fields(strings.TrimRight(strings.TrimSpace(withoutActions(line)), ";{} "))
				if len(words) == 0 || words[0][0] == '#' || words[0][0] == '@' {
					continue
				}

				first := words[0]
				two := strings.Join(words[:min(2, len(words))], " ")
				address := strings.ContainsAny(first, "/") // from a template without its values
				if !address && !slices.Contains(known, first) && !slices.Contains(known, two) {
					t.Errorf("%s/%s: the oldest version does not know %q", folder, name, strings.TrimSpace(line))
				}

				if name == "haproxy.cfg" && first == "bind" && len(words) > 2 && !slices.Contains(oldBindOptions, words[2]) {
					t.Errorf("%s/%s: haproxy 1.8 does not know %q", folder, name, words[2])
				}
			}
		}
	}

	check.Equal(t, "files", looked, 5)
}
