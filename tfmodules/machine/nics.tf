# The network interfaces, each after the one before it: a guest finds them in the order in which they were made, and
# instances of one resource are made in any order.

resource "ovirt_nic" "nic1" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 0 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id
}

resource "ovirt_nic" "nic2" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 1 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id

  depends_on = [ovirt_nic.nic1]
}

resource "ovirt_nic" "nic3" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 2 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id

  depends_on = [ovirt_nic.nic2]
}

resource "ovirt_nic" "nic4" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 3 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id

  depends_on = [ovirt_nic.nic3]
}

resource "ovirt_nic" "nic5" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 4 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id

  depends_on = [ovirt_nic.nic4]
}

resource "ovirt_nic" "nic6" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 5 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id

  depends_on = [ovirt_nic.nic5]
}

resource "ovirt_nic" "nic7" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 6 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id

  depends_on = [ovirt_nic.nic6]
}

resource "ovirt_nic" "nic8" {
  for_each = { for i, nic in var.nics : nic.name => nic if i == 7 }

  name            = each.key
  vm_id           = ovirt_vm.this.id
  vnic_profile_id = each.value.vnic_profile_id

  depends_on = [ovirt_nic.nic7]
}
