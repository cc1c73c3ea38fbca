output "memory" {
  value = provider::ovirt::size(ovirt_vm.a.memory)
}
