data "ovirt_template_disk_attachments" "d" { template_id = local.template_id }
