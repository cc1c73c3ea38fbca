list "ovirt_template" "all" {
  provider = ovirt
}
