# The ID is VM/NAME.
terraform import ovirt_vm_host_device.a 00000000-0000-4000-8000-000000000001/pci_0000_3b_00_0
