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
  description = "Topology of the virtual CPU; null where an instance type has it."
  type = object({
    cores   = number
    sockets = number
    threads = number
  })
  default = null
}

variable "memory" {
  description = "Memory in bytes; null where an instance type has it."
  type        = number
  default     = null
}

variable "instance_type_id" {
  description = "UUID of the instance type that sizes the VM."
  type        = string
  default     = null
}

variable "clone" {
  description = "Copy the template's disks instead of linking to them."
  type        = bool
  default     = null
}

variable "cpu_mode" {
  description = "CPU mode: custom, host_model or host_passthrough."
  type        = string
  default     = null
}

variable "optimize_cpu_settings" {
  description = "Let the engine size and pin the CPU by the VM's hosts; excludes cpu."
  type        = bool
  default     = false
}

variable "maximum_memory" {
  description = "How far memory can be raised while the VM runs, in bytes."
  type        = number
  default     = null
}

variable "memory_ballooning" {
  description = "Memory ballooning."
  type        = bool
  default     = null
}

variable "huge_pages" {
  description = "Size in KiB of the pages that back the memory."
  type        = number
  default     = null
}

variable "vm_type" {
  description = "Kind of VM: server, desktop or high_performance."
  type        = string
  default     = null
}

variable "os_type" {
  description = "Operating system as the engine spells it."
  type        = string
  default     = null
}

variable "serial_console" {
  description = "Serial console."
  type        = bool
  default     = null
}

variable "soundcard_enabled" {
  description = "Sound card."
  type        = bool
  default     = null
}

variable "remove_graphics_consoles" {
  description = "Take the graphics consoles of the template away."
  type        = bool
  default     = false
}

variable "root_disk" {
  description = "How the template's bootable disk is copied; null leaves it to the engine."
  type = object({
    template_disk_id  = string
    format            = optional(string)
    provisioning      = optional(string)
    storage_domain_id = optional(string)
  })
  default = null
}

variable "root_disk_size" {
  description = "Size in bytes to which the root disk is grown; null leaves it as the template has it."
  type        = number
  default     = null
}

variable "data_disks" {
  description = "Disks beside those of the template; sizes in bytes. They are destroyed with the VM."
  type = list(object({
    name              = string
    size              = number
    format            = string
    sparse            = bool
    storage_domain_id = string
    interface         = string
  }))
  default = []
}

variable "tag_ids" {
  description = "UUIDs of the tags of the VM."
  type        = set(string)
  default     = []
}

variable "guaranteed_memory" {
  description = "Memory in bytes that the VM keeps when its host runs short. Only with extensions_override.tf."
  type        = number
  default     = null
}

variable "description" {
  description = "Description of the VM. Only with extensions_override.tf."
  type        = string
  default     = null
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
  description = "Network interfaces of the VM in their order, by their names in the engine."
  type = list(object({
    name            = string
    vnic_profile_id = string
    # Only with extensions_override.tf.
    mac       = optional(string)
    interface = optional(string)
  }))

  validation {
    condition     = length(var.nics) <= 8
    error_message = "At most 8 network interfaces."
  }
}

variable "guest_nics" {
  description = "What the engine tells the guest about its network interfaces; others are up to the user data. A boot protocol other than static, more than one interface, or one without an IPv4 address only with extensions_override.tf."
  type = list(object({
    interface = string
    ipv4 = optional(object({
      boot_protocol = optional(string, "static")
      address       = optional(string)
      netmask       = optional(string)
      gateway       = optional(string)
    }))
    ipv6 = optional(object({
      boot_protocol = optional(string, "static")
      address       = optional(string)
      netmask       = optional(string)
      gateway       = optional(string)
    }))
  }))
  default = []
}

variable "dns_servers" {
  description = "IP addresses of the guest's DNS servers. Only with extensions_override.tf."
  type        = list(string)
  default     = null
}

variable "search_domains" {
  description = "Domains in which the guest looks for names without one. Only with extensions_override.tf."
  type        = list(string)
  default     = null
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
