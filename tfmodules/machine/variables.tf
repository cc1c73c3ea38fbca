variable "name" {
  description = "Name of the VM; unique within the data center."
  type        = string
}

variable "comment" {
  description = "Comment of the VM: it marks the owner, and is how an orphan is recognised."
  type        = string
}

variable "cluster_id" {
  description = "UUID of the engine's cluster."
  type        = string
}

variable "template_id" {
  description = "UUID of the engine's template."
  type        = string
}

variable "cpu" {
  description = "Topology of the virtual CPU."
  type = object({
    cores   = number
    sockets = number
    threads = number
  })
}

variable "memory" {
  description = "Memory in bytes."
  type        = number
}

variable "hostname" {
  description = "Host name of the guest."
  type        = string
}

variable "user_data" {
  description = "User data for the guest's first boot. It holds secrets and is part of the state."
  type        = string
  sensitive   = true
}

variable "nics" {
  description = "Network interfaces of the VM, by their names in the engine."
  type = list(object({
    name            = string
    vnic_profile_id = string
  }))
}

variable "guest_network" {
  description = "Static IPv4 configuration that the engine hands to the guest; null leaves it to the user data."
  type = object({
    interface = string
    address   = string
    netmask   = string
    gateway   = string
  })
  default = null
}

variable "placement" {
  description = "Hosts on which the VM may run, by their UUIDs, and whether it may migrate; null leaves both to the engine."
  type = object({
    affinity = string
    host_ids = set(string)
  })
  default = null
}

variable "affinity_groups" {
  description = "UUIDs of the affinity groups of the VM, by their names."
  type        = map(string)
  default     = {}
}
