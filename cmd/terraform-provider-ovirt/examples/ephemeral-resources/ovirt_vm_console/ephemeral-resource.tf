ephemeral "ovirt_vm_console" "c" {
  vm_id = ovirt_vm_start.a.id
}
