action "ovirt_vm_migrate" "a" {
  config {
    vm_id   = ovirt_vm.a.id
    host_id = data.ovirt_host.h.id
  }
}
