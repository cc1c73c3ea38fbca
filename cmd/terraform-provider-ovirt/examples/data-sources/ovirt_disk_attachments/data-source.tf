data "ovirt_disk_attachments" "d" { vm_id = ovirt_vm.a.id }
