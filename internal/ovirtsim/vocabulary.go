package ovirtsim

import (
	"fmt"
	"slices"
	"strconv"
)

// kind is what an element of a request holds.
type kind int

const (
	text kind = iota + 1
	number
	boolean
	structure
)

// vocabulary are the elements of the API that requests may hold. The engine has many more; those that are not here are
// accepted, have no effect, and are shown beside the request by the control API, for they may be misspelt.
var vocabulary = func() map[string]kind {
	out := map[string]kind{}
	for holds, names := range map[kind][]string{
		structure: {
			"action", "affinity_group", "affinity_groups", "affinity_label", "affinity_labels", "api", "authorized_ssh_key", "authorized_ssh_keys",
			"bios", "boot", "boot_menu", "cdrom", "cdroms", "cluster", "clusters", "console", "cpu", "cpu_profile", "cpu_tune", "custom_properties",
			"custom_property", "data_center", "data_centers", "device", "devices", "disk", "disk_attachment", "disk_attachments", "disk_profile", "disks",
			"display", "dns", "dns_servers", "event", "events", "file", "files", "graphics_console", "graphics_consoles", "high_availability", "host", "hosts",
			"hosts_rule", "image", "image_transfer", "image_transfers", "initialization", "instance_type", "instance_types", "io", "ip", "ips", "ipv6",
			"job", "jobs", "lease", "link", "mac", "memory_policy", "migration", "migration_options", "network", "networks", "next_run", "nic", "nic_configuration",
			"nic_configurations", "nics", "numa_tune_mode", "os", "parent", "placement_policy", "product_info", "property", "quota", "reported_device",
			"reported_devices", "rng_device", "scheduling_policy", "search_domains", "snapshot", "snapshots", "special_objects", "ssh", "statistic", "statistics", "step", "steps", "storage_domain",
			"storage_domains", "summary", "tag", "tags", "template", "templates", "time_zone", "topology", "usb", "user", "users", "value", "values",
			"vcpu_pin", "vcpu_pins", "version", "virtio_scsi", "vm", "vm_pool", "vm_pools", "vms", "vms_rule", "vnic_profile", "vnic_profiles", "vnic_profile_mappings", "watchdog",
		},
		number: {
			"capacity", "cores", "cpu_shares", "inactivity_timeout", "initial_size", "io_threads", "max", "monitors", "multi_queues", "provisioned_size",
			"sockets", "threads", "timeout", "version_number", "threads_per_core",
		},
		boolean: {
			"active", "activate", "all_content", "async", "ballooning", "bootable", "broken", "clone", "clone_permissions", "discard", "detach_only", "disconnect",
			"enabled", "enforcing", "exclusive", "force", "fix_layout", "delete_protected", "linked", "multi_queues_enabled", "on_boot", "optimize_cpu_settings", "pass_discard", "pause",
			"plugged", "positive", "propagate_errors", "qcow_version_downgrade", "read_only", "regenerate_ssh_keys", "restore_memory", "seal", "shallow", "shareable", "single_pci", "smartcard_enabled",
			"soundcard_enabled", "sparse", "start_paused", "stateless", "tpm_enabled", "tunnel_migration", "use_cloud_init", "use_ignition", "use_initialization", "use_latest_template_version", "use_sysprep", "volatile", "wipe_after_delete",
		},
		text: {
			"address", "affinity", "alias", "architecture", "auto_pinning_policy", "backup", "boot_protocol", "comment", "content_type", "correlation_id", "cpu_mode", "custom_cpu_model", "custom_emulated_machine",
			"custom_script", "description", "direction", "dns_search", "domain", "format", "fence_type", "fqdn", "gateway", "guaranteed", "host_name", "id", "interface", "ipv6_boot_protocol", "keyboard_layout",
			"logical_name", "memory", "mode", "model", "name", "nameservers", "netmask", "nic_names", "on_error", "phase", "policy", "priority", "protocol", "qcow_version", "reason", "root_password",
			"severity", "size", "stateless_type", "status", "storage_type", "timeout_policy", "timezone", "token", "type", "user_name", "utc_offset", "windows_license_key", "uuid", "vcpu", "cpu_set", "regexp", "key", "expiry",
		},
	} {
		for _, name := range names {
			out[name] = holds
		}
	}
	return out
}()

// sizes are numbers in some places and structures in none; they are checked apart because "max" and "memory" are also
// used with units by older clients.
var sizes = map[string]bool{"memory": true, "guaranteed": true}

// check finds the first value in a request that is not what its element holds, and the names that nobody knows.
func (e *element) check(path string) (unknown []string, err error) {
	path += "/" + e.name
	switch holds := vocabulary[e.name]; {
	case holds == 0:
		return []string{path}, nil
	case (holds == number || sizes[e.name]) && len(e.kids) == 0 && e.text != "":
		if _, err := strconv.ParseInt(e.text, 10, 64); err != nil {
			return nil, fmt.Errorf("%s is not a number: %q", path, e.text)
		}
	case holds == boolean && e.text != "true" && e.text != "false":
		return nil, fmt.Errorf("%s is neither true nor false: %q", path, e.text)
	}
	for _, kid := range e.kids {
		more, err := kid.check(path)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, more...)
	}
	return unknown, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
