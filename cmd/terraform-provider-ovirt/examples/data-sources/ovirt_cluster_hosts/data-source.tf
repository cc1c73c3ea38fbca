data "ovirt_cluster_hosts" "h" { cluster_id = local.cluster_id }
