resource "ovirt_disk" "d" {
  alias             = "data"
  format            = "raw"
  sparse            = true
  size              = 10737418240
  storage_domain_id = local.storage_id
}
