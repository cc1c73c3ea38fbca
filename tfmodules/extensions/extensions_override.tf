# What the released provider does not have. This file is beside the module only for machines that ask for some of it; for
# those, the provider must be that of this project.

resource "ovirt_vm" "this" {
  guaranteed_memory = var.guaranteed_memory
  description       = var.description

  initialization_dns_servers    = var.dns_servers
  initialization_search_domains = var.search_domains

  dynamic "initialization_nic" {
    for_each = var.guest_nics
    content {
      name = initialization_nic.value.interface
      dynamic "ipv4" {
        for_each = initialization_nic.value.ipv4[*]
        content {
          boot_protocol = ipv4.value.boot_protocol
          address       = ipv4.value.address
          netmask       = ipv4.value.netmask
          gateway       = ipv4.value.gateway
        }
      }
      dynamic "ipv6" {
        for_each = initialization_nic.value.ipv6[*]
        content {
          boot_protocol = ipv6.value.boot_protocol
          address       = ipv6.value.address
          netmask       = ipv6.value.netmask
          gateway       = ipv6.value.gateway
        }
      }
    }
  }

  lifecycle {
    # Those of the module, which this list replaces, and those that only this file has.
    ignore_changes = [
      initialization_custom_script,
      initialization_hostname,
      initialization_nic,
      initialization_dns_servers,
      initialization_search_domains,
      template_id,
      template_disk_attachment_override,
      clone,
    ]
  }
}

# Hardware of a VM that runs is not exchanged.

resource "ovirt_nic" "nic1" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}

resource "ovirt_nic" "nic2" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}

resource "ovirt_nic" "nic3" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}

resource "ovirt_nic" "nic4" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}

resource "ovirt_nic" "nic5" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}

resource "ovirt_nic" "nic6" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}

resource "ovirt_nic" "nic7" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}

resource "ovirt_nic" "nic8" {
  mac       = each.value.mac
  interface = each.value.interface

  lifecycle {
    ignore_changes = [mac, interface]
  }
}
