output "vm_id" {
  description = "UUID of the VM."
  value       = ovirt_vm.this.id
}

output "nic_ids" {
  description = "UUIDs of the network interfaces, by name."
  value       = {
    for name, nic in merge(ovirt_nic.nic1, ovirt_nic.nic2, ovirt_nic.nic3, ovirt_nic.nic4, ovirt_nic.nic5, ovirt_nic.nic6, ovirt_nic.nic7, ovirt_nic.nic8) : name => nic.id
  }
}
