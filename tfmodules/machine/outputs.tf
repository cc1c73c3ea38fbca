output "vm_id" {
  description = "UUID of the VM."
  value       = ovirt_vm.this.id
}

output "nic_ids" {
  description = "UUIDs of the network interfaces, by name."
  value       = { for name, nic in ovirt_nic.this : name => nic.id }
}
