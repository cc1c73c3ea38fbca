terraform {
  required_version = ">= 1.10.0"

  required_providers {
    ovirt = {
      source  = "registry.terraform.io/ovirt/ovirt"
      version = ">= 2.2.0"
    }
  }
}

provider "ovirt" {
  url           = "https://engine.example.com/ovirt-engine/api"
  username      = var.ovirt_username
  password      = var.ovirt_password
  tls_ca_bundle = file("ca.pem")
}
