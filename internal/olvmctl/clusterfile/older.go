package clusterfile

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v3"
)

// olderOLVM are the settings of OLVM in the format of ocne's developer releases. Addresses come from an IP profile of
// the cluster. It begins at an address, and ends at the end of its subnet.
type olderOLVM struct {
	NetworkInterface    string       `yaml:"networkInterface"`
	Namespace           string       `yaml:"namespace"`
	Cluster             olderCluster `yaml:"olvmCluster"`
	ControlPlaneMachine olderMachine `yaml:"controlPlaneMachine"`
	WorkerMachine       olderMachine `yaml:"workerMachine"`
	Proxy               yaml.Node    `yaml:"proxy"`
	SelfManaged         bool         `yaml:"selfManaged"`
}

type olderCluster struct {
	DatacenterName string       `yaml:"ovirtDatacenterName"`
	IPProfile      olderProfile `yaml:"olvmVmIpProfile"`
	API            olderAPI     `yaml:"ovirtAPI"`
	OCK            OCK          `yaml:"ovirtOCK"`
}

type olderProfile struct {
	Name              string `yaml:"name"`
	Gateway           string `yaml:"gateway"`
	Netmask           string `yaml:"netmask"`
	Device            string `yaml:"device"`
	StartingIPAddress string `yaml:"startingIpAddress"`
}

type olderAPI struct {
	ServerURL             string `yaml:"serverURL"`
	ServerCA              string `yaml:"serverCA"`
	ServerCAPath          string `yaml:"serverCAPath"`
	InsecureSkipTLSVerify bool   `yaml:"insecureSkipTLSVerify"`
}

type olderMachine struct {
	Memory  string `yaml:"memory"`
	Network struct {
		InterfaceType   string `yaml:"interfaceType"`
		NetworkName     string `yaml:"networkName"`
		VNICName        string `yaml:"vnicName"`
		VNICProfileName string `yaml:"vnicProfileName"`
	} `yaml:"network"`
	ClusterName    string `yaml:"ovirtClusterName"`
	IPProfileName  string `yaml:"olvmVmIpProfileName"`
	VMTemplateName string `yaml:"vmTemplateName"`
}

// isOlder reports whether settings of OLVM have the older format.
func isOlder(olvm *yaml.Node) bool {
	return nodeAt(olvm, "olvmCluster").Kind != 0 || nodeAt(olvm, "networkInterface").Kind != 0 ||
		nodeAt(olvm, "controlPlaneMachine", "ovirtClusterName").Kind != 0 ||
		nodeAt(olvm, "workerMachine", "ovirtClusterName").Kind != 0
}

// convertOlder converts settings of OLVM from the older format to the current one.
func convertOlder(olvm *yaml.Node) (*yaml.Node, error) {
	var older olderOLVM
	if err := olvm.Decode(&older); err != nil {
		return nil, err
	}

	out := OLVM{
		Namespace:      older.Namespace,
		DatacenterName: older.Cluster.DatacenterName,
		OCK:            older.Cluster.OCK,
		SelfManaged:    older.SelfManaged,
		OvirtAPIServer: APIServer{
			ServerURL:             older.Cluster.API.ServerURL,
			ServerCA:              older.Cluster.API.ServerCA,
			ServerCAPath:          older.Cluster.API.ServerCAPath,
			InsecureSkipTLSVerify: older.Cluster.API.InsecureSkipTLSVerify,
		},
	}
	if older.Proxy.Kind != 0 {
		if err := older.Proxy.Decode(&out.Proxy); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}

	for _, each := range []struct {
		name string
		from olderMachine
		to   *Machine
	}{
		{"controlPlaneMachine", older.ControlPlaneMachine, &out.ControlPlaneMachine},
		{"workerMachine", older.WorkerMachine, &out.WorkerMachine},
	} {
		if err := each.from.convertMachine(each.name, older, each.to); err != nil {
			return nil, err
		}
	}

	var node yaml.Node
	if err := node.Encode(out); err != nil {
		return nil, err
	}

	pruneEmpty(&node)

	return &node, nil
}

// convertMachine converts the settings of the machines of one role to the current format. name is the key of the
// machines.
func (from olderMachine) convertMachine(name string, older olderOLVM, to *Machine) error {
	profile := older.Cluster.IPProfile
	if from.IPProfileName != "" && from.IPProfileName != profile.Name {
		return fmt.Errorf("%s.olvmVmIpProfileName: no such profile %q; olvmCluster.olvmVmIpProfile is %q",
			name, from.IPProfileName, profile.Name)
	}

	to.OvirtClusterName, to.VMTemplateName = from.ClusterName, from.VMTemplateName
	to.Network = Network{
		NetworkName:     from.Network.NetworkName,
		VNICName:        from.Network.VNICName,
		VNICProfileName: from.Network.VNICProfileName,
	}
	to.VirtualMachine.Memory = from.Memory
	network := &to.VirtualMachine.Network
	network.Gateway = profile.Gateway
	network.InterfaceType = from.Network.InterfaceType
	network.Interface = cmp.Or(profile.Device, older.NetworkInterface)
	if profile.StartingIPAddress == "" && profile.Netmask == "" {
		return nil // the validation reports the missing keys
	}

	start, err := netip.ParseAddr(profile.StartingIPAddress)
	if err != nil {
		return fmt.Errorf("olvmCluster.olvmVmIpProfile.startingIpAddress: invalid IP address %q",
			profile.StartingIPAddress)
	}

	mask := net.ParseIP(profile.Netmask).To4()
	ones, bits := net.IPMask(mask).Size()
	if mask == nil || bits == 0 {
		return fmt.Errorf("olvmCluster.olvmVmIpProfile.netmask: invalid netmask %q; use for example 255.255.255.0",
			profile.Netmask)
	}

	subnet := netip.PrefixFrom(start, ones)
	network.IPv4.Subnet, network.IPv4.IPAddresses = subnet.Masked().String(), subnet.String()

	return nil
}

// pruneEmpty removes empty settings, so defaults apply to them.
func pruneEmpty(node *yaml.Node) {
	var kept []*yaml.Node

	for i := 0; i+1 < len(node.Content); i += 2 {
		value := node.Content[i+1]
		if value.Kind == yaml.MappingNode {
			pruneEmpty(value)
		}

		empty := value.Kind == yaml.MappingNode && len(value.Content) == 0 ||
			value.Kind == yaml.ScalarNode &&
				(value.Value == "" || value.Value == "0" || value.Value == "false" || value.Tag == "!!null")
		if !empty {
			kept = append(kept, node.Content[i], value)
		}
	}

	node.Content = kept
}

// olderPaths maps current paths to paths in the older format. The longest matching path applies.
var olderPaths = []struct{ now, then string }{
	{"providers.olvm.controlPlaneMachine.virtualMachine.network.ipv4", "providers.olvm.olvmCluster.olvmVmIpProfile"},
	{"providers.olvm.workerMachine.virtualMachine.network.ipv4", "providers.olvm.olvmCluster.olvmVmIpProfile"},
	{
		"providers.olvm.controlPlaneMachine.virtualMachine.network.gateway",
		"providers.olvm.olvmCluster.olvmVmIpProfile.gateway",
	},
	{
		"providers.olvm.workerMachine.virtualMachine.network.gateway",
		"providers.olvm.olvmCluster.olvmVmIpProfile.gateway",
	},
	{"providers.olvm.controlPlaneMachine.virtualMachine.memory", "providers.olvm.controlPlaneMachine.memory"},
	{"providers.olvm.workerMachine.virtualMachine.memory", "providers.olvm.workerMachine.memory"},
	{"providers.olvm.controlPlaneMachine.olvmOvirtClusterName", "providers.olvm.controlPlaneMachine.ovirtClusterName"},
	{"providers.olvm.workerMachine.olvmOvirtClusterName", "providers.olvm.workerMachine.ovirtClusterName"},
	{"providers.olvm.controlPlaneMachine.olvmNetwork", "providers.olvm.controlPlaneMachine.network"},
	{"providers.olvm.workerMachine.olvmNetwork", "providers.olvm.workerMachine.network"},
	{"providers.olvm.olvmOvirtAPIServer", "providers.olvm.olvmCluster.ovirtAPI"},
	{"providers.olvm.olvmDatacenterName", "providers.olvm.olvmCluster.ovirtDatacenterName"},
	{"providers.olvm.olvmOCK", "providers.olvm.olvmCluster.ovirtOCK"},
}

func olderPath(path string) string {
	for _, p := range olderPaths {
		if path == p.now || strings.HasPrefix(path, p.now+".") {
			rest := strings.TrimPrefix(path, p.now)
			if strings.HasSuffix(p.now, ".ipv4") {
				rest = ""
			}

			return p.then + rest
		}
	}

	return path
}
