// Package render turns typed machines into Terraform configurations.
//
// It is pure: no clients, no files, no clock. The same input gives the same
// bytes. HCL is written by hclwrite from values, never by formatting text, so
// that nothing in a name or in user data can become configuration. Secrets are
// variables; their values are in SecretsFile alone.
package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/capolvm/cluster-api-provider-olvm/tfmodules"
)

// The files of a configuration.
const (
	// MainFile calls the module with literal arguments, and has the outputs.
	MainFile = "main.tf"
	// GuestFile says what the guest is told about its network at its first boot.
	GuestFile = "guest.tf"
	// ProviderFile has the terraform and provider blocks.
	ProviderFile = "provider.tf"
	// VariablesFile declares the secrets.
	VariablesFile = "variables.tf"
	// ImportsFile adopts what exists; absent in most configurations.
	ImportsFile = "imports.tf"
	// CAFile holds the certificates that sign the engine's; absent where the system's are used.
	CAFile = "ca.pem"
	// SecretsFile holds the values of the secret variables. Terraform loads it by itself.
	SecretsFile = "terraform.tfvars.json" //nolint:gosec // a file name

	// maxNICs is how many network interfaces the module can make.
	maxNICs = 8

	machineModule    = "machine"
	extensionsModule = "extensions"
	moduleDir        = "modules"

	// ProviderSource names the provider with its host, because OpenTofu's default registry is another.
	ProviderSource = "registry.terraform.io/ovirt/ovirt"
)

// Addresses of a machine's resources in its state.
const (
	VMAddress    = "module.machine.ovirt_vm.this"
	StartAddress = "module.machine.ovirt_vm_start.this"

	OptimizeCPUAddress = "module.machine.ovirt_vm_optimize_cpu_settings.this[0]"
)

// NICAddress is the address in the state of the network interface at that index, which has that name.
func NICAddress(index int, name string) string {
	return fmt.Sprintf("module.machine.ovirt_nic.nic%d[%q]", index+1, name)
}

// TagAddress is the address in the state of a VM's tag.
func TagAddress(tagID string) string {
	return fmt.Sprintf("module.machine.ovirt_vm_tag.this[%q]", tagID)
}

// Files are the files of one configuration, by their slash-separated paths.
type Files map[string][]byte

// Digest identifies what the configuration asks for: the machine and its module. Secrets, the way to the engine and
// adoption are left out, so that rotating a password or a CA plans nothing; and what a guest reads once, at its first boot.
func (f Files) Digest() string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if name == MainFile || strings.HasPrefix(name, moduleDir+"/") {
			_, _ = fmt.Fprintf(hash, "%q %d\n", name, len(f[name]))
			hash.Write(f[name])
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Engine is the way to an engine.
type Engine struct {
	// URL of the API, without a trailing slash.
	URL string
	// CA holds PEM certificates; empty means the system's trust store.
	CA string
	// Insecure turns verification off.
	Insecure bool
	// Username and Password; secrets.
	Username, Password string
}

// Machine is everything that decides one VM; all names are resolved.
type Machine struct {
	Engine Engine

	// Name of the VM, and host name of the guest.
	Name string
	// Comment marks the owner.
	Comment string
	// ClusterID and TemplateID are UUIDs of the engine.
	ClusterID, TemplateID string
	// Cores, Sockets, Threads of the CPU.
	Cores, Sockets, Threads int64
	// Memory in bytes. It and the CPU are zero where InstanceTypeID has them.
	Memory int64
	// InstanceTypeID is the UUID of the instance type that sizes the VM.
	InstanceTypeID string
	// GuaranteedMemory and MaximumMemory in bytes; zero leaves them to the engine.
	GuaranteedMemory, MaximumMemory int64
	// HugePages is the size of the pages in KiB; zero means ordinary ones.
	HugePages int64
	// CPUMode, OSType and VMType as the engine spells them; empty leaves them to the engine.
	CPUMode, OSType, VMType string
	// MemoryBallooning, SerialConsole and SoundCard; nil leaves them to the engine.
	MemoryBallooning, SerialConsole, SoundCard *bool
	// OptimizeCPU lets the engine size and pin the CPU by the VM's hosts.
	OptimizeCPU bool
	// RemoveGraphicsConsoles takes those of the template away.
	RemoveGraphicsConsoles bool
	// Description of the VM.
	Description string
	// Clone copies the template's disks; nil leaves it to the engine, which links.
	Clone *bool
	// RootDisk is how the template's bootable disk is copied; nil leaves it to the engine.
	RootDisk *RootDisk
	// RootDiskSize in bytes to which the root disk is grown; zero leaves it.
	RootDiskSize int64
	// DataDisks beside those of the template.
	DataDisks []DataDisk
	// TagIDs are UUIDs of tags.
	TagIDs []string
	// NICs of the VM.
	NICs []NIC
	// Guests configure network interfaces in the guest; others are up to the user data.
	Guests []GuestNIC
	// DNSServers and SearchDomains of the guest.
	DNSServers, SearchDomains []string
	// UserData of the guest; a secret.
	UserData string
	// Placement on hosts; nil leaves it to the engine.
	Placement *Placement
	// AffinityGroups are the UUIDs of the VM's affinity groups, by the groups' names.
	AffinityGroups map[string]string
}

// NIC is a network interface of the VM.
type NIC struct {
	Name          string
	VNICProfileID string
	// MAC and Interface (the emulated hardware); empty leaves them to the engine.
	MAC, Interface string
}

// extended says whether the machine asks for what the released provider does not have.
func (in *Machine) extended() bool {
	return in.GuaranteedMemory != 0 || in.Description != "" || slices.ContainsFunc(in.NICs, func(n NIC) bool { return n.MAC != "" || n.Interface != "" }) ||
		len(in.DNSServers)+len(in.SearchDomains) > 0 || len(in.Guests) > 1 || slices.ContainsFunc(in.Guests, GuestNIC.extended)
}

// RootDisk is how the template's bootable disk is copied; empty fields leave it to the engine.
type RootDisk struct {
	TemplateDiskID string
	// Format is cow or raw, Provisioning sparse or non-sparse.
	Format, Provisioning string
	StorageDomainID      string
}

// DataDisk is a disk beside those of the template.
type DataDisk struct {
	Name string
	// Size in bytes.
	Size            int64
	Format          string
	Sparse          bool
	StorageDomainID string
	Interface       string
}

// DiskAlias is the name of a data disk in the engine.
func DiskAlias(vmName, diskName string) string { return vmName + "_" + diskName }

// DataDiskAddress is the address of a data disk in the state.
func DataDiskAddress(name string) string {
	return fmt.Sprintf("module.machine.ovirt_disk.data[%q]", name)
}

// DataDiskAttachmentAddress is the address of the attachment of a data disk in the state.
func DataDiskAttachmentAddress(name string) string {
	return fmt.Sprintf("module.machine.ovirt_disk_attachment.data[%q]", name)
}

// GuestNIC configures a network interface in the guest; families that are nil are off.
type GuestNIC struct {
	// Interface is the guest's name of it.
	Interface  string
	IPv4, IPv6 *IP
}

// The ways to an address beside a static one, as the engine spells them.
const (
	DHCP     = "dhcp"
	AutoConf = "autoconf"
)

// IP is an address of a network interface, or the way to it.
type IP struct {
	// BootProtocol is empty for a static address.
	BootProtocol string
	// Address; Netmask, dotted for IPv4 and the length of the prefix for IPv6; and Gateway, empty for none.
	Address, Netmask, Gateway string
}

// extended says whether it is more than one static IPv4 address, beside which there may be a static IPv6 address.
func (g GuestNIC) extended() bool {
	return g.IPv4 == nil || g.IPv4.BootProtocol != "" || g.IPv6 != nil && g.IPv6.BootProtocol != ""
}

func (g GuestNIC) value() cty.Value {
	values := map[string]cty.Value{"interface": cty.StringVal(g.Interface)}
	for name, ip := range map[string]*IP{"ipv4": g.IPv4, "ipv6": g.IPv6} {
		if ip == nil {
			continue
		}
		values[name] = object(nil, map[string]string{"boot_protocol": ip.BootProtocol, "address": ip.Address, "netmask": ip.Netmask, "gateway": ip.Gateway})
	}
	return cty.ObjectVal(values)
}

// MachineFiles renders the configuration of one machine.
func MachineFiles(in Machine) (Files, error) {
	switch {
	case in.Name == "":
		return nil, fmt.Errorf("the machine has no name")
	case in.ClusterID == "" || in.TemplateID == "":
		return nil, fmt.Errorf("machine %s: cluster and template must be resolved", in.Name)
	case len(in.NICs) == 0 || len(in.NICs) > maxNICs:
		return nil, fmt.Errorf("machine %s: %d network interfaces; it can have 1 to %d", in.Name, len(in.NICs), maxNICs)
	}
	files := Files{
		MainFile:      mainFile(in),
		GuestFile:     guestFile(in),
		ProviderFile:  providerFile(in.Engine),
		VariablesFile: variablesFile(machineVariables),
	}
	if in.Engine.CA != "" && !in.Engine.Insecure {
		files[CAFile] = []byte(in.Engine.CA)
	}
	for name, content := range tfmodules.Files(machineModule) {
		files[path.Join(moduleDir, machineModule, name)] = content
	}
	if in.extended() {
		for name, content := range tfmodules.Files(extensionsModule) {
			files[path.Join(moduleDir, machineModule, name)] = content
		}
	}
	var err error
	files[SecretsFile], err = secretsFile(in.Engine, map[string]string{"user_data": in.UserData})
	return files, err
}

// Adopting returns the files with an import block for each resource that exists already: the import ID by the address in
// the state. Nothing to adopt returns them as they are.
func (f Files) Adopting(adopt map[string]string) (Files, error) {
	if len(adopt) == 0 {
		return f, nil
	}
	imports, err := importsFile(adopt)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(f)
	out[ImportsFile] = imports
	return out, nil
}

func mainFile(in Machine) []byte {
	file := hclwrite.NewEmptyFile()
	module := file.Body().AppendNewBlock("module", []string{machineModule}).Body()
	set := func(name string, value cty.Value) { module.SetAttributeValue(name, value) }
	set("source", cty.StringVal("./"+path.Join(moduleDir, machineModule)))
	module.AppendNewline()
	set("name", cty.StringVal(in.Name))
	set("comment", cty.StringVal(in.Comment))
	set("cluster_id", cty.StringVal(in.ClusterID))
	set("template_id", cty.StringVal(in.TemplateID))
	setHardware(in, set)
	setDisks(in, set)
	nics := make([]cty.Value, 0, len(in.NICs))
	for _, nic := range in.NICs {
		required := map[string]cty.Value{"name": cty.StringVal(nic.Name), "vnic_profile_id": cty.StringVal(nic.VNICProfileID)}
		nics = append(nics, object(required, map[string]string{"mac": nic.MAC, "interface": nic.Interface}))
	}
	set("nics", cty.TupleVal(nics))
	if in.Placement != nil {
		set("placement", in.Placement.value())
	}
	if len(in.AffinityGroups) > 0 {
		// Keys in quotes: a group may be called for, which begins another kind of expression.
		var groups []hclwrite.ObjectAttrTokens
		for _, name := range slices.Sorted(maps.Keys(in.AffinityGroups)) {
			groups = append(groups, hclwrite.ObjectAttrTokens{Name: hclwrite.TokensForValue(cty.StringVal(name)), Value: hclwrite.TokensForValue(cty.StringVal(in.AffinityGroups[name]))})
		}
		module.SetAttributeRaw("affinity_groups", hclwrite.TokensForObject(groups))
	}
	set("hostname", cty.StringVal(in.Name))
	for _, name := range guestLocals {
		setTraversal(module, name, "local", name)
	}
	setTraversal(module, "user_data", "var", "user_data")
	for _, output := range []string{"vm_id", "nic_ids"} {
		file.Body().AppendNewline()
		setTraversal(file.Body().AppendNewBlock("output", []string{output}).Body(), "value", "module", machineModule, output)
	}
	return hclwrite.Format(file.Bytes())
}

// guestLocals are in GuestFile.
var guestLocals = []string{"guest_nics", "dns_servers", "search_domains"}

func guestFile(in Machine) []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body().AppendNewBlock("locals", nil).Body()
	guests := make([]cty.Value, 0, len(in.Guests))
	for _, guest := range in.Guests {
		guests = append(guests, guest.value())
	}
	orNull := func(list []string) cty.Value {
		if len(list) == 0 {
			return cty.NullVal(cty.DynamicPseudoType)
		}
		return texts(list)
	}
	values := []cty.Value{cty.TupleVal(guests), orNull(in.DNSServers), orNull(in.SearchDomains)}
	for i, name := range guestLocals {
		body.SetAttributeValue(name, values[i])
	}
	return hclwrite.Format(file.Bytes())
}

// setHardware writes the arguments that size the VM; what is left to the engine is left out.
func setHardware(in Machine, set func(string, cty.Value)) {
	text := func(name, value string) {
		if value != "" {
			set(name, cty.StringVal(value))
		}
	}
	number := func(name string, value int64) {
		if value != 0 {
			set(name, cty.NumberIntVal(value))
		}
	}
	flag := func(name string, value *bool) {
		if value != nil {
			set(name, cty.BoolVal(*value))
		}
	}
	text("instance_type_id", in.InstanceTypeID)
	number("memory", in.Memory)
	number("guaranteed_memory", in.GuaranteedMemory)
	number("maximum_memory", in.MaximumMemory)
	flag("memory_ballooning", in.MemoryBallooning)
	number("huge_pages", in.HugePages)
	if in.Cores != 0 {
		set("cpu", cty.ObjectVal(map[string]cty.Value{
			"cores": cty.NumberIntVal(in.Cores), "sockets": cty.NumberIntVal(in.Sockets), "threads": cty.NumberIntVal(in.Threads),
		}))
	}
	text("cpu_mode", in.CPUMode)
	if in.OptimizeCPU {
		set("optimize_cpu_settings", cty.True)
	}
	text("vm_type", in.VMType)
	text("os_type", in.OSType)
	flag("serial_console", in.SerialConsole)
	flag("soundcard_enabled", in.SoundCard)
	if in.RemoveGraphicsConsoles {
		set("remove_graphics_consoles", cty.True)
	}
	text("description", in.Description)
	if len(in.TagIDs) > 0 {
		set("tag_ids", texts(in.TagIDs))
	}
}

// object has the required values, and of the optional ones those that are not empty.
func object(required map[string]cty.Value, optional map[string]string) cty.Value {
	values := maps.Clone(required)
	if values == nil {
		values = map[string]cty.Value{}
	}
	for name, text := range optional {
		if text != "" {
			values[name] = cty.StringVal(text)
		}
	}
	return cty.ObjectVal(values)
}

func texts(list []string) cty.Value {
	values := make([]cty.Value, 0, len(list))
	for _, text := range list {
		values = append(values, cty.StringVal(text))
	}
	return cty.TupleVal(values)
}

func setDisks(in Machine, set func(string, cty.Value)) {
	if in.Clone != nil {
		set("clone", cty.BoolVal(*in.Clone))
	}
	if in.RootDisk != nil {
		required := map[string]cty.Value{"template_disk_id": cty.StringVal(in.RootDisk.TemplateDiskID)}
		set("root_disk", object(required, map[string]string{
			"format": in.RootDisk.Format, "provisioning": in.RootDisk.Provisioning, "storage_domain_id": in.RootDisk.StorageDomainID,
		}))
	}
	if in.RootDiskSize != 0 {
		set("root_disk_size", cty.NumberIntVal(in.RootDiskSize))
	}
	if len(in.DataDisks) == 0 {
		return
	}
	disks := make([]cty.Value, 0, len(in.DataDisks))
	for _, d := range in.DataDisks {
		disks = append(disks, cty.ObjectVal(map[string]cty.Value{
			"name": cty.StringVal(d.Name), "size": cty.NumberIntVal(d.Size), "format": cty.StringVal(d.Format), "sparse": cty.BoolVal(d.Sparse),
			"storage_domain_id": cty.StringVal(d.StorageDomainID), "interface": cty.StringVal(d.Interface),
		}))
	}
	set("data_disks", cty.TupleVal(disks))
}

func providerFile(engine Engine) []byte {
	file := hclwrite.NewEmptyFile()
	terraform := file.Body().AppendNewBlock("terraform", nil).Body()
	// Ephemeral variables came with Terraform 1.10 and OpenTofu 1.11; the executor is checked before it is used.
	terraform.SetAttributeValue("required_version", cty.StringVal(">= 1.10.0"))
	terraform.AppendNewline()
	terraform.AppendNewBlock("required_providers", nil).Body().SetAttributeValue("ovirt", cty.ObjectVal(map[string]cty.Value{
		"source": cty.StringVal(ProviderSource), "version": cty.StringVal(">= 2.2.0"),
	}))
	file.Body().AppendNewline()
	provider := file.Body().AppendNewBlock("provider", []string{"ovirt"}).Body()
	provider.SetAttributeValue("url", cty.StringVal(engine.URL))
	setTraversal(provider, "username", "var", "ovirt_username")
	setTraversal(provider, "password", "var", "ovirt_password")
	switch {
	case engine.Insecure:
		provider.SetAttributeValue("tls_insecure", cty.True)
	case engine.CA != "":
		provider.SetAttributeRaw("tls_ca_bundle", hclwrite.TokensForFunctionCall("file", hclwrite.TokensForValue(cty.StringVal(CAFile))))
	default:
		provider.SetAttributeValue("tls_system", cty.True)
	}
	return hclwrite.Format(file.Bytes())
}

// variable is a secret that a configuration takes.
type variable struct {
	name, description string
	ephemeral         bool
}

// engineVariables are those that every configuration has.
var engineVariables = []variable{
	{"ovirt_username", "User of the engine, with its domain.", true},
	{"ovirt_password", "Password of the user. Ephemeral: neither plan nor state holds it.", true},
}

// machineVariables are those of a machine.
var machineVariables = append(slices.Clone(engineVariables), variable{"user_data", "User data of the guest; it becomes part of the state.", false})

func variablesFile(variables []variable) []byte {
	file := hclwrite.NewEmptyFile()
	for i, variable := range variables {
		if i > 0 {
			file.Body().AppendNewline()
		}
		body := file.Body().AppendNewBlock("variable", []string{variable.name}).Body()
		body.SetAttributeValue("description", cty.StringVal(variable.description))
		setTraversal(body, "type", "string")
		body.SetAttributeValue("sensitive", cty.True)
		if variable.ephemeral {
			body.SetAttributeValue("ephemeral", cty.True)
		}
	}
	return hclwrite.Format(file.Bytes())
}

// importsFile writes an import block for each resource.
func importsFile(adopt map[string]string) ([]byte, error) {
	file := hclwrite.NewEmptyFile()
	for i, address := range slices.Sorted(maps.Keys(adopt)) {
		if i > 0 {
			file.Body().AppendNewline()
		}
		tokens, diags := hclwrite.ParseConfig([]byte("to = "+address+"\n"), ImportsFile, hcl.InitialPos)
		if diags.HasErrors() {
			return nil, fmt.Errorf("%q is not a resource address: %w", address, diags)
		}
		body := file.Body().AppendNewBlock("import", nil).Body()
		body.SetAttributeRaw("to", tokens.Body().GetAttribute("to").Expr().BuildTokens(nil))
		body.SetAttributeValue("id", cty.StringVal(adopt[address]))
	}
	return hclwrite.Format(file.Bytes()), nil
}

// setTraversal sets an attribute to a reference such as var.user_data.
func setTraversal(body *hclwrite.Body, name string, steps ...string) {
	traversal := hcl.Traversal{hcl.TraverseRoot{Name: steps[0]}}
	for _, step := range steps[1:] {
		traversal = append(traversal, hcl.TraverseAttr{Name: step})
	}
	body.SetAttributeTraversal(name, traversal)
}

// DestroyFiles renders a configuration that owns nothing, with which everything in a state is destroyed. It needs no
// name of the engine, so a machine can be deleted after its template or its bootstrap data are gone.
func DestroyFiles(engine Engine) (Files, error) {
	files := Files{ProviderFile: providerFile(engine), VariablesFile: variablesFile(machineVariables)}
	if engine.CA != "" && !engine.Insecure {
		files[CAFile] = []byte(engine.CA)
	}
	var err error
	files[SecretsFile], err = secretsFile(engine, map[string]string{"user_data": ""})
	return files, err
}

func secretsFile(engine Engine, more map[string]string) ([]byte, error) {
	values := map[string]string{"ovirt_username": engine.Username, "ovirt_password": engine.Password}
	maps.Copy(values, more)
	var secrets bytes.Buffer
	encoder := json.NewEncoder(&secrets)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(values); err != nil {
		return nil, fmt.Errorf("failed to encode the secrets: %w", err)
	}
	return secrets.Bytes(), nil
}
