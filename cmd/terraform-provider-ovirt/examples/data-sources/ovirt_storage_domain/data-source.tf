data "ovirt_storage_domain" "s" { name = "data" }
