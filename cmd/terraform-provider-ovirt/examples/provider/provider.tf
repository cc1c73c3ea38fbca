terraform {
  required_providers {
    ovirt = {
      source = "registry.terraform.io/ovirt/ovirt"
    }
  }
}

provider "ovirt" {
  url          = "https://engine.example.com/ovirt-engine/api"
  username     = "admin@internal"
  password     = var.password # may be an ephemeral variable
  tls_ca_files = ["/etc/pki/engine-ca.pem"]
}
