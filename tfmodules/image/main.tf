# A template of virtual machines, made of a disk: by way of a virtual machine that has the disk and never starts.

terraform {
  required_providers {
    ovirt = {
      source = "registry.terraform.io/ovirt/ovirt"
    }
  }
}

data "ovirt_blank_template" "this" {}

resource "ovirt_vm" "this" {
  name        = var.vm_name
  comment     = var.comment
  cluster_id  = var.cluster_id
  template_id = data.ovirt_blank_template.this.id
  os_type     = var.os_type
  memory      = var.memory
}

resource "ovirt_disk_attachment" "this" {
  vm_id          = ovirt_vm.this.id
  disk_id        = var.disk_id
  disk_interface = "virtio_scsi"
  bootable       = true
  active         = true
}

resource "ovirt_template" "this" {
  name        = var.name
  description = var.description
  vm_id       = ovirt_disk_attachment.this.vm_id
}
