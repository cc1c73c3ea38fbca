data "ovirt_host" "h" { name = "kvm1.example.com" }
