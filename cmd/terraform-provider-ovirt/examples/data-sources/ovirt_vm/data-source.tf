data "ovirt_vm" "a" { name = "a" }
