output "template_id" {
  description = "UUID of the template."
  value       = ovirt_template.this.id
}
