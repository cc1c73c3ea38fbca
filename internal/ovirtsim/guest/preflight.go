package guest

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

const (
	kubernetesFolder = "/etc/kubernetes/"
	manifestsFolder  = kubernetesFolder + "manifests/"
	adminConf        = kubernetesFolder + "admin.conf"
	superAdminConf   = kubernetesFolder + "super-admin.conf"
)

// These variables hold the configuration files of load balancers for API servers, and the patterns of the ports in
// them. Our templates stand for the files that each boot generates from them.
var (
	keepalivedConfigs = []string{"/etc/keepalived/keepalived.conf", "/etc/capolvm/keepalived.conf"}
	balancers         = []balancer{
		{[]string{haproxyService}, []string{"/etc/haproxy/haproxy.cfg", "/etc/capolvm/haproxy.cfg"},
			regexp.MustCompile(`(?m)^\s*bind\s+\S*:([0-9]+)\b`)},
		{[]string{"nginx.service", nginxService}, []string{"/etc/nginx/nginx.conf", "/etc/capolvm/nginx.conf"},
			regexp.MustCompile(`(?m)^\s*listen\s+(?:\S*:)?([0-9]+)\b`)},
	}
	checkScript = regexp.MustCompile(`(?m)^\s*(?:script|notify\w*)\s+"?([^"\n]+)"?\s*$`)
	proxySet    = regexp.MustCompile(`(?i)\bHTTPS?_PROXY=.`)
	pulls       = regexp.MustCompile(`(?m)^Exec\w+=.*\bpodman (run|pull)\b`)
)

// balancer is a program that distributes connections. Its units identify it.
type balancer struct {
	units, configs []string
	listens        *regexp.Regexp
}

// runPreflightChecks performs kubeadm's checks before and during the creation of a node. They cover the runtime, the
// kubelet, and the node's part in serving the API server at the endpoint.
func (s *system) runPreflightChecks(n *node, machine api.GuestVM) error {
	if s.isRunning(ocneService) {
		return errors.New("kubeadm: [ERROR FileAvailable--etc-kubernetes-kubelet.conf]: " +
			"/etc/kubernetes/kubelet.conf already exists: ocne.service, which the image enables, has made a cluster " +
			"of its own")
	}

	runtime := s.runtimeUnit(n.criSocket)
	if !s.isRunning(runtime) {
		return fmt.Errorf("kubeadm: [ERROR CRI]: could not connect to the container runtime %q: %s does not run",
			n.criSocket, runtime)
	}

	for _, device := range machine.Interfaces {
		if err := s.checkRegistryAccess(device.Proxy, runtime); err != nil {
			return err
		}
	}

	if !n.controlPlane {
		return nil
	}

	return s.checkEndpointServed(n)
}

// runtimeUnit returns the unit of the container runtime with the given socket. Without a socket, it returns the unit of
// the running runtime.
func (s *system) runtimeUnit(socket string) string {
	if strings.Contains(socket, "crio") || socket == "" && !s.isRunning(containerdService) {
		return crioService
	}

	return containerdService
}

// findDisabledUnit returns a unit that the node needs but that does not start at later boots, or "".
func (s *system) findDisabledUnit(n *node) string {
	for _, name := range []string{s.runtimeUnit(n.criSocket), kubeletService} { // kubeadm starts the kubelet itself
		if !s.isEnabled(name) {
			return name
		}
	}

	for _, name := range []string{keepalivedService, haproxyService, nginxService} {
		if s.isRunning(name) && !s.isEnabled(name) {
			return name
		}
	}

	return ""
}

// checkRegistryAccess rejects units that pull images without the proxy, if registries are reachable only through the
// proxy.
func (s *system) checkRegistryAccess(proxy, runtime string) error {
	if proxy == "" {
		return nil
	}

	pulling := []string{runtime}

	for name := range s.payloadUnits() {
		if s.isRunning(name) && pulls.MatchString(s.unitOf(name).fullText()) {
			pulling = append(pulling, name)
		}
	}

	slices.Sort(pulling)

	for _, name := range pulling {
		if !proxySet.MatchString(s.unitOf(name).fullText()) {
			return fmt.Errorf("%s: failed to pull an image: i/o timeout: the only way to registries is the proxy %s, "+
				"of which the unit is not told", name, proxy)
		}
	}

	return nil
}

// payloadUnits returns the names of the payload's units.
func (s *system) payloadUnits() map[string]bool {
	out := map[string]bool{}
	for name := range s.units {
		out[name] = true
	}

	for path := range s.files {
		if name, ok := strings.CutPrefix(path, unitFolder); ok && !strings.Contains(name, "/") {
			out[name] = true
		}
	}

	return out
}

// checkEndpointServed rejects a control plane node that must serve the endpoint but does not. If a node has no
// configuration for the endpoint, the load balancer is elsewhere.
func (s *system) checkEndpointServed(n *node) error {
	host, text, err := net.SplitHostPort(n.endpoint)
	if err != nil {
		return fmt.Errorf("kubeadm: the control plane endpoint %q is not host:port: %w", n.endpoint, err)
	}

	byKubeVIP, err := s.startStaticPods(n)
	if err != nil {
		return err
	}

	byKeepalived, err := s.startKeepalived(host)
	if err != nil || !byKubeVIP && !byKeepalived {
		return err
	}

	ports := s.listeningPorts()
	own := strconv.Itoa(int(n.bindPort))
	if slices.Contains(ports, own) {
		return fmt.Errorf("kubeadm: [ERROR Port-%s]: Port %s is in use by the load balancer of this node", own, own)
	}

	if text != own && !slices.Contains(ports, text) {
		return fmt.Errorf("kubeadm: timed out waiting for the control plane at %s: the API server of this node "+
			"listens at port %s", n.endpoint, own)
	}

	return nil
}

// listeningPorts returns the ports on which running load balancers listen.
func (s *system) listeningPorts() []string {
	var out []string

	for _, b := range balancers {
		for _, config := range b.configs {
			written, there := s.files[config]
			if !there || !slices.ContainsFunc(b.units, s.isRunning) {
				continue
			}

			for _, match := range b.listens.FindAllStringSubmatch(written.content, -1) {
				out = append(out, match[1])
			}
		}
	}

	return out
}

// startKeepalived reports whether keepalived holds an address. It returns an error if keepalived is configured for the
// address but cannot hold it.
func (s *system) startKeepalived(address string) (bool, error) {
	for _, path := range keepalivedConfigs {
		config, there := s.files[path]
		if !there || !strings.Contains(config.content, address+"/") && !strings.Contains(config.content, address+" ") {
			continue
		}

		if !s.isRunning(keepalivedService) {
			return true, fmt.Errorf("nobody has the endpoint's address %s: keepalived.service does not run", address)
		}

		if config.mode&0o111 != 0 {
			return true, fmt.Errorf(
				"keepalived: Configuration file '%s' is not a regular non-executable file - skipping", path)
		}

		for _, match := range checkScript.FindAllStringSubmatch(config.content, -1) {
			if err := s.checkScriptSafe(match[1]); err != nil {
				return true, err
			}
		}

		return true, nil
	}

	return false, nil
}

// checkScriptSafe rejects a command that keepalived disables because of enable_script_security.
func (s *system) checkScriptSafe(command string) error {
	words := strings.Fields(command)
	for i, word := range words {
		script, there := s.files[word]
		if !there {
			continue
		}

		switch {
		case i == 0 && script.mode&0o111 == 0:
			return fmt.Errorf("keepalived: WARNING - script '%s' is not executable for uid:gid 0:0 - disabling", word)
		case script.owner != root || script.mode&0o022 != 0:
			return fmt.Errorf("keepalived: Unsafe permissions found for script '%s' - disabling: it is owned by %s "+
				"and its mode is %04o", word, script.owner, script.mode)
		}
	}

	return nil
}

// startStaticPods starts the manifests of the payload, like the kubelet. It reports whether kube-vip is among them.
func (s *system) startStaticPods(n *node) (kubeVIP bool, err error) {
	for path, manifest := range s.files {
		if !strings.HasPrefix(path, manifestsFolder) {
			continue
		}

		var pod corev1.Pod
		if err := yaml.Unmarshal([]byte(manifest.content), &pod); err != nil {
			return false, fmt.Errorf("kubelet: could not process manifest file %s: %w", path, err)
		}

		for _, volume := range pod.Spec.Volumes {
			if err := s.checkHostFile(n, volume); err != nil {
				return false, err
			}
		}

		for _, container := range pod.Spec.Containers {
			kubeVIP = kubeVIP || strings.Contains(container.Image, "kube-vip") || container.Name == "kube-vip"
		}
	}

	return kubeVIP, nil
}

// checkHostFile rejects a volume if its file is missing on the host. It also rejects admin.conf while this file grants
// no rights.
func (s *system) checkHostFile(n *node, volume corev1.Volume) error {
	host := volume.HostPath
	if host == nil || host.Type == nil || *host.Type != corev1.HostPathFile {
		return nil
	}

	kubeadm, err := version.ParseGeneric(n.version)
	if err != nil {
		return err
	}

	separate := n.init && kubeadm.AtLeast(version.MajorMinor(1, 29))
	_, written := s.files[host.Path]
	if !written && host.Path != adminConf && (host.Path != superAdminConf || !separate) {
		return fmt.Errorf(
			"kubelet: MountVolume.SetUp failed for volume %q : hostPath type check failed: %s is not a file",
			volume.Name, host.Path)
	}

	if separate && host.Path == adminConf {
		return fmt.Errorf("kubeadm: timed out waiting for the control plane: %s has no rights until kubeadm init has "+
			"given them, and the static pod waits for it", adminConf)
	}

	return nil
}
