data "ovirt_cluster" "c" { name = "Default" }
