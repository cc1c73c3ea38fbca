import {
  to = ovirt_vm_affinity_label.a
  identity = {
    label_id = "00000000-0000-4000-8000-000000000001"
    vm_id    = "00000000-0000-4000-8000-000000000002"
  }
}
