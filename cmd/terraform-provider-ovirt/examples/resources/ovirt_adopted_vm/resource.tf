resource "ovirt_adopted_vm" "a" {
  vm_id                        = local.vm_id
  initialization_hostname      = "node-1"
  initialization_custom_script = local.user_data
}
