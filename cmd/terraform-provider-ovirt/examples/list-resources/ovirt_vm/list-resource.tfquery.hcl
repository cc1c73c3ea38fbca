list "ovirt_vm" "all" {
  provider = ovirt
}
