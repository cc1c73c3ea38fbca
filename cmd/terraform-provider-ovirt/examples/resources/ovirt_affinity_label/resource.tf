resource "ovirt_affinity_label" "l" {
  name                    = "licensed"
  implicit_affinity_group = true
}
