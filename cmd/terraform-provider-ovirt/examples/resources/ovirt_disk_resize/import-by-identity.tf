import {
  to = ovirt_disk_resize.d
  identity = {
    disk_id = "00000000-0000-4000-8000-000000000001"
  }
}
