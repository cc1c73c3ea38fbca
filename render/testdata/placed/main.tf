resource "ovirt_vm" "this" {
  name                         = "demo-md-0-x7k2p"
  comment                      = "capolvm owner default/demo-md-0-x7k2p 5f0c"
  cluster_id                   = "11111111-1111-4111-8111-111111111111"
  template_id                  = "22222222-2222-4222-8222-222222222222"
  memory                       = 17179869184
  placement_policy_affinity    = "migratable"
  placement_policy_host_ids    = ["55555555-5555-4555-8555-555555555551", "55555555-5555-4555-8555-555555555552"]
  initialization_hostname      = "demo-md-0-x7k2p"
  initialization_custom_script = var.user_data

  lifecycle {
    # What a guest reads at its first boot, what it is, and where its disks came from, matters once.
    ignore_changes = [initialization_custom_script, initialization_hostname, initialization_nic, template_id, template_disk_attachment_override, clone, os_type]
  }
}

resource "ovirt_nic" "nic1" {
  vm_id           = ovirt_vm.this.id
  name            = "nic1"
  vnic_profile_id = "33333333-3333-4333-8333-333333333333"
}

# The engine sizes the CPU by the VM's hosts, and pins it; only while the VM is down.
resource "ovirt_vm_optimize_cpu_settings" "this" {
  vm_id = ovirt_vm.this.id
}

# The engine obeys an affinity group when it chooses a host, so that the VM is in it before it starts.
resource "ovirt_vm_affinity_group" "this" {
  for_each = {
    "control-plane" = "66666666-6666-4666-8666-666666666666"
    "etcd"          = "77777777-7777-4777-8777-777777777777"
  }

  cluster_id        = "11111111-1111-4111-8111-111111111111"
  affinity_group_id = each.value
  vm_id             = ovirt_vm.this.id
}

# The VM starts when its hardware is complete: a network interface that comes later races the guest's first boot.
resource "ovirt_vm_start" "this" {
  vm_id         = ovirt_vm.this.id
  status        = "up"
  stop_behavior = "stop"
  force_stop    = true

  depends_on = [ovirt_nic.nic1, ovirt_vm_optimize_cpu_settings.this, ovirt_vm_affinity_group.this]

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
    "nic1" = ovirt_nic.nic1.id
  }
}
