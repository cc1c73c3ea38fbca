package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// Inventory is the initial content of the engine. Objects refer to each other by name. An object without an ID gets a
// random UUID. Every engine has the Blank template, with the zero UUID, even if the inventory does not name it.
type Inventory struct {
	// Version is the version of the engine, such as 4.5.4; empty means 4.5.8.
	Version string `json:"version,omitempty"`
	// DataCenters are the data centers with all their objects.
	DataCenters []DataCenter `json:"dataCenters"`
	// InstanceTypes are sizes of VMs.
	InstanceTypes []InstanceType `json:"instanceTypes,omitempty"`
	// Tags are the tags that exist from the beginning.
	Tags []string `json:"tags,omitempty"`
	// Users are users in addition to the administrator from the options.
	Users []User `json:"users,omitempty"`
}

// DataCenter is a data center with all its objects.
type DataCenter struct {
	Name        string `json:"name"`
	ID          string `json:"id,omitempty"`
	Description string `json:"description,omitempty"`
	// Clusters are the clusters of hosts.
	Clusters []Cluster `json:"clusters"`
	// Networks are the networks, each with its vNIC profiles.
	Networks []Network `json:"networks"`
	// StorageDomains are the domains for disks; the first domain is the default.
	StorageDomains []StorageDomain `json:"storageDomains"`
	// Templates are the templates of VMs.
	Templates []Template `json:"templates,omitempty"`
	// VMs are the VMs that exist from the beginning. They are down unless Up is set.
	VMs []VM `json:"vms,omitempty"`
}

// Cluster is a cluster of hosts.
type Cluster struct {
	Name        string `json:"name"`
	ID          string `json:"id,omitempty"`
	Description string `json:"description,omitempty"`
	// CPUType is the CPU type of all hosts; empty means a secure Skylake.
	CPUType string `json:"cpuType,omitempty"`
	Hosts   []Host `json:"hosts"`
	// AffinityGroups are the affinity groups of the cluster.
	AffinityGroups []AffinityGroup `json:"affinityGroups,omitempty"`
}

// Host is a host of VMs.
type Host struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	// Memory defaults to 64Gi.
	Memory Size `json:"memory,omitempty"`
	// Cores per socket defaults to 8, Sockets to 2 and Threads to 2.
	Cores   int64 `json:"cores,omitempty"`
	Sockets int64 `json:"sockets,omitempty"`
	Threads int64 `json:"threads,omitempty"`
	// Maintenance puts the host into maintenance, so it runs no VMs.
	Maintenance bool `json:"maintenance,omitempty"`
	// AffinityLabels are the affinity labels of the host. Naming a label here creates it.
	AffinityLabels []string `json:"affinityLabels,omitempty"`
	// Devices are the names of host devices for VMs, such as pci_0000_3b_00_0.
	Devices []string `json:"devices,omitempty"`
	// MediatedDeviceTypes are the types of mediated devices on the host, such as nvidia-63.
	MediatedDeviceTypes []string `json:"mediatedDeviceTypes,omitempty"`
}

// Network is a network with its vNIC profiles.
type Network struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	VLAN int64  `json:"vlan,omitempty"`
	// VNICProfiles are the names of the network's vNIC profiles.
	VNICProfiles []string `json:"vnicProfiles"`
	// DHCP describes the network's DHCP server; OLVM itself has none.
	DHCP *store.DHCP `json:"dhcp,omitempty"`
	// SLAAC is the IPv6 prefix that the network's router announces, such as fd00:20:30::/64.
	SLAAC string `json:"slaac,omitempty"`
	// Proxy is the proxy between the network and registries, such as http://proxy.example.com:3128; empty means direct
	// access.
	Proxy string `json:"proxy,omitempty"`
	// Router holds the addresses of the network's router, such as 10.198.0.1/24. Guests with real Linux use it.
	Router []string `json:"router,omitempty"`
}

// StorageDomain is a storage domain for disks.
type StorageDomain struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	// Size defaults to 1Ti.
	Size Size `json:"size,omitempty"`
	// Type is nfs, iscsi, fcp, glusterfs, posixfs or localfs; empty means nfs. Raw disks on block storage are
	// preallocated.
	Type string `json:"type,omitempty"`
	// Maintenance takes the domain out of use. Its disks stay, but the engine creates no new ones.
	Maintenance bool `json:"maintenance,omitempty"`
}

// Template is a template of VMs.
type Template struct {
	Name        string `json:"name"`
	ID          string `json:"id,omitempty"`
	Description string `json:"description,omitempty"`
	// Cluster is the name of a cluster; empty means all clusters of the data center.
	Cluster string `json:"cluster,omitempty"`
	// OSType selects the program that reads user data: Ignition for rhcos_x64, and otherwise cloud-init.
	OSType string `json:"os,omitempty"`
	// Type is the type of VM: server, desktop or high_performance.
	Type string `json:"type,omitempty"`
	// Disks are the disks of the template; the first disk is bootable.
	Disks []TemplateDisk `json:"disks,omitempty"`
	// NICs are names with vNIC profiles. Each VM gets a copy.
	NICs []TemplateNIC `json:"nics,omitempty"`
	// Memory defaults to 1Gi.
	Memory Size `json:"memory,omitempty"`
	// Cores defaults to 1.
	Cores int64 `json:"cores,omitempty"`
	// Kubernetes is the version of kubelet and kubeadm in the image, such as v1.36.1; empty means none.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Ignition is the highest specification supported by the image; empty means 3.4.0.
	Ignition string `json:"ignition,omitempty"`
	// Image is the vendor of the image, such as ock. It determines the SELinux rules and the services that start
	// automatically. Empty means an image with every program, a started container runtime and kubelet, and no SELinux.
	Image string `json:"image,omitempty"`
}

// TemplateDisk is a disk of a template.
type TemplateDisk struct {
	Name string `json:"name,omitempty"`
	Size Size   `json:"size"`
	// StorageDomain is the name of a storage domain; empty means the first one of the data center.
	StorageDomain string `json:"storageDomain,omitempty"`
	// Copies are the names of other storage domains that hold a copy of the disk.
	Copies []string `json:"copies,omitempty"`
	// Format is cow or raw; empty means cow.
	Format string `json:"format,omitempty"`
}

// TemplateNIC is a network interface of a template.
type TemplateNIC struct {
	Name string `json:"name"`
	// Network and VNICProfile are names. An empty profile means the profile with the network's name.
	Network     string `json:"network"`
	VNICProfile string `json:"vnicProfile,omitempty"`
}

// VM is a VM that exists from the beginning.
type VM struct {
	Name     string `json:"name"`
	ID       string `json:"id,omitempty"`
	Cluster  string `json:"cluster"`
	Template string `json:"template"`
	Comment  string `json:"comment,omitempty"`
	Memory   Size   `json:"memory,omitempty"`
	// Up starts the VM.
	Up bool `json:"up,omitempty"`
	// DeleteProtected prevents the removal of the VM.
	DeleteProtected bool     `json:"deleteProtected,omitempty"`
	Tags            []string `json:"tags,omitempty"`
}

// AffinityGroup is an affinity group of a cluster. It refers to VMs and hosts by name.
type AffinityGroup struct {
	Name string   `json:"name"`
	ID   string   `json:"id,omitempty"`
	VMs  []string `json:"vms,omitempty"`
	// Positive keeps the VMs together; otherwise the group keeps them apart. Enforcing makes the rule hard.
	Positive  bool `json:"positive,omitempty"`
	Enforcing bool `json:"enforcing,omitempty"`
}

// InstanceType is a size of VMs.
type InstanceType struct {
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"`
	Memory Size   `json:"memory"`
	Cores  int64  `json:"cores,omitempty"`
}

// User is a user of the engine.
type User struct {
	// Name is the user's name with the domain, such as admin@internal.
	Name     string `json:"name"`
	Password string `json:"password"`
	// Role is the user's role on the whole system, such as SuperUser. Empty means UserRole, with the right to see,
	// start and stop VMs.
	Role string `json:"role,omitempty"`
	// Permits are the numbers of permits. They define a custom administrator role for the user.
	Permits []string `json:"permits,omitempty"`
}

// Size is a size in bytes, in YAML a Kubernetes quantity: 4Gi, 500M, 1048576.
type Size int64

// UnmarshalJSON parses a quantity.
func (s *Size) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if len(text) > 1 && text[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}

	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a size such as 4Gi: %w", text, err)
	}

	if quantity.Sign() < 0 {
		return fmt.Errorf("the size %q is negative", text)
	}

	*s = Size(quantity.Value())

	return nil
}

// MarshalJSON returns a quantity.
func (s Size) MarshalJSON() ([]byte, error) {
	return json.Marshal(resource.NewQuantity(int64(s), resource.BinarySI).String())
}

// Default returns the inventory of a small site. One data center has one cluster with three hosts, two networks, two
// storage domains, and templates for cloud-init and Ignition guests.
func Default() Inventory {
	disks := []TemplateDisk{{Size: 20 * store.GiB}}

	return Inventory{
		DataCenters: []DataCenter{{
			Name: "Default",
			Clusters: []Cluster{
				{Name: "Default", Hosts: []Host{{Name: "host-1"}, {Name: "host-2"}, {Name: "host-3"}}},
			},
			Networks: []Network{
				{Name: "ovirtmgmt", VNICProfiles: []string{"ovirtmgmt"}},
				{Name: "kvm-vlan", VLAN: 20, VNICProfiles: []string{"kvm-vlan"}},
			},
			StorageDomains: []StorageDomain{{Name: "olvm-data"}, {Name: "olvm-data-2"}},
			Templates: []Template{
				{
					Name:       "ol9-k8s",
					Cluster:    "Default",
					OSType:     "ol_9x64",
					Disks:      disks,
					Memory:     4 * store.GiB,
					Kubernetes: "v1.36.1",
				},
				{
					Name:       "ock-1.36",
					Cluster:    "Default",
					OSType:     store.OSRHCOS,
					Disks:      disks,
					Memory:     4 * store.GiB,
					Kubernetes: "v1.36.1",
					Image:      store.ImageOCK,
				},
			},
		}},
		InstanceTypes: []InstanceType{
			{Name: "Tiny", Memory: store.GiB / 2, Cores: 1},
			{Name: "Small", Memory: 2 * store.GiB, Cores: 1},
			{Name: "Medium", Memory: 4 * store.GiB, Cores: 2},
			{Name: "Large", Memory: 8 * store.GiB, Cores: 2}, {Name: "XLarge", Memory: 16 * store.GiB, Cores: 4},
		},
	}
}

// NodeImage is a boot image for guests with real Linux.
type NodeImage struct {
	// Kubernetes is the version of Kubernetes in the image, such as v1.36.3.
	Kubernetes string
	// Ignition reports whether the image supports user data for Ignition.
	Ignition bool
}

// Nodes returns the inventory for guests with real Linux. It is Default with routers in its networks, and with a
// template for each image. Templates have names such as debian-k8s-v1.36.3, and ignition-k8s-v1.36.3 for Ignition. The
// first image's templates also have the names debian-k8s and ignition-k8s.
func Nodes(images ...NodeImage) Inventory {
	out := Default()
	center := &out.DataCenters[0]
	center.Networks[0].Router = []string{"10.197.0.1/24", "fd00:197::1/64"}
	center.Networks[1].Router = []string{"10.198.0.1/24", "fd00:198::1/64"}
	center.Templates = nil

	for i, image := range images {
		systems := map[string]string{"debian-k8s": "debian_9"}
		if image.Ignition {
			systems["ignition-k8s"] = store.OSRHCOS
		}

		for _, name := range slices.Sorted(maps.Keys(systems)) {
			template := Template{
				Name:       name + "-" + image.Kubernetes,
				Cluster:    "Default",
				OSType:     systems[name],
				Disks:      []TemplateDisk{{Size: 20 * store.GiB}},
				Memory:     4 * store.GiB,
				Kubernetes: image.Kubernetes,
			}
			center.Templates = append(center.Templates, template)
			if i == 0 {
				template.Name = name
				center.Templates = append(center.Templates, template)
			}
		}
	}

	return out
}

// Load reads a YAML file and validates its content.
func Load(path string) (Inventory, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Inventory{}, fmt.Errorf("failed to read the inventory: %w", err)
	}

	inventory, err := Parse(content)
	if err != nil {
		return Inventory{}, fmt.Errorf("%s: %w", path, err)
	}

	return inventory, nil
}

// Parse parses YAML and validates its content. Unknown fields are errors.
func Parse(content []byte) (Inventory, error) {
	var inventory Inventory
	if err := yaml.UnmarshalStrict(content, &inventory); err != nil {
		return Inventory{}, fmt.Errorf("the inventory cannot be read: %w", err)
	}

	return inventory, inventory.Validate()
}

var (
	versionPattern = regexp.MustCompile(`^4\.\d+\.\d+(\.\d+)?$`)
	storageTypes   = []string{"nfs", "iscsi", "fcp", "glusterfs", "posixfs", "localfs"}
)
