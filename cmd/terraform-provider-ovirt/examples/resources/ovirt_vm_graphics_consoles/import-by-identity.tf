import {
  to = ovirt_vm_graphics_consoles.a
  identity = {
    vm_id = "00000000-0000-4000-8000-000000000001"
  }
}
