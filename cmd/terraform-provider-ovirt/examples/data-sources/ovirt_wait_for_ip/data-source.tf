data "ovirt_wait_for_ip" "a" {
  vm_id      = ovirt_vm.a.id
  depends_on = [ovirt_vm_start.a]
}
