output "affinity_group_ids" {
  description = "UUIDs of the affinity groups, by their keys."
  value       = { for key, group in ovirt_affinity_group.this : key => group.id }
}
