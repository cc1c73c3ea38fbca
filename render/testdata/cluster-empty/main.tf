module "cluster" {
  source = "./modules/cluster"

  affinity_groups = {}
}

output "affinity_group_ids" {
  value = module.cluster.affinity_group_ids
}
