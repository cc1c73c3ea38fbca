# One virtual machine that becomes a Kubernetes node.

terraform {
  required_providers {
    ovirt = {
      source = "registry.terraform.io/ovirt/ovirt"
    }
  }
}

resource "ovirt_vm" "this" {
  name        = var.name
  comment     = var.comment
  cluster_id  = var.cluster_id
  template_id = var.template_id

  clone       = var.clone

  instance_type_id  = var.instance_type_id
  cpu_cores         = var.cpu == null ? null : var.cpu.cores
  cpu_sockets       = var.cpu == null ? null : var.cpu.sockets
  cpu_threads       = var.cpu == null ? null : var.cpu.threads
  cpu_mode          = var.cpu_mode
  memory            = var.memory
  maximum_memory    = var.maximum_memory
  memory_ballooning = var.memory_ballooning
  huge_pages        = var.huge_pages
  vm_type           = var.vm_type
  os_type           = var.os_type
  serial_console    = var.serial_console
  soundcard_enabled = var.soundcard_enabled

  placement_policy_affinity = try(var.placement.affinity, null)
  placement_policy_host_ids = try(var.placement.host_ids, null)

  initialization_hostname      = var.hostname
  initialization_custom_script = var.user_data

  # The released provider takes one interface with a static IPv4 address; for others there is extensions_override.tf.
  dynamic "initialization_nic" {
    for_each = var.guest_nics
    content {
      name = initialization_nic.value.interface
      ipv4 {
        address = initialization_nic.value.ipv4.address
        netmask = initialization_nic.value.ipv4.netmask
        gateway = initialization_nic.value.ipv4.gateway
      }
      dynamic "ipv6" {
        for_each = initialization_nic.value.ipv6[*]
        content {
          address = ipv6.value.address
          netmask = ipv6.value.netmask
          gateway = ipv6.value.gateway
        }
      }
    }
  }

  dynamic "template_disk_attachment_override" {
    for_each = var.root_disk == null ? [] : [var.root_disk]
    content {
      disk_id           = template_disk_attachment_override.value.template_disk_id
      format            = template_disk_attachment_override.value.format
      provisioning      = template_disk_attachment_override.value.provisioning
      storage_domain_id = template_disk_attachment_override.value.storage_domain_id
    }
  }

  lifecycle {
    # A guest reads these once, at its first boot; and a template that is renamed, replaced or deleted later must not
    # touch the machines that were made from it.
    ignore_changes = [
      initialization_custom_script,
      initialization_hostname,
      initialization_nic,
      template_id,
      template_disk_attachment_override,
      clone,
    ]
  }
}

# The root disk grows before data disks are attached: the released provider resizes every disk that it finds.
resource "ovirt_vm_disks_resize" "root" {
  count = var.root_disk_size == null ? 0 : 1

  vm_id = ovirt_vm.this.id
  size  = var.root_disk_size
}

resource "ovirt_disk" "data" {
  for_each = { for disk in var.data_disks : disk.name => disk }

  alias             = "${var.name}_${each.key}"
  size              = each.value.size
  format            = each.value.format
  sparse            = each.value.sparse
  storage_domain_id = each.value.storage_domain_id

  # A disk without its VM could not be told from one that somebody else made.
  depends_on = [ovirt_vm.this]

  lifecycle {
    # Where a disk was made is not undone by a template that moves.
    ignore_changes = [format, sparse, storage_domain_id]
  }
}

resource "ovirt_disk_attachment" "data" {
  for_each = { for disk in var.data_disks : disk.name => disk }

  vm_id          = ovirt_vm.this.id
  disk_id        = ovirt_disk.data[each.key].id
  disk_interface = each.value.interface
  active         = true
  bootable       = false

  depends_on = [ovirt_vm_disks_resize.root]
}

# The engine sizes the CPU by the VM's hosts, and pins it; only while the VM is down.
resource "ovirt_vm_optimize_cpu_settings" "this" {
  count = var.optimize_cpu_settings ? 1 : 0

  vm_id = ovirt_vm.this.id
}

resource "ovirt_vm_graphics_consoles" "none" {
  count = var.remove_graphics_consoles ? 1 : 0

  vm_id = ovirt_vm.this.id
}

resource "ovirt_vm_tag" "this" {
  for_each = var.tag_ids

  vm_id  = ovirt_vm.this.id
  tag_id = each.value
}

# The engine obeys an affinity group when it chooses a host, so that the VM is in it before it starts.
resource "ovirt_vm_affinity_group" "this" {
  for_each = var.affinity_groups

  cluster_id        = var.cluster_id
  affinity_group_id = each.value
  vm_id             = ovirt_vm.this.id
}

# The VM starts when its hardware is complete: a network interface that comes later races the guest's first boot.
resource "ovirt_vm_start" "this" {
  vm_id         = ovirt_vm.this.id
  status        = "up"
  stop_behavior = "stop"
  force_stop    = true

  depends_on = [
    ovirt_nic.nic8,
    ovirt_vm_disks_resize.root,
    ovirt_disk_attachment.data,
    ovirt_vm_optimize_cpu_settings.this,
    ovirt_vm_graphics_consoles.none,
    ovirt_vm_tag.this,
    ovirt_vm_affinity_group.this,
  ]

  lifecycle {
    # Power is watched natively; a VM that reboots must not be restarted by a plan.
    ignore_changes = [status]
  }
}
