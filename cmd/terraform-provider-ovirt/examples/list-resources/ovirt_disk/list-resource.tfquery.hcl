list "ovirt_disk" "all" {
  provider = ovirt
}
