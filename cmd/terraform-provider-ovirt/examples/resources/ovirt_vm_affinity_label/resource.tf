resource "ovirt_vm_affinity_label" "a" {
  label_id = ovirt_affinity_label.l.id
  vm_id    = ovirt_vm.a.id
}
