resource "ovirt_disk" "d" {
  alias             = "data"
  format            = "raw"
  sparse            = true
  size              = provider::ovirt::bytes("40 GiB")
  storage_domain_id = data.ovirt_storage_domain.s.id
}
