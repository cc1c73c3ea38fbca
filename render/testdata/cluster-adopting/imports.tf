import {
  to = module.cluster.ovirt_affinity_group.this["workers/11111111-1111-4111-8111-111111111111"]
  id = "11111111-1111-4111-8111-111111111111/5"
}
