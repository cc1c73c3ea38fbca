locals {
  guest_nics = [{
    interface = "enp1s0"
    ipv4 = {
      boot_protocol = "dhcp"
    }
    ipv6 = {
      boot_protocol = "autoconf"
    }
    }, {
    interface = "enp2s0"
    ipv6 = {
      address = "fd00::5"
      gateway = "fe80::1"
      netmask = "64"
    }
  }]
  dns_servers    = ["10.0.0.53", "fd00::53"]
  search_domains = ["example.com"]
}
