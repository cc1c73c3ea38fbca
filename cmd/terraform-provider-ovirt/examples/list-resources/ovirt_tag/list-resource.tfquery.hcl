list "ovirt_tag" "all" {
  provider = ovirt
}
