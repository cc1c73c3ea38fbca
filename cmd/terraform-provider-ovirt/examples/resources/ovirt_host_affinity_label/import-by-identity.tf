import {
  to = ovirt_host_affinity_label.h
  identity = {
    label_id = "00000000-0000-4000-8000-000000000001"
    host_id  = "00000000-0000-4000-8000-000000000002"
  }
}
