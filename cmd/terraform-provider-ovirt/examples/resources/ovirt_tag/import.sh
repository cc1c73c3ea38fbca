# The ID is the UUID of the tag.
terraform import ovirt_tag.t 00000000-0000-4000-8000-000000000001
