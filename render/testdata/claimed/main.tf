# The VM is one of a pool. It is taken over as it is, and given back when the machine is gone.
resource "ovirt_adopted_vm" "this" {
  vm_id                        = "44444444-4444-4444-8444-444444444444"
  initialization_hostname      = "demo-md-0-x7k2p"
  initialization_custom_script = var.user_data

  lifecycle {
    # What a guest reads at its first boot matters once.
    ignore_changes = [initialization_custom_script, initialization_hostname, initialization_nic]
  }
}

# The VM may have been up before: its guest is given the initialization all the same.
resource "ovirt_vm_start" "this" {
  vm_id              = ovirt_adopted_vm.this.id
  status             = "up"
  stop_behavior      = "stop"
  force_stop         = true
  use_initialization = true

  lifecycle {
    # Power is watched natively; a VM that reboots must not be restarted by a plan.
    ignore_changes = [status, use_initialization]
  }
}

output "vm_id" {
  description = "UUID of the VM."
  value       = ovirt_adopted_vm.this.id
}
