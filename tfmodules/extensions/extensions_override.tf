# What the released provider does not have. This file is beside the module only for machines that ask for some of it; for
# those, the provider must be that of this project.

resource "ovirt_vm" "this" {
  guaranteed_memory = var.guaranteed_memory
  description       = var.description
}

resource "ovirt_nic" "this" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    # Hardware of a VM that runs is not exchanged.
    ignore_changes = [mac, interface]
  }
}
