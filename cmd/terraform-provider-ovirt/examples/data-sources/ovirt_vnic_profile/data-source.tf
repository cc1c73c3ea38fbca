data "ovirt_vnic_profile" "p" {
  name    = "ovirtmgmt"
  network = "ovirtmgmt"
}
