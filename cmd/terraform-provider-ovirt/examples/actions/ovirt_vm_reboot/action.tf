action "ovirt_vm_reboot" "a" {
  config {
    vm_id = ovirt_vm.a.id
  }
}
