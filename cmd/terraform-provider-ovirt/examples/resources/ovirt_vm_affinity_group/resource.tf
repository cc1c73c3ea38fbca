resource "ovirt_vm_affinity_group" "a" {
  cluster_id        = local.cluster_id
  affinity_group_id = ovirt_affinity_group.g.id
  vm_id             = ovirt_vm.a.id
}
