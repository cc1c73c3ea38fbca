resource "ovirt_vm_watchdog" "a" {
  vm_id  = ovirt_vm.a.id
  model  = "i6300esb"
  action = "reset"
}
