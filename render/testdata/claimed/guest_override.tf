# Added to the VM: what its guest is told about its network at its first boot.
resource "ovirt_adopted_vm" "this" {
  initialization_nic {
    name = "enp1s0"
    ipv4 {
      address = "10.20.30.161"
      netmask = "255.255.255.0"
      gateway = "10.20.30.1"
    }
  }
}
