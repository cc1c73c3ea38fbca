resource "ovirt_vm" "a" {
  name        = "a"
  cluster_id  = local.cluster_id
  template_id = local.template_id
  memory      = 4294967296
}
