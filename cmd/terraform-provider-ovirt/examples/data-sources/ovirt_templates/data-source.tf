data "ovirt_templates" "t" { name = "ol9-k8s" }
