module "cluster" {
  source = "./modules/cluster"

  affinity_groups = {
    "control-plane/11111111-1111-4111-8111-111111111111" = {
      cluster_id  = "11111111-1111-4111-8111-111111111111"
      description = "apart [capolvm owner=default/demo uid=5f0c]"
      name        = "default_demo_control-plane"
      priority    = 5
      vms_rule = {
        affinity  = "negative"
        enforcing = true
      }
    }
    "together/11111111-1111-4111-8111-111111111111" = {
      cluster_id  = "11111111-1111-4111-8111-111111111111"
      description = "\"$${x}\" [capolvm owner=default/demo uid=5f0c]"
      name        = "default_demo_together"
      priority    = 1
      vms_rule = {
        affinity  = "positive"
        enforcing = false
      }
    }
    "workers/11111111-1111-4111-8111-111111111111" = {
      cluster_id  = "11111111-1111-4111-8111-111111111111"
      description = "[capolvm owner=default/demo uid=5f0c]"
      name        = "default_demo_workers"
      priority    = 1
      vms_rule    = null
    }
  }
}

output "affinity_group_ids" {
  value = module.cluster.affinity_group_ids
}
