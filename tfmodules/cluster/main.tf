# What the virtual machines of one Kubernetes cluster share.

terraform {
  required_providers {
    ovirt = {
      source = "registry.terraform.io/ovirt/ovirt"
    }
  }
}

resource "ovirt_affinity_group" "this" {
  for_each = var.affinity_groups

  name        = each.value.name
  description = each.value.description
  cluster_id  = each.value.cluster_id
  priority    = each.value.priority

  dynamic "vms_rule" {
    for_each = each.value.vms_rule == null ? [] : [each.value.vms_rule]
    content {
      affinity  = vms_rule.value.affinity
      enforcing = vms_rule.value.enforcing
    }
  }
}
