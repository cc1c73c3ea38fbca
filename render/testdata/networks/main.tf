module "machine" {
  source = "./modules/machine"

  name        = "demo-md-0-x7k2p"
  comment     = "capolvm owner default/demo-md-0-x7k2p 5f0c"
  cluster_id  = "11111111-1111-4111-8111-111111111111"
  template_id = "22222222-2222-4222-8222-222222222222"
  memory      = 17179869184
  cpu = {
    cores   = 2
    sockets = 1
    threads = 1
  }
  nics = [{
    name            = "nic1"
    vnic_profile_id = "33333333-3333-4333-8333-333333333333"
    }, {
    name            = "nic2"
    vnic_profile_id = "33333333-3333-4333-8333-333333333333"
    }, {
    name            = "nic3"
    vnic_profile_id = "33333333-3333-4333-8333-333333333333"
  }]
  hostname       = "demo-md-0-x7k2p"
  guest_nics     = local.guest_nics
  dns_servers    = local.dns_servers
  search_domains = local.search_domains
  user_data      = var.user_data
}

output "vm_id" {
  value = module.machine.vm_id
}

output "nic_ids" {
  value = module.machine.nic_ids
}
