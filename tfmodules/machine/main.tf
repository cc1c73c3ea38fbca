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

  cpu_cores   = var.cpu.cores
  cpu_sockets = var.cpu.sockets
  cpu_threads = var.cpu.threads
  memory      = var.memory

  placement_policy_affinity = try(var.placement.affinity, null)
  placement_policy_host_ids = try(var.placement.host_ids, null)

  initialization_hostname      = var.hostname
  initialization_custom_script = var.user_data

  dynamic "initialization_nic" {
    for_each = var.guest_network == null ? [] : [var.guest_network]
    content {
      name = initialization_nic.value.interface
      ipv4 {
        address = initialization_nic.value.address
        netmask = initialization_nic.value.netmask
        gateway = initialization_nic.value.gateway
      }
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
    ]
  }
}

resource "ovirt_nic" "this" {
  for_each = { for nic in var.nics : nic.name => nic }

  name            = each.value.name
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id
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

  depends_on = [ovirt_nic.this, ovirt_vm_affinity_group.this]

  lifecycle {
    # Power is watched natively; a VM that reboots must not be restarted by a plan.
    ignore_changes = [status]
  }
}
