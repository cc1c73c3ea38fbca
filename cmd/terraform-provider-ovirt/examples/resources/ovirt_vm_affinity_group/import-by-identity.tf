import {
  to = ovirt_vm_affinity_group.a
  identity = {
    cluster_id        = "00000000-0000-4000-8000-000000000001"
    affinity_group_id = "00000000-0000-4000-8000-000000000002"
    vm_id             = "00000000-0000-4000-8000-000000000003"
  }
}
