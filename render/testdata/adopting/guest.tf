locals {
  guest_nics = [{
    interface = "enp1s0"
    ipv4 = {
      address = "10.20.30.161"
      gateway = "10.20.30.1"
      netmask = "255.255.255.0"
    }
  }]
  dns_servers    = null
  search_domains = null
}
