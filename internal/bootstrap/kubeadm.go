package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// kubeadmPrepare is the script that runs before kubeadm, for Ignition.
	kubeadmPrepare = "/etc/capolvm/prepare-kubeadm.sh"
	// vmUUIDInKubeadm is the placeholder for the VM's UUID in kubeadm's configuration.
	vmUUIDInKubeadm = "__OLVM_VM_UUID__"
)

// kubeadmFiles are the paths at which the kubeadm bootstrap provider writes kubeadm's configuration: two with
// cloud-init, one with Ignition.
var kubeadmFiles = []string{"/run/kubeadm/kubeadm.yaml", "/run/kubeadm/kubeadm-join-config.yaml", "/etc/kubeadm.yml"}

func isKubeadmFile(path string) bool { return slices.Contains(kubeadmFiles, path) }

// kubeadmEdit is the result of editing kubeadm's configuration.
type kubeadmEdit struct {
	text string
	// changed reports whether anything was changed. needsUUID reports whether a command must insert the VM's UUID at
	// boot. init reports whether the node initialises its cluster.
	changed, needsUUID, init bool
	// version is the version of Kubernetes in the configuration. "" leaves the choice to kubeadm.
	version string
}

// hasSuperAdmin reports whether only super-admin.conf has administrator rights while kubeadm initialises the cluster.
// This is the case since Kubernetes 1.29.
func (e *kubeadmEdit) hasSuperAdmin() bool {
	asked, err := version.ParseGeneric(e.version)
	return e.init && (err != nil || asked.AtLeast(version.MajorMinor(1, 29)))
}

// editKubeadm adds the kubelet's arguments to the node registration in kubeadm's configuration. Existing arguments take
// precedence.
func editKubeadm(config string, guest Guest) (kubeadmEdit, error) {
	out := kubeadmEdit{text: config}
	documents, err := parseMappings(config)
	if err != nil {
		return out, err
	}

	for _, root := range documents {
		if err := out.editDocument(root, guest); err != nil {
			return out, err
		}
	}

	if !out.changed {
		return out, nil
	}

	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)

	for _, document := range documents {
		if err := encoder.Encode(document); err != nil {
			return out, fmt.Errorf("failed to encode it: %w", err)
		}
	}

	out.text = text.String()

	return out, nil
}

// parseMappings parses the YAML documents of a text. It returns only mappings.
func parseMappings(text string) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var out []*yaml.Node

	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, nil
		}

		if err != nil {
			return nil, fmt.Errorf("it is not YAML: %w", err)
		}

		if len(document.Content) == 1 && document.Content[0].Kind == yaml.MappingNode {
			out = append(out, document.Content[0])
		}
	}
}

// editDocument edits one document of kubeadm's configuration.
func (e *kubeadmEdit) editDocument(root *yaml.Node, guest Guest) error {
	kind := findValue(root, "kind")
	if kind == nil {
		return nil
	}

	switch kind.Value {
	case "ClusterConfiguration":
		if asked := findValue(root, "kubernetesVersion"); asked != nil {
			e.version = asked.Value
		}

		return checkNames(root, guest.Services.serverNames())
	case "InitConfiguration", "JoinConfiguration":
	default:
		return nil
	}

	e.init = e.init || kind.Value == "InitConfiguration"
	if port := guest.Services.getBindPort(); port != 0 {
		changed, err := setBindPort(root, kind.Value, port, guest.Services.API.LoadBalancer)
		if err != nil {
			return err
		}

		e.changed = e.changed || changed
	}

	args, err := ensureArguments(root)
	if err != nil {
		return err
	}

	if setArgument(args, "provider-id", ProviderIDPrefix+vmUUIDInKubeadm) {
		e.changed, e.needsUUID = true, true
	}

	if len(guest.NodeIPs) > 0 && setArgument(args, "node-ip", joinAddresses(guest.NodeIPs, ",")) {
		e.changed = true
	}

	return nil
}

// checkNames returns an error for a name or an address that the API server's certificate lacks. It does not add the
// name, because Cluster API reads the names for later machines only from the KubeadmControlPlane.
func checkNames(root *yaml.Node, names []string) error {
	given := findValue(findValue(root, "apiServer"), "certSANs")
	for _, name := range names {
		if given == nil ||
			!slices.ContainsFunc(given.Content, func(n *yaml.Node) bool {
				return n.Value == name ||
					isSameAddress(n.Value, name)
			}) {
			return fmt.Errorf(
				"the API server's certificate would lack %s, which controlPlaneServices gives it; add it to "+
					"spec.kubeadmConfigSpec.clusterConfiguration.apiServer.certSANs of the KubeadmControlPlane",
				name,
			)
		}
	}

	return nil
}

func isSameAddress(one, other string) bool {
	a, err := netip.ParseAddr(one)
	b, failed := netip.ParseAddr(other)
	return err == nil && failed == nil && a == b
}

// kubeadmBindPort is the API server's default port.
const kubeadmBindPort = 6443

// setBindPort sets the port of the node's API server if the node has one.
func setBindPort(root *yaml.Node, kind string, port int32, balancer LoadBalancer) (bool, error) {
	if kind == "JoinConfiguration" {
		if root = findValue(root, "controlPlane"); root == nil || root.Kind != yaml.MappingNode {
			return false, nil
		}
	}

	there, wanted := findValue(findValue(root, "localAPIEndpoint"), "bindPort"), strconv.Itoa(int(port))
	if there == nil || there.Value == "0" {
		if port == kubeadmBindPort {
			return false, nil
		}

		endpoint := ensureValue(root, "localAPIEndpoint", yaml.MappingNode)
		if there == nil {
			there = &yaml.Node{}
			endpoint.Content = append(endpoint.Content, newTextNode("bindPort"), there)
		}

		*there = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: wanted}

		return true, nil
	}

	if there.Value == wanted {
		return false, nil
	}

	if balancer == NoLoadBalancer {
		return false, fmt.Errorf(
			"localAPIEndpoint.bindPort is %s, and without a load balancer API servers are at port %s of the control "+
				"plane endpoint; remove it, or set controlPlaneServices.loadBalancerProvider",
			there.Value,
			wanted,
		)
	}

	return false, fmt.Errorf(
		"localAPIEndpoint.bindPort is %s, and the load balancer of controlPlaneServices looks for API servers "+
			"at port %s; remove it, or set controlPlaneServices.apiServerPort to it",
		there.Value,
		wanted,
	)
}

// mappedArguments are the versions of kubeadm's configuration with extra arguments as a mapping. Kubernetes up to 1.30
// reads no newer versions.
var mappedArguments = []string{"kubeadm.k8s.io/v1beta1", "kubeadm.k8s.io/v1beta2", "kubeadm.k8s.io/v1beta3"}

// ensureArguments returns the arguments of a node's kubelet, in the form that the version of the document requires.
// kubeadm rejects the other form.
func ensureArguments(root *yaml.Node) (*yaml.Node, error) {
	shapes := map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list of name and value"}
	wanted, apiVersion := yaml.SequenceNode, "the newest apiVersion"
	if api := findValue(root, "apiVersion"); api != nil {
		apiVersion = api.Value
	}

	if slices.Contains(mappedArguments, apiVersion) {
		wanted = yaml.MappingNode
	}

	registration := findValue(root, "nodeRegistration")
	if registration != nil && registration.Kind != yaml.MappingNode && registration.Tag != "!!null" {
		return nil, errors.New("nodeRegistration is no mapping")
	}

	registration = ensureValue(root, "nodeRegistration", yaml.MappingNode)
	there := findValue(registration, "kubeletExtraArgs")
	if there != nil && there.Kind != wanted && there.Tag != "!!null" {
		return nil, fmt.Errorf("nodeRegistration.kubeletExtraArgs is not %s, which %s asks for; write it so, or "+
			"change apiVersion", shapes[wanted], apiVersion)
	}

	return ensureValue(registration, "kubeletExtraArgs", wanted), nil
}

// setArgument adds a kubelet argument unless it already exists.
func setArgument(args *yaml.Node, name, argument string) bool {
	if args.Kind == yaml.MappingNode {
		if findValue(args, name) != nil {
			return false
		}

		args.Content = append(args.Content, newTextNode(name), newTextNode(argument))

		return true
	}

	for _, arg := range args.Content {
		if n := findValue(arg, "name"); n != nil && n.Value == name {
			return false
		}
	}

	args.Content = append(args.Content, newMapping("name", name, "value", argument))

	return true
}

// insertUUIDCommand returns a command that inserts the VM's UUID into kubeadm's configuration.
func insertUUIDCommand(path string) string {
	return fmt.Sprintf(`sed -i "s/%s/$(tr '[:upper:]' '[:lower:]' < /sys/class/dmi/id/product_uuid)/g" %s`,
		vmUUIDInKubeadm, path)
}

// joinAddresses joins addresses with a separator.
func joinAddresses(addresses []netip.Addr, separator string) string {
	var list []string
	for _, address := range addresses {
		list = append(list, address.String())
	}

	return strings.Join(list, separator)
}
