variable "name" {
  description = "Name of the template."
  type        = string
}

variable "description" {
  description = "Description of the template."
  type        = string
}

variable "vm_name" {
  description = "Name of the virtual machine that the template is made of."
  type        = string
}

variable "comment" {
  description = "Comment of that virtual machine: whose it is."
  type        = string
}

variable "cluster_id" {
  description = "UUID of the engine's cluster."
  type        = string
}

variable "disk_id" {
  description = "UUID of the disk. The template has a copy of it."
  type        = string
}

variable "os_type" {
  description = "Operating system as the engine spells it: with rhcos_x64 it hands user data to Ignition."
  type        = string
}

variable "memory" {
  description = "Memory in bytes of machines that do not say theirs."
  type        = number
}
