variable "affinity_groups" {
  description = "Affinity groups, by a key that never changes for a group. A group without a rule for VMs does nothing."
  type = map(object({
    name        = string
    description = string
    cluster_id  = string
    priority    = number
    vms_rule = optional(object({
      affinity  = string
      enforcing = bool
    }))
  }))
}
