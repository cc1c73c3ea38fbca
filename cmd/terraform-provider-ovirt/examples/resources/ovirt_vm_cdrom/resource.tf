resource "ovirt_vm_cdrom" "c" {
  vm_id   = ovirt_vm.a.id
  disk_id = data.ovirt_disk.iso.id
}
