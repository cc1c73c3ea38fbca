action "ovirt_vm_snapshot" "a" {
  config {
    vm_id       = ovirt_vm.a.id
    description = "nightly"
  }
}
