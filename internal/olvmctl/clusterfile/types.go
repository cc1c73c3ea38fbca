// Package clusterfile reads cluster files: one YAML document describing a cluster in the format of Oracle's ocne
// command, the current one or the one before it. It renders them as Cluster API manifests.
//
// An error about an unknown key names the nearest known one. All rules checkable without the engine are checked here,
// and all errors are reported at once.
package clusterfile

import "go.yaml.in/yaml/v3"

// File is a cluster file.
type File struct {
	// Name of the cluster. Empty means ocne.
	Name string `yaml:"name"`
	// Provider is olvm or oci. Empty means olvm.
	Provider string `yaml:"provider"`
	// ControlPlaneNodes (an odd number) and WorkerNodes. Zero means 1.
	ControlPlaneNodes int `yaml:"controlPlaneNodes"`
	WorkerNodes       int `yaml:"workerNodes"`
	// VirtualIP of the control plane endpoint.
	VirtualIP string `yaml:"virtualIp"`
	// KubernetesVersion with or without the patch.
	KubernetesVersion string `yaml:"kubernetesVersion"`
	// PodSubnet and ServiceSubnet are CIDRs: one, or two separated by a comma.
	PodSubnet     string `yaml:"podSubnet"`
	ServiceSubnet string `yaml:"serviceSubnet"`
	// KubeAPIServerBindPort is the endpoint's port; the API servers behind the load balancer use the other one.
	KubeAPIServerBindPort    int32 `yaml:"kubeApiServerBindPort"`
	KubeAPIServerBindPortAlt int32 `yaml:"kubeApiServerBindPortAlt"`
	// Password is the password hash of the user ocne. SSHPublicKey is its key, and SSHPublicKeyPath a file with it.
	Password         string `yaml:"password"`
	SSHPublicKey     string `yaml:"sshPublicKey"`
	SSHPublicKeyPath string `yaml:"sshPublicKeyPath"`
	// CipherSuites of the control plane's servers, separated by commas.
	CipherSuites string `yaml:"cipherSuites"`
	// Proxy of the nodes.
	Proxy Proxy `yaml:"proxy"`
	// ExtraIgnition is a file with Ignition or Butane. ExtraIgnitionInline is its content, as text or as a mapping.
	ExtraIgnition       string    `yaml:"extraIgnition"`
	ExtraIgnitionInline yaml.Node `yaml:"extraIgnitionInline"`
	// Registry of the Kubernetes container images. OSRegistry (without a tag) and OSTag are for the operating system.
	Registry   string `yaml:"registry"`
	OSRegistry string `yaml:"osRegistry"`
	OSTag      string `yaml:"osTag"`
	// OSTransport tells a self-updating node how to trust the image of its operating system, such as
	// ostree-image-signed:registry or ostree-unverified-registry. Empty leaves this to the image of the nodes. Nodes
	// are replaced, not updated, here.
	OSTransport string `yaml:"osTransport"`
	// CNI, Headless, Applications and Catalogs configure software installed in the running cluster.
	CNI          string        `yaml:"cni"`
	Headless     bool          `yaml:"headless"`
	Applications []Application `yaml:"applications"`
	Catalogs     []Catalog     `yaml:"catalogs"`
	// ClusterDefinition and ClusterDefinitionInline are manifests replacing the rendered ones.
	ClusterDefinition       string    `yaml:"clusterDefinition"`
	ClusterDefinitionInline yaml.Node `yaml:"clusterDefinitionInline"`
	// LoadBalancer is not used with this provider.
	LoadBalancer string `yaml:"loadBalancer"`

	Providers Providers `yaml:"providers"`
}

// Application is a chart of a catalog, with its values: Config, as text or as a mapping, or the file ConfigFrom.
type Application struct {
	Name       string    `yaml:"name"`
	Release    string    `yaml:"release"`
	Version    string    `yaml:"version"`
	Catalog    string    `yaml:"catalog"`
	Namespace  string    `yaml:"namespace"`
	Config     yaml.Node `yaml:"config"`
	ConfigFrom string    `yaml:"configFrom"`
}

// Catalog is a chart repository if its protocol is helm.
type Catalog struct {
	Name      string `yaml:"name"`
	Protocol  string `yaml:"protocol"`
	URI       string `yaml:"uri"`
	Namespace string `yaml:"namespace"`
}

// Providers are the settings of each provider; only olvm and oci are used.
type Providers struct {
	OLVM    OLVM      `yaml:"olvm"`
	BYO     yaml.Node `yaml:"byo"`
	Libvirt yaml.Node `yaml:"libvirt"`
	OCI     OCI       `yaml:"oci"`
	None    yaml.Node `yaml:"none"`
}

// Proxy for HTTP; commas separate the entries of NoProxy.
type Proxy struct {
	HTTPProxy  string `yaml:"httpProxy"`
	HTTPSProxy string `yaml:"httpsProxy"`
	NoProxy    string `yaml:"noProxy"`
}

// OLVM are the settings of this provider.
type OLVM struct {
	// Namespace of all objects in the management cluster. Empty means ocne.
	Namespace           string           `yaml:"namespace"`
	DatacenterName      string           `yaml:"olvmDatacenterName"`
	OvirtAPIServer      APIServer        `yaml:"olvmOvirtAPIServer"`
	OCK                 OCK              `yaml:"olvmOCK"`
	LocalAPIEndpoint    LocalAPIEndpoint `yaml:"localAPIEndpoint"`
	ControlPlaneMachine Machine          `yaml:"controlPlaneMachine"`
	WorkerMachine       Machine          `yaml:"workerMachine"`
	// Proxy of the controllers.
	Proxy Proxy `yaml:"proxy"`
	// SelfManaged reports whether the cluster is to manage itself.
	SelfManaged bool `yaml:"selfManaged"`
	// CSIDriver is the storage driver of the cluster.
	CSIDriver CSIDriver `yaml:"ovirtCsiDriver"`
	// ServiceLoadBalancers give Services of type LoadBalancer addresses.
	ServiceLoadBalancers struct {
		// IPAddresses are ranges in the format of the machines'; empty means no addresses for Services.
		IPAddresses string `yaml:"ipAddresses"`
	} `yaml:"serviceLoadBalancers"`
	// IngressVirtualIP is an address held by a node for ingress; empty means none.
	IngressVirtualIP string `yaml:"ingressVirtualIp"`
	// BaseDomain is the parent of the cluster's domain, whose first label is the cluster's name. Empty means that its
	// nodes answer for no names.
	BaseDomain string `yaml:"baseDomain"`
}

// OCI are the settings of Oracle Cloud Infrastructure.
type OCI struct {
	// Namespace of all objects in the management cluster. Empty means ocne.
	Namespace string `yaml:"namespace"`
	// Compartment of the cluster: an OCID, or a path from the tenancy such as parent/child.
	Compartment string `yaml:"compartment"`
	// Profile of the configuration of Oracle's command. Empty means DEFAULT.
	Profile string `yaml:"profile"`
	// Principal is User, with a key in the profile, or Instance, the calling machine. Empty means User.
	Principal string `yaml:"principal"`
	// BootImage is a container image with the boot disk of machines, for each architecture without an image in the
	// compartment. Empty means none.
	BootImage string `yaml:"bootImage"`
	// ImageBucket receives uploaded images. Empty means ocne-images.
	ImageBucket string `yaml:"imageBucket"`
	// Images are OCIDs replacing the newest images of the compartment.
	Images OCIImages `yaml:"images"`
	// ControlPlaneShape and WorkerShape are the sizes of machines.
	ControlPlaneShape OCIShape `yaml:"controlPlaneShape"`
	WorkerShape       OCIShape `yaml:"workerShape"`
	// VCN is the OCID of an existing network; empty means a network of the cluster's own. LoadBalancer has the subnets
	// of Services in it.
	VCN          string          `yaml:"vcn"`
	LoadBalancer OCILoadBalancer `yaml:"loadBalancer"`
	// Proxy of the controllers.
	Proxy Proxy `yaml:"proxy"`
	// SelfManaged reports whether the cluster is to manage itself.
	SelfManaged bool `yaml:"selfManaged"`
	// Endpoints are URLs of services replacing the region's.
	Endpoints OCIEndpoints `yaml:"endpoints"`
}

// OCIImages are OCIDs by architecture.
type OCIImages struct {
	AMD64 string `yaml:"amd64"`
	ARM64 string `yaml:"arm64"`
}

// OCIShape is the size of machines.
type OCIShape struct {
	// Shape such as VM.Standard.E4.Flex, with its number of processors and memory in GB.
	Shape       string `yaml:"shape"`
	OCPUs       string `yaml:"ocpus"`
	MemoryInGBs string `yaml:"memoryInGBs"`
	// BootVolumeSizeInGBs of the disk. Empty means 50.
	BootVolumeSizeInGBs string `yaml:"bootVolumeSizeInGBs"`
}

// OCILoadBalancer are the OCIDs of subnets.
type OCILoadBalancer struct {
	Subnet1 string `yaml:"subnet1"`
	Subnet2 string `yaml:"subnet2"`
}

// OCIEndpoints are URLs of services.
type OCIEndpoints struct {
	Compute             string `yaml:"compute"`
	Network             string `yaml:"network"`
	NetworkLoadBalancer string `yaml:"networkLoadBalancer"`
	Identity            string `yaml:"identity"`
	ObjectStorage       string `yaml:"objectStorage"`
	WorkRequests        string `yaml:"workRequests"`
}

// APIServer is the connection to the engine.
type APIServer struct {
	// ServerURL without /api.
	ServerURL string `yaml:"serverURL"`
	// ServerCA in PEM, or ServerCAPath: file names separated by commas.
	ServerCA              string    `yaml:"serverCA"`
	ServerCAPath          string    `yaml:"serverCAPath"`
	InsecureSkipTLSVerify bool      `yaml:"insecureSkipTLSVerify"`
	CredentialsSecret     Reference `yaml:"credentialsSecret"`
	CAConfigMap           Reference `yaml:"caConfigMap"`
}

// Reference to an object of the management cluster.
type Reference struct {
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace"`
}

// OCK is the disk of an uploaded image.
type OCK struct {
	StorageDomainName string `yaml:"storageDomainName"`
	DiskName          string `yaml:"diskName"`
	DiskSize          string `yaml:"diskSize"`
}

// LocalAPIEndpoint is the listening address of API servers.
type LocalAPIEndpoint struct {
	BindPort         int32  `yaml:"bindPort"`
	AdvertiseAddress string `yaml:"advertiseAddress"`
}

// Machine is a kind of VM.
type Machine struct {
	OvirtClusterName string         `yaml:"olvmOvirtClusterName"`
	VMTemplateName   string         `yaml:"vmTemplateName"`
	Network          Network        `yaml:"olvmNetwork"`
	VirtualMachine   VirtualMachine `yaml:"virtualMachine"`
}

// Network of the engine.
type Network struct {
	NetworkName     string `yaml:"networkName"`
	VNICName        string `yaml:"vnicName"`
	VNICProfileName string `yaml:"vnicProfileName"`
}

// VirtualMachine is the size of a VM and the network of its guest.
type VirtualMachine struct {
	Memory string `yaml:"memory"`
	CPU    struct {
		Architecture string `yaml:"architecture"`
		Topology     struct {
			Cores   int32 `yaml:"cores"`
			Sockets int32 `yaml:"sockets"`
			Threads int32 `yaml:"threads"`
		} `yaml:"topology"`
	} `yaml:"cpu"`
	Network   GuestNetwork `yaml:"network"`
	RootDisk  RootDisk     `yaml:"rootDisk"`
	DataDisks []DataDisk   `yaml:"dataDisks"`
}

// GuestNetwork configures the network in the guest of a virtual machine.
type GuestNetwork struct {
	// Gateway of IPv4.
	Gateway       string `yaml:"gateway"`
	Interface     string `yaml:"interface"`
	InterfaceType string `yaml:"interfaceType"`
	DNSServers    string `yaml:"dnsServers"`
	IPv4          struct {
		Subnet      string `yaml:"subnet"`
		IPAddresses string `yaml:"ipAddresses"`
	} `yaml:"ipv4"`
	IPv6 struct {
		AutoConf    bool   `yaml:"autoConf"`
		IPAddresses string `yaml:"ipAddresses"`
		// Subnet and Gateway are not part of Oracle's format; without them, routers announce themselves.
		Subnet  string `yaml:"subnet"`
		Gateway string `yaml:"gateway"`
	} `yaml:"ipv6"`
}

// Credentials of the storage driver.
const (
	// DriverOwn are the credentials of an engine user reserved for the driver.
	DriverOwn = "Own"
	// DriverMachines are the credentials used for making machines.
	DriverMachines = "Machines"
)

// CSIDriver is the oVirt CSI driver in the cluster.
type CSIDriver struct {
	Install *bool `yaml:"install"`
	// Credentials is DriverOwn or DriverMachines. Empty means DriverOwn, because every node holds them.
	Credentials          string `yaml:"credentials"`
	Namespace            string `yaml:"namespace"`
	CredsSecretName      string `yaml:"credsSecretName"`
	CAConfigMapName      string `yaml:"caConfigmapName"`
	CSIDriverName        string `yaml:"csiDriverName"`
	ControllerPluginName string `yaml:"controllerPluginName"`
	NodePluginName       string `yaml:"nodePluginName"`
	// StorageClasses are created with the driver.
	StorageClasses []StorageClass `yaml:"storageClasses"`
}

// StorageClass is a class of the cluster for the volumes of one storage domain.
type StorageClass struct {
	// Name of the class. Empty means the storage domain's name.
	Name              string `yaml:"name"`
	StorageDomainName string `yaml:"storageDomainName"`
	// Default reports whether claims without a class use this one.
	Default bool `yaml:"default"`
	// Thick reports whether a volume allocates all of its space at once.
	Thick bool `yaml:"thick"`
	// FSType is the file system of volumes. Empty means xfs.
	FSType string `yaml:"fsType"`
}
