resource "ovirt_vm_start" "a" {
  vm_id      = ovirt_vm.a.id
  depends_on = [ovirt_nic.a]
}
