resource "ovirt_vm_optimize_cpu_settings" "a" {
  vm_id = ovirt_vm.a.id
}
