resource "ovirt_vm_tag" "t" {
  tag_id = ovirt_tag.t.id
  vm_id  = ovirt_vm.a.id
}
