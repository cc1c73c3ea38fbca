action "ovirt_vm_start" "a" {
  config {
    vm_id = ovirt_vm.a.id
  }
}
