# The newest version that is ready.
data "ovirt_template" "t" { name = "ol9-k8s" }
