resource "ovirt_template" "t" {
  name        = "golden"
  description = "Oracle Linux 9"
  vm_id       = ovirt_vm.a.id
}
