resource "ovirt_vm_host_device" "a" {
  vm_id = ovirt_vm.a.id
  name  = "pci_0000_3b_00_0"
}
