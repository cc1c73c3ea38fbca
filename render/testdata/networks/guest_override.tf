# Added to the VM: what its guest is told about its network at its first boot.
resource "ovirt_vm" "this" {
  initialization_dns_servers    = ["10.0.0.53", "fd00::53"]
  initialization_search_domains = ["example.com"]

  initialization_nic {
    name = "enp1s0"
    ipv4 {
      boot_protocol = "dhcp"
    }
    ipv6 {
      boot_protocol = "dhcp"
    }
  }

  initialization_nic {
    name = "enp2s0"
    ipv6 {
      address = "fd00::5"
      netmask = "64"
      gateway = "fe80::1"
    }
  }
}
