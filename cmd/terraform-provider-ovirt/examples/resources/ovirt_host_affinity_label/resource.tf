resource "ovirt_host_affinity_label" "h" {
  label_id = ovirt_affinity_label.l.id
  host_id  = data.ovirt_host.h.id
}
