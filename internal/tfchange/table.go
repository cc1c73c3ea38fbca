package tfchange

// Effect is when the engine takes a change, or what it costs.
type Effect string

const (
	// AtOnce is a change that takes effect when it is applied, also while a VM runs.
	AtOnce Effect = "at once"
	// NextStart is a change that a VM that runs keeps for its next start. A VM that is down has it at once.
	NextStart Effect = "next start"
	// WhileDown is a change that the engine refuses while the VM runs. Nothing is lost: the apply fails.
	WhileDown Effect = "while down"
	// Replacement is a change for which the object is deleted and another one is made.
	Replacement Effect = "replacement"
	// Local is a change that only the provider reads, such as how a VM is stopped. It sends nothing.
	Local Effect = "no request"
)

// Change is what a change of an attribute does.
type Change struct {
	Effect Effect
	// Loses is what is lost with a replacement; empty if that is nothing which the next object does not have.
	Loses string
	// Proof is the recording (scenario/step) or the source of the engine that shows it.
	Proof string
}

// The sources that several attributes have. VmBase and VmStatic are classes of the engine, whose annotations say in
// which statuses a field may be changed; a field that may be changed only while the VM is down waits if it runs.
const (
	customProperties = "source: VmBase.customProperties, editable on status Down"
	firstBoot        = "drives of adopt-vm: a guest reads it at its first start only"
	membership       = "the engine adds and removes members"
	ownPath          = "the ID of its owner is part of its path"
)

// What a replacement loses.
const (
	disksOfVM = "the VM with its disks"
	diskData  = "the data of the disk"
)

// table has the attributes and blocks by resource. Computed attributes are not in it.
var table = map[string]map[string]Change{
	"ovirt_vm": {
		"name":                              {AtOnce, "", "vm-run/29"},
		"comment":                           {AtOnce, "", "vm-run/12"},
		"description":                       {AtOnce, "", "vm-run/13"},
		"cluster_id":                        {WhileDown, "", "vm-run/33 (409); source: VmBase.clusterId"},
		"template_id":                       {Replacement, disksOfVM, "rebuild-root-disk: a PUT has no effect"},
		"clone":                             {Replacement, disksOfVM, "template-disks: only a create copies disks"},
		"template_disk_attachment_override": {Replacement, disksOfVM, "template-disks: only a create copies disks"},
		"cpu_cores":                         {NextStart, "", "vm-run/21"},
		"cpu_threads":                       {NextStart, "", "source: VmBase.threadsPerCpu, editable on status Down"},
		"cpu_sockets":                       {AtOnce, "", "vm-run/20; fewer: next start, memory-headroom"},
		"cpu_mode":                          {NextStart, "", "source: VmBase.useHostCpuFlags, editable on status Down"},
		"os_type":                           {AtOnce, "", "vm-run/23"},
		"vm_type":                           {NextStart, "", "vm-run/22"},
		"placement_policy_affinity":         {AtOnce, "", "vm-run/31, 32"},
		"placement_policy_host_ids":         {AtOnce, "", "vm-options/219; source: VmBase.dedicatedVmForVdsList"},
		"instance_type_id":                  {NextStart, "", "source: VmStatic.instanceTypeId, with its sizes"},
		"huge_pages":                        {NextStart, "", customProperties},
		"memory":                            {AtOnce, "", "vm-run/14; less, or no step of 128 MiB: vm-run/37"},
		"maximum_memory":                    {NextStart, "", "vm-run/18"},
		"memory_ballooning":                 {NextStart, "", "vm-run/19"},
		"guaranteed_memory":                 {AtOnce, "", "vm-run/17"},
		"serial_console":                    {NextStart, "", "vm-run/24"},
		"soundcard_enabled":                 {NextStart, "", "vm-run/25"},
		"high_availability":                 {AtOnce, "", "high-availability: up"},
		"high_availability_priority":        {AtOnce, "", "high-availability/75"},
		"lease_storage_domain_id":           {AtOnce, "", "high-availability/79; another domain: 409, /77"},
		"storage_error_resume_behaviour":    {NextStart, "", "source: VmBase.resumeBehavior, editable on status Down"},
		"bios_type":                         {NextStart, "", "source: VmBase.biosType, editable on status Down"},
		"tpm_enabled":                       {NextStart, "", "a device of the VM; a running engine 4.5.8"},
		"custom_properties":                 {NextStart, "", customProperties},
		"initialization_custom_script":      {Replacement, disksOfVM, firstBoot},
		"initialization_custom_script_wo":   {Local, "", ""},
		"initialization_custom_script_wo_version": {Replacement, disksOfVM, firstBoot},
		"initialization_hostname":                 {Replacement, disksOfVM, firstBoot},
		"initialization_dns_servers":              {Replacement, disksOfVM, firstBoot},
		"initialization_search_domains":           {Replacement, disksOfVM, firstBoot},
		"initialization_nic":                      {Replacement, disksOfVM, firstBoot},
	},
	"ovirt_nic": {
		"name":            {AtOnce, "", "nics/54"},
		"vnic_profile_id": {AtOnce, "", "nics/58, 59; source: UpdateVmInterfaceCommand for a VM that runs"},
		"mac":             {AtOnce, "", "nics/61; unplugged for it if the VM runs, source: UpdateVmInterfaceCommand"},
		"interface":       {AtOnce, "", "nics/60; unplugged for it if the VM runs, source: UpdateVmInterfaceCommand"},
		"linked":          {AtOnce, "", "nics/56; source: UpdateVmInterfaceCommand for a VM that runs"},
		"plugged":         {AtOnce, "", "nics/57, 64 to 66; of a VM that runs: vm-run, deactivate"},
		"vm_id":           {Replacement, "", ownPath},
	},
	"ovirt_vm_start": {
		"vm_id":              {Replacement, "", "another VM is started, and this one stopped"},
		"status":             {AtOnce, "", "vm-run/2"},
		"stop_behavior":      {Local, "", ""},
		"force_stop":         {Local, "", ""},
		"use_initialization": {Local, "", ""},
	},
	"ovirt_adopted_vm": {
		"vm_id":                                   {Replacement, "", "another VM is taken over, this one given back"},
		"initialization_custom_script":            {Replacement, "", firstBoot},
		"initialization_custom_script_wo":         {Local, "", ""},
		"initialization_custom_script_wo_version": {Replacement, "", firstBoot},
		"initialization_hostname":                 {Replacement, "", firstBoot},
		"initialization_dns_servers":              {Replacement, "", firstBoot},
		"initialization_search_domains":           {Replacement, "", firstBoot},
		"initialization_nic":                      {Replacement, "", firstBoot},
	},
	"ovirt_disk": {
		"alias":             {AtOnce, "", "disks/77"},
		"size":              {AtOnce, "", "disks/74; less: 400, disks/76"},
		"format":            {Replacement, diskData, "source: UpdateDiskCommand has no format"},
		"sparse":            {Replacement, diskData, "source: UpdateDiskCommand has no allocation"},
		"storage_domain_id": {AtOnce, "", "the action move, at a running engine 4.5.8"},
	},
	"ovirt_disk_from_image": {
		"alias":             {AtOnce, "", "disks/77"},
		"format":            {Replacement, diskData, "source: UpdateDiskCommand has no format"},
		"sparse":            {Replacement, diskData, "source: UpdateDiskCommand has no allocation"},
		"storage_domain_id": {AtOnce, "", "the action move, at a running engine 4.5.8"},
		"source_file":       {Replacement, diskData, "another image is another disk"},
	},
	"ovirt_disk_resize": {
		"disk_id": {Replacement, "", "destroying it changes nothing"},
		"size":    {AtOnce, "", "disks/74"},
	},
	"ovirt_vm_disks_resize": {
		"vm_id": {Replacement, "", "destroying it changes nothing"},
		"size":  {AtOnce, "", "disks/74"},
	},
	"ovirt_disk_attachment": {
		"vm_id":          {Replacement, "", ownPath},
		"disk_id":        {Replacement, "", "the ID of an attachment is that of its disk"},
		"disk_interface": {WhileDown, "", "source: UpdateDiskCommand (409 while the disk is active in a VM that runs)"},
		"active":         {AtOnce, "", "source: UpdateDiskCommand hot-plugs it"},
		"bootable":       {WhileDown, "", "source: UpdateDiskCommand (409 while the disk is active in a VM that runs)"},
	},
	"ovirt_disk_attachments": {
		"vm_id":            {Replacement, "", ownPath},
		"detach_unmanaged": {AtOnce, "", "disk-attachments: detach"},
		"remove_unmanaged": {AtOnce, diskData, "disk-attachments: remove"},
		"attachment":       {AtOnce, "", "as ovirt_disk_attachment, each"},
	},
	"ovirt_template": {
		"name":        {AtOnce, "", "templates"},
		"description": {AtOnce, "", "templates"},
		"vm_id":       {Replacement, "the template", "a template is made of one VM"},
	},
	"ovirt_vm_snapshot": {
		"vm_id":       {Replacement, "the snapshot", ownPath},
		"description": {Replacement, "the snapshot", "the engine has no request that changes one"},
		"memory":      {Replacement, "the snapshot", "snapshots/25: only a create decides it"},
	},
	"ovirt_vm_cdrom": {
		"vm_id":   {Replacement, "", ownPath},
		"disk_id": {AtOnce, "", "source: ChangeDiskCommand; the answer is in no recording"},
	},
	"ovirt_affinity_label": {
		"name":                    {AtOnce, "", "source: UpdateLabelCommand; the answer is in no recording"},
		"implicit_affinity_group": {AtOnce, "", "source: UpdateLabelCommand; the answer is in no recording"},
	},
	"ovirt_vm_affinity_label": {
		"label_id": {Replacement, "", membership},
		"vm_id":    {Replacement, "", membership},
	},
	"ovirt_host_affinity_label": {
		"label_id": {Replacement, "", membership},
		"host_id":  {Replacement, "", membership},
	},
	"ovirt_tag": {
		"name":        {AtOnce, "", "tags/29"},
		"description": {AtOnce, "", "tags/28"},
	},
	"ovirt_vm_tag": {
		"tag_id": {Replacement, "", membership},
		"vm_id":  {Replacement, "", membership},
	},
	"ovirt_permission": {
		"object_type": {Replacement, "", ownPath},
		"object_id":   {Replacement, "", ownPath},
		"role":        {Replacement, "", "the engine has no request that changes one"},
		"user_id":     {Replacement, "", "the engine has no request that changes one"},
		"group_id":    {Replacement, "", "the engine has no request that changes one"},
	},
	"ovirt_affinity_group": {
		"cluster_id":  {Replacement, "", ownPath},
		"name":        {AtOnce, "", "affinity-groups"},
		"description": {AtOnce, "", "affinity-groups"},
		"enforcing":   {AtOnce, "", "affinity-groups"},
		"priority":    {AtOnce, "", "affinity-groups"},
		"vms_rule":    {AtOnce, "", "affinity-groups"},
		"hosts_rule":  {AtOnce, "", "affinity-groups"},
	},
	"ovirt_vm_affinity_group": {
		"cluster_id":        {Replacement, "", membership},
		"affinity_group_id": {Replacement, "", membership},
		"vm_id":             {Replacement, "", membership},
	},
	"ovirt_vm_graphics_consoles": {
		"vm_id":   {Replacement, "", "destroying it changes nothing"},
		"console": {Local, "", "no block is accepted"},
	},
	"ovirt_vm_template_nics": {
		"vm_id": {Replacement, "", "destroying it changes nothing"},
		"kept":  {Local, "", "only a create removes network interfaces"},
	},
	"ovirt_vm_watchdog": {
		"vm_id":  {Replacement, "", ownPath},
		"model":  {NextStart, "", "high-availability/107; a device of the VM"},
		"action": {NextStart, "", "high-availability/102 to 105; a device of the VM"},
	},
	"ovirt_vm_host_device": {
		"vm_id": {Replacement, "", membership},
		"name":  {Replacement, "", membership},
	},
	"ovirt_vm_mediated_device": {
		"vm_id": {Replacement, "", ownPath},
		"type":  {Replacement, "", "a running engine 4.5.8: PUT is 403"},
	},
	"ovirt_vm_optimize_cpu_settings": {
		"vm_id": {Replacement, "", "another VM is pinned"},
	},
}

// FindChange returns what a change of an attribute does; false if the table does not have it.
func FindChange(resource, attribute string) (Change, bool) {
	change, known := table[resource][attribute]
	return change, known
}

// Attributes returns the attributes of a resource that can be changed.
func Attributes(resource string) map[string]Change { return table[resource] }
