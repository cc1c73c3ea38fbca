resource "ovirt_vm" "this" {
  name                           = "demo-md-0-x7k2p"
  comment                        = "capolvm owner default/demo-md-0-x7k2p 5f0c"
  description                    = "made \"by\" $${us} <&&>"
  cluster_id                     = "11111111-1111-4111-8111-111111111111"
  template_id                    = "22222222-2222-4222-8222-222222222222"
  clone                          = true
  cpu_cores                      = 2
  cpu_sockets                    = 1
  cpu_threads                    = 1
  cpu_mode                       = "host_passthrough"
  memory                         = 17179869184
  guaranteed_memory              = 8589934592
  maximum_memory                 = 34359738368
  memory_ballooning              = false
  huge_pages                     = 2048
  vm_type                        = "high_performance"
  os_type                        = "ol_9x64"
  serial_console                 = true
  soundcard_enabled              = false
  high_availability              = true
  high_availability_priority     = 50
  lease_storage_domain_id        = "77777777-7777-4777-8777-777777777777"
  storage_error_resume_behaviour = "kill"
  bios_type                      = "q35_secure_boot"
  tpm_enabled                    = true
  custom_properties = {
    "for"          = "1"
    "viodiskcache" = "writeback"
  }
  initialization_hostname      = "demo-md-0-x7k2p"
  initialization_custom_script = var.user_data

  template_disk_attachment_override {
    disk_id           = "66666666-6666-4666-8666-666666666666"
    format            = "raw"
    provisioning      = "non-sparse"
    storage_domain_id = "77777777-7777-4777-8777-777777777777"
  }

  lifecycle {
    # What a guest reads at its first boot, what it is, and where its disks came from, matters once.
    ignore_changes = [initialization_custom_script, initialization_hostname, initialization_nic, template_id, template_disk_attachment_override, clone, os_type, placement_policy_affinity, placement_policy_host_ids, bios_type, tpm_enabled, custom_properties]
  }
}

resource "ovirt_nic" "nic1" {
  vm_id           = ovirt_vm.this.id
  name            = "nic1"
  vnic_profile_id = "33333333-3333-4333-8333-333333333333"
}

resource "ovirt_nic" "nic2" {
  vm_id           = ovirt_vm.this.id
  name            = "storage"
  vnic_profile_id = "33333333-3333-4333-8333-333333333333"
  mac             = "56:6f:1a:00:00:01"
  interface       = "e1000e"

  depends_on = [ovirt_nic.nic1]

  lifecycle {
    # Hardware of a VM that runs is not exchanged.
    ignore_changes = [mac, interface]
  }
}

# The template may give the VM other network interfaces; these go.
resource "ovirt_vm_template_nics" "removed" {
  vm_id = ovirt_vm.this.id
  kept  = ["nic1", "storage"]

  depends_on = [ovirt_nic.nic2]
}

resource "ovirt_vm_disks_resize" "root" {
  vm_id = ovirt_vm.this.id
  size  = 107374182400
}

# A disk without its VM could not be told from one that somebody else made.
resource "ovirt_disk" "data" {
  for_each = {
    "etcd" = {
      alias             = "demo-md-0-x7k2p_etcd"
      format            = "raw"
      size              = 10737418240
      sparse            = false
      storage_domain_id = "77777777-7777-4777-8777-777777777777"
    }
  }

  alias             = each.value.alias
  size              = each.value.size
  format            = each.value.format
  sparse            = each.value.sparse
  storage_domain_id = each.value.storage_domain_id

  depends_on = [ovirt_vm.this]

  lifecycle {
    # Where a disk was made is not undone by a template that moves.
    ignore_changes = [format, sparse, storage_domain_id]
  }
}

resource "ovirt_disk_attachment" "data" {
  for_each = {
    "etcd" = "virtio"
  }

  vm_id          = ovirt_vm.this.id
  disk_id        = ovirt_disk.data[each.key].id
  disk_interface = each.value
  active         = true
  bootable       = false

  depends_on = [ovirt_vm_disks_resize.root]
}

resource "ovirt_vm_graphics_consoles" "none" {
  vm_id = ovirt_vm.this.id
}

resource "ovirt_vm_watchdog" "this" {
  vm_id  = ovirt_vm.this.id
  model  = "i6300esb"
  action = "reset"
}

resource "ovirt_vm_host_device" "this" {
  for_each = toset(["pci_0000_3b_00_0"])
  vm_id    = ovirt_vm.this.id
  name     = each.value
}

resource "ovirt_vm_mediated_device" "this" {
  for_each = {
    "1" = "nvidia-63"
    "2" = "nvidia-63"
  }

  vm_id = ovirt_vm.this.id
  type  = each.value
}

resource "ovirt_vm_tag" "this" {
  for_each = toset(["55555555-5555-4555-8555-555555555555"])
  vm_id    = ovirt_vm.this.id
  tag_id   = each.value
}

# The VM starts when its hardware is complete: a network interface that comes later races the guest's first boot.
resource "ovirt_vm_start" "this" {
  vm_id         = ovirt_vm.this.id
  status        = "up"
  stop_behavior = "stop"
  force_stop    = true

  depends_on = [ovirt_nic.nic1, ovirt_nic.nic2, ovirt_vm_template_nics.removed, ovirt_vm_disks_resize.root, ovirt_disk.data, ovirt_disk_attachment.data, ovirt_vm_graphics_consoles.none, ovirt_vm_watchdog.this, ovirt_vm_host_device.this, ovirt_vm_mediated_device.this, ovirt_vm_tag.this]

  lifecycle {
    # Power is watched natively; a VM that reboots must not be restarted by a plan.
    ignore_changes = [status]
  }
}

output "vm_id" {
  description = "UUID of the VM."
  value       = ovirt_vm.this.id
}

output "nic_ids" {
  description = "UUIDs of the network interfaces, by name."
  value = {
    "nic1"    = ovirt_nic.nic1.id
    "storage" = ovirt_nic.nic2.id
  }
}
