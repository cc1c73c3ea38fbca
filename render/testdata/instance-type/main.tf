resource "ovirt_vm" "this" {
  name                         = "demo-md-0-x7k2p"
  comment                      = "capolvm owner default/demo-md-0-x7k2p 5f0c"
  cluster_id                   = "11111111-1111-4111-8111-111111111111"
  template_id                  = "22222222-2222-4222-8222-222222222222"
  instance_type_id             = "88888888-8888-4888-8888-888888888888"
  initialization_hostname      = "demo-md-0-x7k2p"
  initialization_custom_script = var.user_data

  lifecycle {
    # What a guest reads at its first boot, what it is, and where its disks came from, matters once.
    ignore_changes = [initialization_custom_script, initialization_hostname, initialization_nic, template_id, template_disk_attachment_override, clone, os_type, placement_policy_affinity, placement_policy_host_ids]
  }
}

resource "ovirt_nic" "nic1" {
  vm_id           = ovirt_vm.this.id
  name            = "nic1"
  vnic_profile_id = "33333333-3333-4333-8333-333333333333"
}

# The VM starts when its hardware is complete: a network interface that comes later races the guest's first boot.
resource "ovirt_vm_start" "this" {
  vm_id         = ovirt_vm.this.id
  status        = "up"
  stop_behavior = "stop"
  force_stop    = true

  depends_on = [ovirt_nic.nic1]

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
