resource "ovirt_tag" "t" {
  name = "blue"
}
