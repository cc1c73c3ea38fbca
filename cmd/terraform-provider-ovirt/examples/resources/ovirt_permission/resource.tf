resource "ovirt_permission" "p" {
  object_type = "vm"
  object_id   = ovirt_vm.a.id
  role        = "UserVmManager"
  user_id     = "00000000-0000-4000-8000-000000000003"
}
