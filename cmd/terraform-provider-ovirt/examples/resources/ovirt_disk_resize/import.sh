# The ID is the UUID of the disk.
terraform import ovirt_disk_resize.d 00000000-0000-4000-8000-000000000001
