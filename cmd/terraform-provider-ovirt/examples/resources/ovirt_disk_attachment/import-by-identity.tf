import {
  to = ovirt_disk_attachment.d
  identity = {
    vm_id = "00000000-0000-4000-8000-000000000001"
    id    = "00000000-0000-4000-8000-000000000002"
  }
}
