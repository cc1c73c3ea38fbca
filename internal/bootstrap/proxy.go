package bootstrap

import (
	"fmt"
	"slices"
	"strings"
)

// proxiedServices are the services of a node that open connections. An image has one of the two container runtimes.
var proxiedServices = []string{"containerd.service", "crio.service", "kubelet.service"}

// updatingServices pull the operating system from a registry, in images of OCK.
var updatingServices = []string{"ocne-update.service", "rpm-ostreed.service"}

// buildFiles returns drop-ins for the services, and for units that pull images themselves. Without a proxy, it returns
// none.
func (p *Proxy) buildFiles(pulling []string) []File {
	if p == nil || p.HTTP == "" && p.HTTPS == "" {
		return nil
	}

	var lines strings.Builder
	lines.WriteString("[Service]\n")

	for _, setting := range [][2]string{
		{"HTTP_PROXY", p.HTTP},
		{"HTTPS_PROXY", p.HTTPS},
		{"NO_PROXY", strings.Join(p.NoProxy, ",")},
	} {
		if setting[1] == "" {
			continue
		}

		for _, name := range []string{setting[0], strings.ToLower(setting[0])} {
			fmt.Fprintf(&lines, "Environment=\"%s=%s\"\n", name, escapeUnit(setting[1]))
		}
	}

	var out []File
	for _, service := range slices.Concat(proxiedServices, pulling) {
		// A URL may contain a password.
		out = append(out, File{
			Path:    fmt.Sprintf("/etc/systemd/system/%s.d/10-capolvm-proxy.conf", service),
			Content: lines.String(),
			Mode:    0o600,
		})
	}

	return out
}

// escapeUnit escapes systemd's special characters within quotes.
func escapeUnit(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "\n", "").Replace(value)
}
