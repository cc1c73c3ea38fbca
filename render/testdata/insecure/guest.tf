locals {
  guest_nics     = []
  dns_servers    = null
  search_domains = null
}
