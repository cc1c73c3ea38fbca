resource "ovirt_vm_snapshot" "s" {
  vm_id       = ovirt_vm.a.id
  description = "before the upgrade"
}
