import {
  to = ovirt_nic.nic1
  id = "44444444-4444-4444-8444-444444444444/5"
}

import {
  to = ovirt_vm.this
  id = "44444444-4444-4444-8444-444444444444"
}
