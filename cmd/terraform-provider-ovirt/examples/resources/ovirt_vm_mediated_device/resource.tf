resource "ovirt_vm_mediated_device" "a" {
  vm_id = ovirt_vm.a.id
  type  = "nvidia-63"
}
