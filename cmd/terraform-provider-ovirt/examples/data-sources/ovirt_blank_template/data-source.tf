data "ovirt_blank_template" "b" {}
