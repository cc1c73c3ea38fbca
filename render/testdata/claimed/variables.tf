variable "ovirt_username" {
  description = "User of the engine, with its domain."
  type        = string
  sensitive   = true
  ephemeral   = true
}

variable "ovirt_password" {
  description = "Password of the user. Ephemeral: neither plan nor state holds it."
  type        = string
  sensitive   = true
  ephemeral   = true
}

variable "user_data" {
  description = "User data of the guest; it becomes part of the state."
  type        = string
  sensitive   = true
}
