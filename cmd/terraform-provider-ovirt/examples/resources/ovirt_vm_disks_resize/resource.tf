resource "ovirt_vm_disks_resize" "a" {
  vm_id = ovirt_vm.a.id
  size  = 21474836480
}
