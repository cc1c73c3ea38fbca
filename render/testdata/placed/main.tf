module "machine" {
  source = "./modules/machine"

  name                  = "demo-md-0-x7k2p"
  comment               = "capolvm owner default/demo-md-0-x7k2p 5f0c"
  cluster_id            = "11111111-1111-4111-8111-111111111111"
  template_id           = "22222222-2222-4222-8222-222222222222"
  memory                = 17179869184
  optimize_cpu_settings = true
  nics = [{
    name            = "nic1"
    vnic_profile_id = "33333333-3333-4333-8333-333333333333"
  }]
  placement = {
    affinity = "migratable"
    host_ids = ["55555555-5555-4555-8555-555555555551", "55555555-5555-4555-8555-555555555552"]
  }
  affinity_groups = {
    "control-plane" = "66666666-6666-4666-8666-666666666666"
    "etcd"          = "77777777-7777-4777-8777-777777777777"
  }
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
