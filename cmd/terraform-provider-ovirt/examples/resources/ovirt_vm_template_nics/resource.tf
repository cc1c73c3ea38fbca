resource "ovirt_vm_template_nics" "a" {
  vm_id = ovirt_vm.a.id
  kept  = ["nic1"]
}
