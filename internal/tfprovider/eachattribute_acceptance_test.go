package tfprovider_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfchange"
)

// This file changes each attribute of each resource, once by the configuration and once by hand in the engine. For the
// manual change, a resource with a copy of the state sends a request.

// attributeCase is a resource with all its attributes.
type attributeCase struct {
	// more returns attributes missing from lostCases.
	more func(d *direct) set
	// others returns other values by attribute.
	others func(d *direct) set
	// silent are attributes without a second value, or without drift after a manual change. The values are the reasons.
	silent map[string]string
}

// These are the reasons.
const (
	writeOnly  = "it is in no state"
	oneCluster = "TestAChangeOfAVMIsSentOrNeedsReplacement has a second cluster"
)

// otherVM returns another VM as an attribute of resources on a VM.
func otherVM(d *direct) set { return set{"vm_id": d.vm("other", nil)} }

func attributeCases() map[string]attributeCase {
	out := map[string]attributeCase{}
	maps.Copy(out, attributeCasesOfVMs())
	maps.Copy(out, attributeCasesOfDisks())
	maps.Copy(out, attributeCasesOfOthers())

	return out
}

func guestNIC(address string) []set {
	return []set{{"name": "enp1s0", "ipv4": []set{{
		"address": address, "netmask": "255.255.255.0", "gateway": "10.0.0.1",
	}}}}
}

// guestOf returns the attributes for the initialization of a guest.
func guestOf(node, address, script string) set {
	return set{
		"initialization_hostname": node, "initialization_custom_script": script,
		"initialization_dns_servers": []string{address}, "initialization_search_domains": []string{node + ".example.com"},
		"initialization_nic": guestNIC(address),
	}
}

func attributeCasesOfVMs() map[string]attributeCase {
	const script = "#cloud-config\n"

	return map[string]attributeCase{
		"ovirt_vm": {
			more: func(d *direct) set {
				return with(with(d.pinned(), guestOf("node-1", "10.0.0.9", script)), set{
					"comment": "x", "description": "x", "clone": false, "cpu_cores": 1, "cpu_threads": 1, "cpu_sockets": 1,
					"cpu_mode": "host_model", "os_type": "rhel_8x64", "vm_type": "server", "huge_pages": 2048, "memory": 2 * gib,
					"maximum_memory": 8 * gib, "memory_ballooning": true, "guaranteed_memory": gib, "serial_console": true,
					"soundcard_enabled": false, "high_availability": true, "high_availability_priority": 1,
					"lease_storage_domain_id": "", "storage_error_resume_behaviour": "auto_resume", "bios_type": "q35_sea_bios",
					"custom_properties": map[string]string{"viodiskcache": "writeback"},
				})
			},
			others: func(d *direct) set {
				return with(guestOf("node-2", "10.0.0.10", "#cloud-config\n#\n"), set{
					"name": "y", "comment": "y", "description": "y", "cpu_cores": 2, "cpu_threads": 2, "cpu_sockets": 2,
					"cpu_mode": "host_passthrough", "os_type": "rhel_9x64", "vm_type": "desktop", "huge_pages": 1048576,
					"memory": 4 * gib, "maximum_memory": 16 * gib, "memory_ballooning": false, "guaranteed_memory": 2 * gib,
					"serial_console": false, "soundcard_enabled": true, "high_availability": false,
					"high_availability_priority": 50, "storage_error_resume_behaviour": "leave_paused", "bios_type": "q35_ovmf",
					"custom_properties":         map[string]string{"sap_agent": "true"},
					"placement_policy_affinity": "user_migratable", "placement_policy_host_ids": []string{d.otherHost()},
					"template_id": "00000000-0000-0000-0000-000000000000", "clone": true,
				})
			},
			silent: map[string]string{
				"cluster_id":                        oneCluster,
				"instance_type_id":                  "it excludes sizes: TestEveryAttributeOfTheReleasedProviderIsAsDocumented",
				"lease_storage_domain_id":           "it excludes other behaviours: TestAHighlyAvailableVMFromCreationToDestruction",
				"tpm_enabled":                       "it needs a firmware: TestAHighlyAvailableVMFromCreationToDestruction",
				"template_disk_attachment_override": "TestACopyIsAsItsOverrideSaysOrAsTheTemplate",
				"initialization_custom_script_wo":   writeOnly, "initialization_custom_script_wo_version": writeOnly,
			},
		},
		"ovirt_adopted_vm": {
			more: func(*direct) set { return guestOf("node-1", "10.0.0.9", script) },
			others: func(d *direct) set {
				return with(guestOf("node-2", "10.0.0.10", "#cloud-config\n#\n"), otherVM(d))
			},
			silent: map[string]string{
				"initialization_custom_script_wo": writeOnly, "initialization_custom_script_wo_version": writeOnly,
			},
		},
		"ovirt_vm_start": {
			more: func(*direct) set { return set{"force_stop": false, "use_initialization": false} },
			others: func(d *direct) set {
				return with(otherVM(d), set{"stop_behavior": "shutdown", "force_stop": true, "use_initialization": true})
			},
			silent: map[string]string{"status": "up alone is accepted: TestDriftOfEachAttributeIsChangedBack"},
		},
		"ovirt_template": {
			more:   func(*direct) set { return set{"description": "x"} },
			others: func(d *direct) set { return with(otherVM(d), set{"name": "y", "description": "y"}) },
		},
		"ovirt_vm_snapshot": {
			more:   func(*direct) set { return set{"memory": false} },
			others: func(d *direct) set { return with(otherVM(d), set{"description": "y", "memory": true}) },
		},
		"ovirt_vm_graphics_consoles": {
			others: otherVM, silent: map[string]string{"console": "no block is accepted"},
		},
		"ovirt_vm_optimize_cpu_settings": {others: otherVM},
		"ovirt_vm_cdrom": {others: func(d *direct) set {
			return with(otherVM(d), set{"disk_id": d.site.isoDisk(d.t, "second").String()})
		}},
	}
}

// otherHost returns a host without pinned VMs.
func (d *direct) otherHost() string {
	d.t.Helper()
	hosts, err := d.site.client.ListHosts(d.t.Context())
	must(d.t, err)

	return hosts[1].ID.String()
}

// otherProfile returns a vNIC profile other than $profile.
func (d *direct) otherProfile() string {
	d.t.Helper()
	dc, err := d.site.client.FindDataCenter(d.t.Context(), "Default")
	must(d.t, err)
	network, err := d.site.client.FindNetwork(d.t.Context(), dc, "ovirtmgmt")
	must(d.t, err)
	profile, err := d.site.client.FindVNICProfile(d.t.Context(), network, "ovirtmgmt")
	must(d.t, err)

	return profile.ID.String()
}

func attributeCasesOfDisks() map[string]attributeCase {
	attachment := func(d *direct, kind string) set {
		d.t.Helper()
		return set{"attachment": []set{{"disk_id": d.diskNamed("d"), "disk_interface": kind}}}
	}
	grows := map[string]string{"size": "a disk that something else has enlarged is as it was asked for"}

	return map[string]attributeCase{
		"ovirt_disk": {
			more: func(*direct) set { return set{"sparse": true} },
			others: func(d *direct) set {
				return set{
					"alias": "y", "size": 2 * gib, "format": "cow", "sparse": false,
					"storage_domain_id": d.site.otherStorage(d.t).String(),
				}
			},
			silent: grows,
		},
		"ovirt_disk_from_image": {
			more: func(d *direct) set {
				return set{"format": "raw", "sparse": true, "source_file": image(d.t, 1<<20, 0)}
			},
			others: func(d *direct) set {
				return set{
					"alias": "y", "format": "cow", "sparse": false, "source_file": image(d.t, 2<<20, 0),
					"storage_domain_id": d.site.otherStorage(d.t).String(),
				}
			},
		},
		"ovirt_disk_resize": {
			others: func(d *direct) set { return set{"disk_id": d.disk("other"), "size": 3 * gib} },
			silent: grows,
		},
		"ovirt_vm_disks_resize": {
			others: func(d *direct) set { return with(otherVM(d), set{"size": 201 * gib}) },
			silent: grows,
		},
		"ovirt_disk_attachment": {
			more: func(*direct) set { return set{"active": true, "bootable": false} },
			others: func(d *direct) set {
				return with(otherVM(d), set{"disk_id": d.disk("other"), "disk_interface": "virtio_scsi", "active": false})
			},
			silent: map[string]string{"bootable": "a VM boots from one disk: TestADiskAttachmentFromCreationToDestruction"},
		},
		"ovirt_disk_attachments": {
			more:   func(d *direct) set { return attachment(d, "virtio") },
			others: func(d *direct) set { return with(otherVM(d), attachment(d, "virtio_scsi")) },
			silent: map[string]string{
				"detach_unmanaged": "TestDiskAttachmentsKeepWhatIsManaged",
				"remove_unmanaged": "TestDiskAttachmentsKeepWhatIsManaged",
			},
		},
	}
}

func attributeCasesOfOthers() map[string]attributeCase {
	label := func(d *direct) string { return d.make("ovirt_affinity_label", set{"name": "other"}).text("id") }
	group := func(d *direct) string {
		return d.make("ovirt_affinity_group", set{"name": "other", "cluster_id": d.site.ids["$cluster"]}).text("id")
	}
	rule := func(affinity string, enforcing bool) []set {
		return []set{{"affinity": affinity, "enforcing": enforcing}}
	}

	return map[string]attributeCase{
		"ovirt_nic": {
			more: func(*direct) set {
				return set{"interface": "virtio", "mac": "56:6f:1a:aa:00:01", "linked": true, "plugged": true}
			},
			others: func(d *direct) set {
				return with(otherVM(d), set{
					"name": "y", "interface": "e1000e", "mac": "56:6f:1a:aa:00:02", "linked": false, "plugged": false,
					"vnic_profile_id": d.otherProfile(),
				})
			},
		},
		"ovirt_tag": {
			more:   func(*direct) set { return set{"description": "x"} },
			others: func(*direct) set { return set{"name": "y", "description": "y"} },
		},
		"ovirt_permission": {
			others: func(d *direct) set {
				return set{"object_id": d.vm("other", nil), "role": "UserRole"}
			},
			silent: map[string]string{
				"object_type": "with object_id", "user_id": "TestAPermissionFromCreationToDestruction",
				"group_id": "TestAPermissionFromCreationToDestruction",
			},
		},
		"ovirt_vm_tag": {others: func(d *direct) set {
			return with(otherVM(d), set{"tag_id": d.make("ovirt_tag", set{"name": "y"}).text("id")})
		}},
		"ovirt_affinity_label": {
			more:   func(*direct) set { return set{"implicit_affinity_group": false} },
			others: func(*direct) set { return set{"name": "y", "implicit_affinity_group": true} },
		},
		"ovirt_vm_affinity_label": {others: func(d *direct) set { return with(otherVM(d), set{"label_id": label(d)}) }},
		"ovirt_host_affinity_label": {others: func(d *direct) set {
			return set{"host_id": d.otherHost(), "label_id": label(d)}
		}},
		"ovirt_affinity_group": {
			more: func(*direct) set {
				return set{
					"description": "x", "priority": 1.0, "vms_rule": rule("negative", true), "hosts_rule": rule("positive", false),
				}
			},
			others: func(*direct) set {
				return set{
					"name": "y", "description": "y", "priority": 2.0, "vms_rule": rule("positive", true),
					"hosts_rule": rule("negative", false),
				}
			},
			silent: map[string]string{"enforcing": "it is that of vms_rule", "cluster_id": oneCluster},
		},
		"ovirt_vm_affinity_group": {
			others: func(d *direct) set { return with(otherVM(d), set{"affinity_group_id": group(d)}) },
			silent: map[string]string{"cluster_id": oneCluster},
		},
		"ovirt_vm_watchdog": {
			others: func(d *direct) set { return with(otherVM(d), set{"action": "pause"}) },
			silent: map[string]string{"model": "an engine has one for each architecture (high-availability/107: 400)"},
		},
		"ovirt_vm_host_device": {others: func(d *direct) set {
			return with(otherVM(d), set{"name": "pci_0000_3b_00_1"})
		}},
		"ovirt_vm_mediated_device": {others: func(d *direct) set { return with(otherVM(d), set{"type": "nvidia-64"}) }},
	}
}

// copied returns the resource with a copy of its state, as if another user managed the same object.
func (m *managed) copied() *managed {
	other := *m
	return &other
}

// TestEachAttributeIsUpdatedAndItsDriftShown changes each attribute. It expects a replacement if the table of changes
// says so, and a change in place otherwise. After a manual change, the next plan must show the change and undo it in
// place.
func TestEachAttributeIsUpdatedAndItsDriftShown(t *testing.T) {
	testenv.SkipInShort(t, "each attribute of each resource")
	t.Parallel()

	cases := attributeCases()
	for typeName := range configured(t, newSite(t, quick)).schemas.ResourceSchemas {
		check.Equal(t, typeName+" has a case", cases[typeName].others != nil, true)
	}

	for typeName := range cases {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			changesEach(t, typeName)
		})
	}
}

// TestTheAttributesOfAFewResourcesAreUpdated runs a sample of TestEachAttributeIsUpdatedAndItsDriftShown. It belongs to
// the tests that run after each change of the code.
func TestTheAttributesOfAFewResourcesAreUpdated(t *testing.T) {
	t.Parallel()

	for _, typeName := range []string{"ovirt_nic", "ovirt_tag", "ovirt_vm_watchdog"} {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			changesEach(t, typeName)
		})
	}
}

func changesEach(t *testing.T, typeName string) {
	t.Helper()
	d, c := newDirect(t, newSite(t, quick)), attributeCases()[typeName]
	of := lostCases()[typeName].prepare(d)
	if c.more != nil {
		of = with(of, c.more(d))
	}

	others, m := c.others(d), d.make(typeName, of)
	m.settled(of)

	known := tfchange.Attributes(typeName)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		value, hasOther := others[name]
		check.Equal(t, name+" has another value, or a reason why not", hasOther || c.silent[name] != "", true)

		if hasOther {
			t.Run(name, func(t *testing.T) {
				d.t = t
				m.changesOne(of, name, value, known[name].Effect, c.silent[name] == "")
			})
		}
	}
}

// changesOne changes one attribute through the configuration of another copy. A plan of this copy changes it back.
func (m *managed) changesOne(of set, name string, value any, effect tfchange.Effect, isDrift bool) {
	m.d.t.Helper()
	to, other := with(of, set{name: value}), m.copied()

	if effect == tfchange.Replacement {
		check.Equal(m.d.t, "the plan", m.plan(to).action, "replace")
		return
	}

	check.Equal(m.d.t, "the plan", other.plan(to).action, "update")
	check.Equal(m.d.t, "the problems of the update", strings.Join(other.apply(to), "\n"), "")
	other.settled(to)

	if effect == tfchange.Local {
		check.Equal(m.d.t, "the problems of the update back", strings.Join(other.apply(of), "\n"), "")
		return
	}

	check.Equal(m.d.t, "the problems of the refresh", strings.Join(m.refresh(), "\n"), "")

	plan := m.plan(of)
	if !isDrift {
		check.Equal(m.d.t, "the plan after a change by hand", plan.action, "no-op")
		return
	}

	check.Equal(m.d.t, "the plan after a change by hand", plan.action, "update")
	check.Equal(m.d.t, "the plan shows it", slices.Contains(plan.changed, name), true)
	check.Equal(m.d.t, "the problems of the change back", strings.Join(m.apply(of), "\n"), "")
	m.settled(of)
}
