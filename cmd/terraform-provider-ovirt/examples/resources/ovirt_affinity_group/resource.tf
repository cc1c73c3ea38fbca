resource "ovirt_affinity_group" "g" {
  name       = "apart"
  cluster_id = local.cluster_id
  priority   = 1
  vms_rule {
    affinity  = "negative"
    enforcing = true
  }
}
