data "ovirt_disk" "d" { name = "data" }
