import {
  to = ovirt_permission.p
  identity = {
    object_type = "vm"
    object_id   = "00000000-0000-4000-8000-000000000001"
    id          = "00000000-0000-4000-8000-000000000002"
  }
}
