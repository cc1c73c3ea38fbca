import {
  to = ovirt_vm_template_nics.a
  identity = {
    vm_id = "00000000-0000-4000-8000-000000000001"
  }
}
