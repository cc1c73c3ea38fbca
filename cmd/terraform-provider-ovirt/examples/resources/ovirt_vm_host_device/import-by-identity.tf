import {
  to = ovirt_vm_host_device.a
  identity = {
    vm_id = "00000000-0000-4000-8000-000000000001"
    name  = "pci_0000_3b_00_0"
  }
}
