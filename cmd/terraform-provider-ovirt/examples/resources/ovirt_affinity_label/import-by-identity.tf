import {
  to = ovirt_affinity_label.l
  identity = {
    id = "00000000-0000-4000-8000-000000000001"
  }
}
