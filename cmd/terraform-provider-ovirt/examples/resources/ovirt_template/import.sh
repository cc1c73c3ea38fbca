# The ID is the UUID of the template.
terraform import ovirt_template.t 00000000-0000-4000-8000-000000000001
