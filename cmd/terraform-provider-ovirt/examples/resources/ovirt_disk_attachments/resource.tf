resource "ovirt_disk_attachments" "a" {
  vm_id            = ovirt_vm.a.id
  detach_unmanaged = true
  attachment {
    disk_id        = ovirt_disk.d.id
    disk_interface = "virtio_scsi"
    active         = true
  }
}
