data "ovirt_affinity_group" "g" {
  cluster_id = local.cluster_id
  name       = "apart"
}
