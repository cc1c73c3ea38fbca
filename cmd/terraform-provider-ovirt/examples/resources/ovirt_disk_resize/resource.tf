resource "ovirt_disk_resize" "d" {
  disk_id = local.disk_id
  size    = 21474836480
}
