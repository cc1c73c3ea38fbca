resource "ovirt_vm_graphics_consoles" "a" {
  vm_id = ovirt_vm.a.id
}
