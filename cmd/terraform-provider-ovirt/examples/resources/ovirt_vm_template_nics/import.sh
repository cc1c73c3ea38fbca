# The ID is the UUID of the VM.
terraform import ovirt_vm_template_nics.a 00000000-0000-4000-8000-000000000001
