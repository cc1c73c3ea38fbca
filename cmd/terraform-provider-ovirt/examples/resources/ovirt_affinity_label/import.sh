# The ID is the UUID of the label.
terraform import ovirt_affinity_label.l 00000000-0000-4000-8000-000000000001
