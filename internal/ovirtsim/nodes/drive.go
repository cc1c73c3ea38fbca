package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

// member is a member of a JSON object.
type member struct {
	name  string
	value any
}

// object is a JSON object whose members have the order of an engine's output.
type object []member

// addMember adds a member with a text, unless the text is empty.
func (o *object) addMember(name, value string) {
	if value != "" {
		*o = append(*o, member{name, value})
	}
}

// encodeValue encodes a value like an engine: objects on several lines, lists on one line.
func encodeValue(value any, indent string) string {
	const step = "  "
	var parts []string

	switch v := value.(type) {
	case object:
		for _, m := range v {
			parts = append(parts, indent+step+encodeValue(m.name, "")+" : "+encodeValue(m.value, indent+step))
		}

		return "{\n" + strings.Join(parts, ",\n") + "\n" + indent + "}"
	case []any:
		for _, entry := range v {
			parts = append(parts, encodeValue(entry, indent))
		}

		return "[ " + strings.Join(parts, ", ") + " ]"
	}

	out, _ := json.Marshal(value) // the value is a string

	return string(out)
}

// driveFiles returns the files of a VM's config drive by path. The files equal those of a recorded engine 4.5.8 byte
// for byte. No recording shows DNS servers and search domains: their place comes from the engine's sources. It omits
// passwords, users, time zones and SSH keys of an initialization.
func driveFiles(vm api.GuestVM) map[string]string {
	const latest = "openstack/latest/"

	metadata := object{{"availability_zone", "nova"}}
	metadata.addMember("hostname", vm.HostName)
	metadata = append(metadata, member{"launch_index", "0"}, member{"meta", object{
		{"role", "server"}, {"dsmode", "local"}, {"essential", "false"},
	}})
	metadata.addMember("name", vm.HostName)
	metadata.addMember("uuid", vm.DriveID)

	out := map[string]string{latest + "meta_data.json": encodeValue(metadata, ""), latest + "user_data": userData(vm)}
	if network := networkData(vm); len(network) > 0 {
		out[latest+"network_data.json"] = encodeValue(network, "")
	}

	return out
}

// userData returns the user data as the engine writes it. For Ignition, this is the custom script, parsed and encoded
// again as JSON. For cloud-init, this is the engine's own document and then the custom script.
func userData(vm api.GuestVM) string {
	if vm.Ignition {
		return ignitionOutput(vm.UserData, vm.HostName)
	}

	return `#cloud-config
output:
  all: '>> /var/log/cloud-init-output.log'
disable_root: false
runcmd:
- 'sed -i ''/^datasource_list: /d'' /etc/cloud/cloud.cfg; echo ''datasource_list:
  ["NoCloud", "ConfigDrive"]'' >> /etc/cloud/cloud.cfg'
ssh_deletekeys: false
ssh_pwauth: true
chpasswd:
  expire: false
` + vm.UserData
}

// networkData returns the NIC configurations and DNS servers, or an empty object if there are none.
func networkData(vm api.GuestVM) object {
	var (
		links, networks, services []any
		out                       object
	)

	for _, nic := range vm.NICs {
		v4 := networkConfig(vm, nic.Interface, "ipv4", nic.BootProtocol, nic.Address, nic.Netmask, nic.Gateway)
		v6 := networkConfig(
			vm, nic.Interface, "ipv6", nic.IPv6BootProtocol, nic.IPv6Address, nic.IPv6Prefix, nic.IPv6Gateway,
		)

		for _, one := range []object{v4, v6} {
			if one != nil {
				networks = append(networks, one)
			}
		}

		if v4 != nil || v6 != nil {
			links = append(links, object{{"name", nic.Interface}, {"id", nic.Interface}, {"type", "vif"}})
		}
	}

	for _, server := range vm.DNSServers {
		services = append(services, object{{"address", server}, {"type", "dns"}})
	}

	for _, list := range []struct {
		name    string
		entries []any
	}{{"links", links}, {"services", services}, {"networks", networks}} {
		if len(list.entries) > 0 {
			out = append(out, member{list.name, list.entries})
		}
	}

	return out
}

// networkConfig returns a NIC's configuration of one address family, or nil.
func networkConfig(vm api.GuestVM, name, family, protocol, address, netmask, gateway string) object {
	kind := map[string]string{"dhcp": family + "_dhcp", "static": family}[protocol]
	if kind == "" {
		return nil
	}

	var out object
	if protocol == "static" {
		out.addMember("netmask", netmask)
	}

	if domains := toAnySlice(vm.SearchDomains); len(domains) > 0 {
		out = append(out, member{"dns_search", domains})
	}

	out.addMember("link", name)
	out.addMember("id", name)
	if protocol == "static" {
		out.addMember("ip_address", address)
	}

	out.addMember("type", kind)
	if protocol == "static" {
		out.addMember("gateway", gateway)
	}

	if servers := toAnySlice(vm.DNSServers); len(servers) > 0 {
		out = append(out, member{"dns_nameservers", servers})
	}

	return out
}

func toAnySlice(texts []string) []any {
	var out []any
	for _, text := range texts {
		out = append(out, text)
	}

	return out
}

// WriteDrive writes the drive of a run into a folder, and replaces an existing drive. It returns the folder, or "" for
// a run without a drive.
func WriteDrive(vm api.GuestVM, dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}

	if vm.DriveID == "" {
		return "", nil
	}

	var problems []error

	for path, content := range driveFiles(vm) {
		path = filepath.Join(dir, path)
		problems = append(problems, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600))
	}

	if err := errors.Join(problems...); err != nil {
		return "", fmt.Errorf("failed to write the config drive: %w", err)
	}

	return dir, nil
}
