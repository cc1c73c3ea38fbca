// Package render converts typed machines to Terraform configurations.
//
// It is pure: it uses no clients, no files and no clock. The same input always gives the same bytes. hclwrite writes
// HCL from values and traversals. The package never parses text as HCL, so names, IDs and user data stay values,
// whatever their origin. A fuzz target evaluates the rendered files. Secrets are variables, and only SecretsFile has
// their values.
package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// These are the files of a configuration.
const (
	// MainFile has the resources with literal arguments, and the outputs.
	MainFile = "main.tf"
	// GuestFile adds the guest's network settings for its first boot to the VM.
	GuestFile = "guest_override.tf"
	// ProviderFile has the terraform and provider blocks.
	ProviderFile = "provider.tf"
	// VariablesFile declares the secrets.
	VariablesFile = "variables.tf"
	// ImportsFile imports existing objects. Most configurations do not have this file.
	ImportsFile = "imports.tf"
	// CAFile has the CA certificates of the engine. It is absent if the system's CAs are used.
	CAFile = "ca.pem"
	// SecretsFile has the values of the secret variables. Terraform loads it automatically.
	SecretsFile = "terraform.tfvars.json" //nolint:gosec // a file name

	// maxNICs limits the network interfaces of a machine.
	maxNICs = 8

	moduleDir = "modules"

	// ProviderSource includes the host, because OpenTofu has another default registry.
	ProviderSource = "registry.terraform.io/ovirt/ovirt"
)

// Files maps the slash-separated paths of files in a configuration to their contents.
type Files map[string][]byte

// Configuration is the input of Terraform. It also limits a run: a run is refused if it would touch other resources, or
// use another engine.
type Configuration struct {
	Files Files
	// Resources are the instances of all resources and data sources in the files.
	Resources []Address
	// Kind is the kind of the created objects. A run refuses a state with types of another kind.
	Kind Kind
	// Engine is the engine that the files name.
	Engine Engine
}

// Digest identifies the requested resources, including modules. It excludes secrets, imports, and the connection to the
// engine, so a new password or CA causes no plan. It also excludes settings that a guest reads only at its first boot.
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

// Engine is the connection to an engine.
type Engine struct {
	// URL is the URL of the API, without a trailing slash.
	URL string
	// CA has the CA certificates in PEM. It is empty for the system's trust store.
	CA string
	// Insecure disables the verification of the engine's certificate.
	Insecure bool
	// Username and Password are secrets.
	Username, Password string
}

// Machine is the complete input for one VM. All names are already resolved.
type Machine struct {
	Engine Engine

	// Name is the name of the VM, and the host name of its guest.
	Name string
	// ClaimedVMID is the UUID of the pool's VM that the machine takes over. It is empty for a new VM. For a claimed VM,
	// only those of the other fields count that configure the guest.
	ClaimedVMID string
	// Pooled reports whether the VM is created for a pool. Such a VM is not started, and its guest gets only network
	// settings.
	Pooled bool
	// Comment is the mark of the owner.
	Comment string
	// ClusterID and TemplateID are UUIDs of the engine.
	ClusterID, TemplateID string
	// Cores, Sockets and Threads are the topology of the CPU.
	Cores, Sockets, Threads int64
	// Memory is the memory in bytes. Memory and CPU are zero if InstanceTypeID sets them.
	Memory int64
	// InstanceTypeID is the UUID of the instance type that sets the sizes of the VM.
	InstanceTypeID string
	// GuaranteedMemory and MaximumMemory are in bytes. If they are zero, the engine decides.
	GuaranteedMemory, MaximumMemory int64
	// HugePages is the page size in KiB. Zero means ordinary pages.
	HugePages int64
	// CPUMode, OSType and VMType are in the engine's spelling. If they are empty, the engine decides.
	CPUMode, OSType, VMType string
	// HighAvailability has the settings for high availability. If it is nil, the engine decides.
	HighAvailability *HighAvailability
	// BIOSType is in the engine's spelling. If BIOSType is empty, or TPM is nil, the engine decides.
	BIOSType string
	TPM      *bool
	// WatchdogAction is the action of the watchdog. "" means no watchdog.
	WatchdogAction string
	// HostDevices are the names of devices on the host that the VM is pinned to.
	HostDevices []string
	// MediatedDevices are types of mediated devices.
	MediatedDevices []string
	// CustomProperties are the custom properties by name, except huge pages.
	CustomProperties map[string]string
	// MemoryBallooning, SerialConsole and SoundCard turn these on or off. If they are nil, the engine decides.
	MemoryBallooning, SerialConsole, SoundCard *bool
	// OptimizeCPU lets the engine adapt the CPU to the VM's hosts and pin it.
	OptimizeCPU bool
	// RemoveGraphicsConsoles removes the graphics consoles that come from the template.
	RemoveGraphicsConsoles bool
	// Description is the description of the VM.
	Description string
	// Clone copies the template's disks. If it is nil, the engine decides, and links them.
	Clone *bool
	// TemplateDisks are the settings for copying the template's disks. The bootable disk comes first. The engine
	// accepts settings for all disks, or for none. Without settings, it decides.
	TemplateDisks []TemplateDisk
	// RootDiskSize is the size in bytes that the root disk grows to. If it is zero, the size does not change.
	RootDiskSize int64
	// DataDisks are the disks in addition to those of the template.
	DataDisks []DataDisk
	// TagIDs are UUIDs of tags.
	TagIDs []string
	// NICs are the network interfaces of the VM.
	NICs []NIC
	// RemoveTemplateNICs removes the template's network interfaces that are not in NICs.
	RemoveTemplateNICs bool
	// Guests are the network interfaces that have settings in the guest.
	Guests []GuestNIC
	// DNSServers and SearchDomains are the DNS settings of the guest.
	DNSServers, SearchDomains []string
	// HostName is the host name that the engine passes to the guest. It is empty if the user data contain it.
	HostName string
	// UserData are the user data of the guest. They are a secret.
	UserData string
	// Placement restricts the hosts of the VM. If it is nil, the engine decides.
	Placement *Placement
	// AffinityGroups are the UUIDs of the VM's affinity groups by their names.
	AffinityGroups map[string]string
}

// HighAvailability has the settings for high availability. The engine decides about zero values.
type HighAvailability struct {
	Priority int64
	// LeaseStorageDomainID is the UUID of the storage domain for the VM's lease. "" means no lease.
	LeaseStorageDomainID string
	// StorageError is how the VM reacts to a storage error, in the engine's spelling.
	StorageError string
}

// NIC is a network interface of the VM.
type NIC struct {
	Name          string
	VNICProfileID string
	// MAC is the address, and Interface the emulated hardware. If they are empty, the engine decides.
	MAC, Interface string
}

// TemplateDisk configures the copy of a template's disk. The engine decides about empty fields.
type TemplateDisk struct {
	ID string
	// Format is cow or raw, and Provisioning is sparse or non-sparse.
	Format, Provisioning string
	StorageDomainID      string
}

// DataDisk is a disk in addition to those of the template.
type DataDisk struct {
	Name string
	// Size is the size in bytes.
	Size            int64
	Format          string
	Sparse          bool
	StorageDomainID string
	Interface       string
}

// DiskAlias returns the name of a data disk in the engine.
func DiskAlias(vmName, diskName string) string { return vmName + "_" + diskName }

// MachineConfiguration renders the configuration of one machine.
func MachineConfiguration(in Machine) (Configuration, error) {
	main, err := buildMachineMain(in)
	if err != nil {
		return Configuration{}, err
	}

	variables, secrets := machineVariables, map[string]string{"user_data": in.UserData}
	if in.Pooled {
		variables, secrets = engineVariables, nil
	}

	files := renderEngineFiles(in.Engine, variables)
	files[MainFile] = main.file.Bytes()

	if len(in.passedGuests())+len(in.DNSServers)+len(in.SearchDomains) > 0 {
		files[GuestFile] = renderGuestFile(in)
	}

	files[SecretsFile], err = renderSecretsFile(in.Engine, secrets)

	return Configuration{Files: files, Resources: main.declared, Kind: in.configurationKind(), Engine: in.Engine}, err
}

// configurationKind returns the kind of a machine's configuration.
func (in *Machine) configurationKind() Kind {
	switch {
	case in.ClaimedVMID != "":
		return ClaimedVM
	case in.Pooled:
		return PooledVM
	}

	return OwnVM
}

// MachineDigest returns the digest of the result of MachineConfiguration. It renders only the files that the digest
// covers.
func MachineDigest(in Machine) (string, error) {
	main, err := buildMachineMain(in)
	if err != nil {
		return "", err
	}

	return Files{MainFile: main.file.Bytes()}.Digest(), nil
}

// buildMachineMain writes the main file of one machine.
func buildMachineMain(in Machine) (*writer, error) {
	switch {
	case in.Name == "":
		return nil, fmt.Errorf("the machine has no name")
	case in.ClaimedVMID != "":
		return buildClaimedFile(in), nil
	case in.ClusterID == "" || in.TemplateID == "":
		return nil, fmt.Errorf("machine %s: cluster and template must be resolved", in.Name)
	case len(in.NICs) == 0 || len(in.NICs) > maxNICs:
		return nil, fmt.Errorf("machine %s: %d network interfaces; it can have 1 to %d", in.Name, len(in.NICs), maxNICs)
	}

	return buildMainFile(in), nil
}

// WithImports adds an import block for each existing resource to the configuration. adopt maps addresses in the state
// to import IDs. If it is empty, the configuration does not change.
func (c Configuration) WithImports(adopt map[Address]string) Configuration {
	if len(adopt) == 0 {
		return c
	}

	c.Files = maps.Clone(c.Files)
	c.Files[ImportsFile] = renderImportsFile(adopt)

	return c
}

// renderEngineFiles returns the files that all configurations have, without the values of variables.
func renderEngineFiles(engine Engine, variables []variable) Files {
	files := Files{ProviderFile: renderProviderFile(engine), VariablesFile: renderVariablesFile(variables)}
	if engine.CA != "" && !engine.Insecure {
		files[CAFile] = []byte(engine.CA)
	}

	return files
}

func renderProviderFile(engine Engine) []byte {
	file := hclwrite.NewEmptyFile()
	terraform := file.Body().AppendNewBlock("terraform", nil).Body()

	// Ephemeral variables need Terraform 1.10 or OpenTofu 1.11. The manager checks the executor before it uses it.
	terraform.SetAttributeValue("required_version", cty.StringVal(">= 1.10.0"))
	terraform.AppendNewline()
	terraform.AppendNewBlock("required_providers", nil).
		Body().
		SetAttributeValue("ovirt", cty.ObjectVal(map[string]cty.Value{
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
		provider.SetAttributeRaw(
			"tls_ca_bundle",
			hclwrite.TokensForFunctionCall("file", hclwrite.TokensForValue(cty.StringVal(CAFile))),
		)
	default:
		provider.SetAttributeValue("tls_system", cty.True)
	}

	return file.Bytes()
}

// variable is a secret input of a configuration.
type variable struct {
	name, description string
	ephemeral         bool
}

// engineVariables are the variables that all configurations have.
var engineVariables = []variable{
	{"ovirt_username", "User of the engine, with its domain.", true},
	{"ovirt_password", "Password of the user. Ephemeral: neither plan nor state holds it.", true},
}

// machineVariables are the variables of a machine.
var machineVariables = append(
	slices.Clone(engineVariables),
	variable{"user_data", "User data of the guest; it becomes part of the state.", false},
)

func renderVariablesFile(variables []variable) []byte {
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

	return file.Bytes()
}

// renderImportsFile writes an import block for each resource.
func renderImportsFile(adopt map[Address]string) []byte {
	addresses := slices.SortedFunc(maps.Keys(adopt), func(a, b Address) int {
		return strings.Compare(a.String(), b.String())
	})

	file := hclwrite.NewEmptyFile()

	for i, address := range addresses {
		if i > 0 {
			file.Body().AppendNewline()
		}

		body := file.Body().AppendNewBlock("import", nil).Body()
		body.SetAttributeTraversal("to", address.toTraversal())
		body.SetAttributeValue("id", cty.StringVal(adopt[address]))
	}

	return file.Bytes()
}

// newTraversal returns a reference such as var.user_data.
func newTraversal(steps ...string) hcl.Traversal {
	out := hcl.Traversal{hcl.TraverseRoot{Name: steps[0]}}
	for _, step := range steps[1:] {
		out = append(out, hcl.TraverseAttr{Name: step})
	}

	return out
}

// setTraversal sets an attribute to a reference.
func setTraversal(body *hclwrite.Body, name string, steps ...string) {
	body.SetAttributeTraversal(name, newTraversal(steps...))
}

// DestroyConfiguration renders a configuration without resources. It destroys everything in a state of this kind. It
// names no object of the engine, so a machine can be deleted after its template or its bootstrap data.
func DestroyConfiguration(engine Engine, kind Kind) (Configuration, error) {
	files := renderEngineFiles(engine, machineVariables)
	var err error
	files[SecretsFile], err = renderSecretsFile(engine, map[string]string{"user_data": ""})

	return Configuration{Files: files, Kind: kind, Engine: engine}, err
}

// heldElsewhere is the value in place of removed credentials.
const heldElsewhere = "held by the provider"

// WithoutCredentials returns the configuration without the engine's user and password. It is for a provider that has
// its own credentials.
func (c Configuration) WithoutCredentials() Configuration {
	var values map[string]string
	if err := json.Unmarshal(c.Files[SecretsFile], &values); err != nil {
		return c // the configuration comes from another source
	}

	delete(values, "ovirt_username")
	delete(values, "ovirt_password")
	c.Engine.Username, c.Engine.Password = heldElsewhere, heldElsewhere
	c.Files = maps.Clone(c.Files)

	content, err := renderSecretsFile(c.Engine, values)
	if err != nil { // impossible for texts
		content = nil
	}

	c.Files[SecretsFile] = content

	return c
}

func renderSecretsFile(engine Engine, more map[string]string) ([]byte, error) {
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
