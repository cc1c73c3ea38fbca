// Package render turns typed machines into Terraform configurations.
//
// It is pure: no clients, no files, no clock. The same input gives the same
// bytes. HCL is written by hclwrite from values and from traversals. No text is
// read as HCL, so that a name, an ID or user data is a value wherever it comes
// from; a fuzz target evaluates what is rendered. Secrets are variables; their
// values are in SecretsFile alone.
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

// The files of a configuration.
const (
	// MainFile has the resources with literal arguments, and the outputs.
	MainFile = "main.tf"
	// GuestFile adds to the VM what its guest is told about its network at its first boot.
	GuestFile = "guest_override.tf"
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

	// maxNICs is how many network interfaces a machine can have.
	maxNICs = 8

	moduleDir = "modules"

	// ProviderSource names the provider with its host, because OpenTofu's default registry is another.
	ProviderSource = "registry.terraform.io/ovirt/ovirt"
)

// Files are the files of one configuration, by their slash-separated paths.
type Files map[string][]byte

// Configuration is what Terraform applies, and what it is held to: a run that would touch another resource, or ask
// another engine, is refused.
type Configuration struct {
	Files Files
	// Resources are the instances of all resources and data sources that the files declare.
	Resources []Address
	// Kind of what the files make. A state that has types of another kind is refused.
	Kind Kind
	// Engine that the files name.
	Engine Engine
}

// Digest identifies what the configuration asks for: the resources, and modules where there are. Secrets, the way to
// the engine and adoption are left out, so that rotating a password or a CA plans nothing; and what a guest reads once,
// at its first boot.
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
	// Username and Password; secrets.
	Username, Password string
}

// Machine is everything that decides one VM; all names are resolved.
type Machine struct {
	Engine Engine

	// Name of the VM, and host name of the guest.
	Name string
	// ClaimedVMID is the UUID of the VM of a pool that the machine takes over; empty for a VM that is made. Of the
	// rest only what the guest is told counts then.
	ClaimedVMID string
	// Pooled is a VM that is made for a pool: it is not started, and its guest is told of its network alone.
	Pooled bool
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
	// HighAvailability of the VM; nil leaves it to the engine.
	HighAvailability *HighAvailability
	// BIOSType as the engine spells it, and TPM; empty and nil leave them to the engine.
	BIOSType string
	TPM      *bool
	// WatchdogAction is what the watchdog does; empty means no watchdog.
	WatchdogAction string
	// HostDevices are names of devices of the host that the VM is pinned to.
	HostDevices []string
	// MediatedDevices are types of mediated devices.
	MediatedDevices []string
	// CustomProperties by name, but for huge pages.
	CustomProperties map[string]string
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
	// TemplateDisks are how the template's disks are copied, the bootable one first; none leaves it to the engine,
	// which takes all or none.
	TemplateDisks []TemplateDisk
	// RootDiskSize in bytes to which the root disk is grown; zero leaves it.
	RootDiskSize int64
	// DataDisks beside those of the template.
	DataDisks []DataDisk
	// TagIDs are UUIDs of tags.
	TagIDs []string
	// NICs of the VM.
	NICs []NIC
	// RemoveTemplateNICs takes those of the template away that are not among NICs.
	RemoveTemplateNICs bool
	// Guests are the network interfaces that have a configuration in the guest.
	Guests []GuestNIC
	// DNSServers and SearchDomains of the guest.
	DNSServers, SearchDomains []string
	// HostName that the engine gives to the guest; empty where the user data does.
	HostName string
	// UserData of the guest; a secret.
	UserData string
	// Placement on hosts; nil leaves it to the engine.
	Placement *Placement
	// AffinityGroups are the UUIDs of the VM's affinity groups, by the groups' names.
	AffinityGroups map[string]string
}

// HighAvailability of a VM; zero values leave a setting to the engine.
type HighAvailability struct {
	Priority int64
	// LeaseStorageDomainID is the UUID of the storage domain that has a lease of the VM; empty for none.
	LeaseStorageDomainID string
	// StorageError is what becomes of the VM after an error of its storage, as the engine spells it.
	StorageError string
}

// NIC is a network interface of the VM.
type NIC struct {
	Name          string
	VNICProfileID string
	// MAC and Interface (the emulated hardware); empty leaves them to the engine.
	MAC, Interface string
}

// TemplateDisk is how a disk of the template is copied; empty fields leave it to the engine.
type TemplateDisk struct {
	ID string
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

// MachineConfiguration renders the configuration of one machine.
func MachineConfiguration(in Machine) (Configuration, error) {
	main, err := machineMain(in)
	if err != nil {
		return Configuration{}, err
	}

	variables, secrets := machineVariables, map[string]string{"user_data": in.UserData}
	if in.Pooled {
		variables, secrets = engineVariables, nil
	}

	files := engineFiles(in.Engine, variables)
	files[MainFile] = main.file.Bytes()

	if len(in.guests())+len(in.DNSServers)+len(in.SearchDomains) > 0 {
		files[GuestFile] = guestFile(in)
	}

	files[SecretsFile], err = secretsFile(in.Engine, secrets)

	return Configuration{Files: files, Resources: main.declared, Kind: in.kind(), Engine: in.Engine}, err
}

// kind returns what the configuration of a machine makes.
func (in *Machine) kind() Kind {
	switch {
	case in.ClaimedVMID != "":
		return ClaimedVM
	case in.Pooled:
		return PooledVM
	}

	return OwnVM
}

// MachineDigest is the digest of the files of MachineConfiguration. It renders no others than those that count.
func MachineDigest(in Machine) (string, error) {
	main, err := machineMain(in)
	if err != nil {
		return "", err
	}

	return Files{MainFile: main.file.Bytes()}.Digest(), nil
}

// machineMain writes the main file of one machine.
func machineMain(in Machine) (*writer, error) {
	switch {
	case in.Name == "":
		return nil, fmt.Errorf("the machine has no name")
	case in.ClaimedVMID != "":
		return claimedFile(in), nil
	case in.ClusterID == "" || in.TemplateID == "":
		return nil, fmt.Errorf("machine %s: cluster and template must be resolved", in.Name)
	case len(in.NICs) == 0 || len(in.NICs) > maxNICs:
		return nil, fmt.Errorf("machine %s: %d network interfaces; it can have 1 to %d", in.Name, len(in.NICs), maxNICs)
	}

	return mainFile(in), nil
}

// Adopting returns the configuration with an import block for each resource that exists already: the import ID by the
// address in the state. Nothing to adopt returns it as it is.
func (c Configuration) Adopting(adopt map[Address]string) Configuration {
	if len(adopt) == 0 {
		return c
	}

	c.Files = maps.Clone(c.Files)
	c.Files[ImportsFile] = importsFile(adopt)

	return c
}

// engineFiles are those that every configuration has, but for the values of its variables.
func engineFiles(engine Engine, variables []variable) Files {
	files := Files{ProviderFile: providerFile(engine), VariablesFile: variablesFile(variables)}
	if engine.CA != "" && !engine.Insecure {
		files[CAFile] = []byte(engine.CA)
	}

	return files
}

func providerFile(engine Engine) []byte {
	file := hclwrite.NewEmptyFile()
	terraform := file.Body().AppendNewBlock("terraform", nil).Body()

	// Ephemeral variables came with Terraform 1.10 and OpenTofu 1.11; the executor is checked before it is used.
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
var machineVariables = append(
	slices.Clone(engineVariables),
	variable{"user_data", "User data of the guest; it becomes part of the state.", false},
)

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

	return file.Bytes()
}

// importsFile writes an import block for each resource.
func importsFile(adopt map[Address]string) []byte {
	addresses := slices.SortedFunc(maps.Keys(adopt), func(a, b Address) int {
		return strings.Compare(a.String(), b.String())
	})

	file := hclwrite.NewEmptyFile()

	for i, address := range addresses {
		if i > 0 {
			file.Body().AppendNewline()
		}

		body := file.Body().AppendNewBlock("import", nil).Body()
		body.SetAttributeTraversal("to", address.traversal())
		body.SetAttributeValue("id", cty.StringVal(adopt[address]))
	}

	return file.Bytes()
}

// traversal is a reference such as var.user_data.
func traversal(steps ...string) hcl.Traversal {
	out := hcl.Traversal{hcl.TraverseRoot{Name: steps[0]}}
	for _, step := range steps[1:] {
		out = append(out, hcl.TraverseAttr{Name: step})
	}

	return out
}

// setTraversal sets an attribute to a reference.
func setTraversal(body *hclwrite.Body, name string, steps ...string) {
	body.SetAttributeTraversal(name, traversal(steps...))
}

// DestroyConfiguration renders a configuration that declares nothing, with which everything in a state of that kind is
// destroyed. It needs no name of the engine, so a machine can be deleted after its template or its bootstrap data are
// gone.
func DestroyConfiguration(engine Engine, kind Kind) (Configuration, error) {
	files := engineFiles(engine, machineVariables)
	var err error
	files[SecretsFile], err = secretsFile(engine, map[string]string{"user_data": ""})

	return Configuration{Files: files, Kind: kind, Engine: engine}, err
}

// heldElsewhere is the value of credentials that a configuration does not have.
const heldElsewhere = "held by the provider"

// WithoutCredentials returns the configuration without the user of the engine and the password, for a provider that has
// them.
func (c Configuration) WithoutCredentials() Configuration {
	var values map[string]string
	if err := json.Unmarshal(c.Files[SecretsFile], &values); err != nil {
		return c // a configuration of other hands
	}

	delete(values, "ovirt_username")
	delete(values, "ovirt_password")
	c.Engine.Username, c.Engine.Password = heldElsewhere, heldElsewhere
	c.Files = maps.Clone(c.Files)

	content, err := secretsFile(c.Engine, values)
	if err != nil { // of texts alone
		content = nil
	}

	c.Files[SecretsFile] = content

	return c
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
