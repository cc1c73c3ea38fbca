action "ovirt_vm_stop" "a" {
  config {
    vm_id = ovirt_vm.a.id
  }
}
