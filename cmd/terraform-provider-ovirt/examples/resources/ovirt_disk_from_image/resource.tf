resource "ovirt_disk_from_image" "i" {
  alias             = "image"
  format            = "cow"
  source_file       = "ol9.qcow2"
  storage_domain_id = local.storage_id
}
