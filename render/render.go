// Package render turns typed machines into Terraform configurations.
//
// It is pure: no clients, no files, no clock. The same input gives the same bytes. hclwrite writes HCL from values and
// traversals. The package never parses text as HCL, so names, IDs and user data stay values, whatever their origin. A
// fuzz target evaluates rendered files. Secrets are variables, with values only in SecretsFile.
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
	// GuestFile adds to the VM the guest's network settings for its first boot.
	GuestFile = "guest_override.tf"
	// ProviderFile has the terraform and provider blocks.
	ProviderFile = "provider.tf"
	// VariablesFile declares the secrets.
	VariablesFile = "variables.tf"
	// ImportsFile adopts existing objects. Most configurations have none.
	ImportsFile = "imports.tf"
	// CAFile holds the CA certificates of the engine. It is absent if the system's are used.
	CAFile = "ca.pem"
	// SecretsFile holds the values of the secret variables. Terraform loads it automatically.
	SecretsFile = "terraform.tfvars.json" //nolint:gosec // a file name

	// maxNICs is the maximum number of network interfaces of a machine.
	maxNICs = 8

	moduleDir = "modules"

	// ProviderSource includes the host, because OpenTofu has another default registry.
	ProviderSource = "registry.terraform.io/ovirt/ovirt"
)

// Files maps the slash-separated paths of a configuration's files to their content.
type Files map[string][]byte

// Configuration is the input of Terraform, and the limit of a run: a run is rejected if it would touch other resources,
// or ask another engine.
type Configuration struct {
	Files Files
	// Resources are the instances of all resources and data sources in the files.
	Resources []Address
	// Kind of the created objects. A state with types of another kind is rejected.
	Kind Kind
	// Engine in the files.
	Engine Engine
}

// Digest identifies the requested resources, including modules. It excludes secrets, the connection to the engine, and
// adoption, so rotating a password or a CA plans nothing. It also excludes settings a guest reads only at its first
// boot.
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
	// URL of the API, without a trailing slash.
	URL string
	// CA holds PEM certificates; empty means the system's trust store.
	CA string
	// Insecure turns verification off.
	Insecure bool
	// Username and Password are secrets.
	Username, Password string
}

// Machine is the complete input for one VM. All names are resolved.
type Machine struct {
	Engine Engine

	// Name of the VM, and host name of the guest.
	Name string
	// ClaimedVMID is the UUID of the pool's VM the machine takes over. It is empty for a new VM. For a claimed VM, only
	// the guest's settings among the other fields count.
	ClaimedVMID string
	// Pooled marks a VM created for a pool. It is not started, and its guest gets only network settings.
	Pooled bool
	// Comment marks the owner.
	Comment string
	// ClusterID and TemplateID are UUIDs of the engine.
	ClusterID, TemplateID string
	// Cores, Sockets, Threads of the CPU.
	Cores, Sockets, Threads int64
	// Memory in bytes. Memory and CPU are zero if InstanceTypeID sets them.
	Memory int64
	// InstanceTypeID is the UUID of the instance type with the sizes of the VM.
	InstanceTypeID string
	// GuaranteedMemory and MaximumMemory in bytes. Zero leaves them to the engine.
	GuaranteedMemory, MaximumMemory int64
	// HugePages is the page size in KiB. Zero means ordinary pages.
	HugePages int64
	// CPUMode, OSType and VMType in the engine's spelling. "" leaves them to the engine.
	CPUMode, OSType, VMType string
	// HighAvailability of the VM. nil leaves it to the engine.
	HighAvailability *HighAvailability
	// BIOSType in the engine's spelling, and TPM. "" and nil leave them to the engine.
	BIOSType string
	TPM      *bool
	// WatchdogAction is the action of the watchdog. "" means no watchdog.
	WatchdogAction string
	// HostDevices are names of devices on the host the VM is pinned to.
	HostDevices []string
	// MediatedDevices are types of mediated devices.
	MediatedDevices []string
	// CustomProperties by name, except for huge pages.
	CustomProperties map[string]string
	// MemoryBallooning, SerialConsole and SoundCard. nil leaves them to the engine.
	MemoryBallooning, SerialConsole, SoundCard *bool
	// OptimizeCPU lets the engine size and pin the CPU by the VM's hosts.
	OptimizeCPU bool
	// RemoveGraphicsConsoles removes those of the template.
	RemoveGraphicsConsoles bool
	// Description of the VM.
	Description string
	// Clone copies the template's disks. nil leaves it to the engine, and the engine links them.
	Clone *bool
	// TemplateDisks are the settings for copying the template's disks, the bootable one first. The engine accepts all
	// of them, or none. Without any, it decides.
	TemplateDisks []TemplateDisk
	// RootDiskSize is the size in bytes to grow the root disk to. Zero leaves it unchanged.
	RootDiskSize int64
	// DataDisks are additional to those of the template.
	DataDisks []DataDisk
	// TagIDs are UUIDs of tags.
	TagIDs []string
	// NICs of the VM.
	NICs []NIC
	// RemoveTemplateNICs removes those of the template not among NICs.
	RemoveTemplateNICs bool
	// Guests are the network interfaces with settings in the guest.
	Guests []GuestNIC
	// DNSServers and SearchDomains of the guest.
	DNSServers, SearchDomains []string
	// HostName for the engine to pass to the guest. It is empty if the user data has it.
	HostName string
	// UserData of the guest. It is a secret.
	UserData string
	// Placement on hosts. nil leaves it to the engine.
	Placement *Placement
	// AffinityGroups are the UUIDs of the VM's affinity groups by their names.
	AffinityGroups map[string]string
}

// HighAvailability of a VM. Zero values leave a setting to the engine.
type HighAvailability struct {
	Priority int64
	// LeaseStorageDomainID is the UUID of the storage domain with the VM's lease. "" means no lease.
	LeaseStorageDomainID string
	// StorageError is the reaction of the VM to a storage error, in the engine's spelling.
	StorageError string
}

// NIC is a network interface of the VM.
type NIC struct {
	Name          string
	VNICProfileID string
	// MAC and Interface (the emulated hardware). "" leaves them to the engine.
	MAC, Interface string
}

// TemplateDisk configures the copy of a template's disk. Empty fields leave a setting to the engine.
type TemplateDisk struct {
	ID string
	// Format is cow or raw, Provisioning sparse or non-sparse.
	Format, Provisioning string
	StorageDomainID      string
}

// DataDisk is a disk additional to those of the template.
type DataDisk struct {
	Name string
	// Size in bytes.
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

// MachineDigest returns the digest of the files of MachineConfiguration. It renders only the files in the digest.
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
// to import IDs. If it is empty, the configuration is unchanged.
func (c Configuration) WithImports(adopt map[Address]string) Configuration {
	if len(adopt) == 0 {
		return c
	}

	c.Files = maps.Clone(c.Files)
	c.Files[ImportsFile] = renderImportsFile(adopt)

	return c
}

// renderEngineFiles returns the files common to all configurations, except for the values of variables.
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

	// Ephemeral variables need Terraform 1.10 or OpenTofu 1.11. The executor is checked before its use.
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

// engineVariables are common to all configurations.
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

// DestroyConfiguration renders a configuration without resources, to destroy everything in a state of this kind. It
// names nothing in the engine, so a machine can be deleted after its template or its bootstrap data.
func DestroyConfiguration(engine Engine, kind Kind) (Configuration, error) {
	files := renderEngineFiles(engine, machineVariables)
	var err error
	files[SecretsFile], err = renderSecretsFile(engine, map[string]string{"user_data": ""})

	return Configuration{Files: files, Kind: kind, Engine: engine}, err
}

// heldElsewhere replaces the values of removed credentials.
const heldElsewhere = "held by the provider"

// WithoutCredentials returns the configuration without the engine's user and password, for a provider with its own.
func (c Configuration) WithoutCredentials() Configuration {
	var values map[string]string
	if err := json.Unmarshal(c.Files[SecretsFile], &values); err != nil {
		return c // a configuration from another source
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
