module "machine" {
  source = "./modules/machine"

  name              = "demo-md-0-x7k2p"
  comment           = "capolvm owner default/demo-md-0-x7k2p 5f0c"
  cluster_id        = "11111111-1111-4111-8111-111111111111"
  template_id       = "22222222-2222-4222-8222-222222222222"
  memory            = 17179869184
  guaranteed_memory = 8589934592
  maximum_memory    = 34359738368
  memory_ballooning = false
  huge_pages        = 2048
  cpu = {
    cores   = 2
    sockets = 1
    threads = 1
  }
  cpu_mode                 = "host_passthrough"
  vm_type                  = "high_performance"
  os_type                  = "ol_9x64"
  serial_console           = true
  soundcard_enabled        = false
  remove_graphics_consoles = true
  description              = "made \"by\" $${us} <&&>"
  tag_ids                  = ["55555555-5555-4555-8555-555555555555"]
  clone                    = true
  root_disk = {
    format            = "raw"
    provisioning      = "non-sparse"
    storage_domain_id = "77777777-7777-4777-8777-777777777777"
    template_disk_id  = "66666666-6666-4666-8666-666666666666"
  }
  root_disk_size = 107374182400
  data_disks = [{
    format            = "raw"
    interface         = "virtio"
    name              = "etcd"
    size              = 10737418240
    sparse            = false
    storage_domain_id = "77777777-7777-4777-8777-777777777777"
  }]
  nics = [{
    name            = "nic1"
    vnic_profile_id = "33333333-3333-4333-8333-333333333333"
    }, {
    interface       = "e1000e"
    mac             = "56:6f:1a:00:00:01"
    name            = "storage"
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
