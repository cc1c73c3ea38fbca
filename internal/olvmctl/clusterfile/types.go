// Package clusterfile reads cluster files. A cluster file is one YAML document that describes a cluster in the current
// or the previous format of Oracle's ocne command. The package renders cluster files as Cluster API manifests.
//
// An error about an unknown key suggests the most similar known key. The package checks all rules that need no engine,
// and reports all errors at once.
package clusterfile

import "go.yaml.in/yaml/v3"

// File is a cluster file.
type File struct {
	// Name is the name of the cluster. If empty, it is ocne.
	Name string `yaml:"name"`
	// Provider is olvm or oci. If empty, it is olvm.
	Provider string `yaml:"provider"`
	// ControlPlaneNodes and WorkerNodes are the numbers of nodes. If zero, they are 1. ControlPlaneNodes must be odd.
	ControlPlaneNodes int `yaml:"controlPlaneNodes"`
	WorkerNodes       int `yaml:"workerNodes"`
	// VirtualIP is the address of the control plane endpoint.
	VirtualIP string `yaml:"virtualIp"`
	// KubernetesVersion is the version of Kubernetes, with or without the patch version.
	KubernetesVersion string `yaml:"kubernetesVersion"`
	// PodSubnet and ServiceSubnet are one CIDR, or two CIDRs separated by a comma.
	PodSubnet     string `yaml:"podSubnet"`
	ServiceSubnet string `yaml:"serviceSubnet"`
	// KubeAPIServerBindPort is the port of the endpoint. KubeAPIServerBindPortAlt is the port of the API servers behind
	// the load balancer.
	KubeAPIServerBindPort    int32 `yaml:"kubeApiServerBindPort"`
	KubeAPIServerBindPortAlt int32 `yaml:"kubeApiServerBindPortAlt"`
	// Password is the password hash of the user ocne. SSHPublicKey is the public key of this user, and SSHPublicKeyPath
	// is a file with the key.
	Password         string `yaml:"password"`
	SSHPublicKey     string `yaml:"sshPublicKey"`
	SSHPublicKeyPath string `yaml:"sshPublicKeyPath"`
	// CipherSuites are the cipher suites of the control plane's servers, separated by commas.
	CipherSuites string `yaml:"cipherSuites"`
	// Proxy is the proxy of the nodes.
	Proxy Proxy `yaml:"proxy"`
	// ExtraIgnition is a file with an Ignition or Butane configuration. ExtraIgnitionInline is the configuration
	// itself, as text or as a mapping.
	ExtraIgnition       string    `yaml:"extraIgnition"`
	ExtraIgnitionInline yaml.Node `yaml:"extraIgnitionInline"`
	// Registry is the registry of the Kubernetes container images. OSRegistry and OSTag are the image, without its tag,
	// and the tag of the operating system.
	Registry   string `yaml:"registry"`
	OSRegistry string `yaml:"osRegistry"`
	OSTag      string `yaml:"osTag"`
	// OSTransport is how a node that updates itself verifies the image of its operating system. Examples are
	// ostree-image-signed:registry and ostree-unverified-registry. If it is empty, the image of the node decides. This
	// provider replaces nodes instead of updating them.
	OSTransport string `yaml:"osTransport"`
	// CNI, Headless, Applications and Catalogs configure the software installed in the running cluster.
	CNI          string        `yaml:"cni"`
	Headless     bool          `yaml:"headless"`
	Applications []Application `yaml:"applications"`
	Catalogs     []Catalog     `yaml:"catalogs"`
	// ClusterDefinition and ClusterDefinitionInline are manifests that replace the rendered ones.
	ClusterDefinition       string    `yaml:"clusterDefinition"`
	ClusterDefinitionInline yaml.Node `yaml:"clusterDefinitionInline"`
	// LoadBalancer has no effect with this provider.
	LoadBalancer string `yaml:"loadBalancer"`

	Providers Providers `yaml:"providers"`
}

// Application is a chart of a catalog. Its values are in Config, as text or as a mapping, or in the file ConfigFrom.
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

// Providers are the settings of the providers. olvmctl uses only olvm and oci.
type Providers struct {
	OLVM    OLVM      `yaml:"olvm"`
	BYO     yaml.Node `yaml:"byo"`
	Libvirt yaml.Node `yaml:"libvirt"`
	OCI     OCI       `yaml:"oci"`
	None    yaml.Node `yaml:"none"`
}

// Proxy is the proxy for HTTP. Commas separate the entries of NoProxy.
type Proxy struct {
	HTTPProxy  string `yaml:"httpProxy"`
	HTTPSProxy string `yaml:"httpsProxy"`
	NoProxy    string `yaml:"noProxy"`
}

// OLVM are the settings of the provider olvm.
type OLVM struct {
	// Namespace is the namespace of all objects in the management cluster. If empty, it is ocne.
	Namespace           string           `yaml:"namespace"`
	DatacenterName      string           `yaml:"olvmDatacenterName"`
	OvirtAPIServer      APIServer        `yaml:"olvmOvirtAPIServer"`
	OCK                 OCK              `yaml:"olvmOCK"`
	LocalAPIEndpoint    LocalAPIEndpoint `yaml:"localAPIEndpoint"`
	ControlPlaneMachine Machine          `yaml:"controlPlaneMachine"`
	WorkerMachine       Machine          `yaml:"workerMachine"`
	// Proxy is the proxy of the controllers.
	Proxy Proxy `yaml:"proxy"`
	// SelfManaged reports whether the cluster should manage itself.
	SelfManaged bool `yaml:"selfManaged"`
	// CSIDriver is the storage driver of the cluster.
	CSIDriver CSIDriver `yaml:"ovirtCsiDriver"`
	// ServiceLoadBalancers gives addresses to Services of type LoadBalancer.
	ServiceLoadBalancers struct {
		// IPAddresses are ranges in the format used for the ranges of machines. If empty, Services get no addresses.
		IPAddresses string `yaml:"ipAddresses"`
	} `yaml:"serviceLoadBalancers"`
	// IngressVirtualIP is an address for ingress, held by one of the nodes. If empty, there is none.
	IngressVirtualIP string `yaml:"ingressVirtualIp"`
	// BaseDomain is the parent of the cluster's domain. The first label of this domain is the name of the cluster. If
	// it is empty, the nodes answer no DNS queries for names of the cluster.
	BaseDomain string `yaml:"baseDomain"`
}

// OCI are the settings of the provider oci, Oracle Cloud Infrastructure.
type OCI struct {
	// Namespace is the namespace of all objects in the management cluster. If empty, it is ocne.
	Namespace string `yaml:"namespace"`
	// Compartment is the compartment of the cluster. It is an OCID, or a path in the tenancy such as parent/child.
	Compartment string `yaml:"compartment"`
	// Profile is a profile in the configuration of Oracle's command. If empty, it is DEFAULT.
	Profile string `yaml:"profile"`
	// Principal is User, with a key in the profile, or Instance, the calling machine. If empty, it is User.
	Principal string `yaml:"principal"`
	// BootImage is a container image with the boot disk of machines, for each architecture without an image in the
	// compartment. Empty means none.
	BootImage string `yaml:"bootImage"`
	// ImageBucket receives uploaded images. Empty means ocne-images.
	ImageBucket string `yaml:"imageBucket"`
	// Images are OCIDs of images to use in place of the newest images in the compartment.
	Images OCIImages `yaml:"images"`
	// ControlPlaneShape and WorkerShape are the shapes of the machines.
	ControlPlaneShape OCIShape `yaml:"controlPlaneShape"`
	WorkerShape       OCIShape `yaml:"workerShape"`
	// VCN is the OCID of an existing network. If empty, the cluster gets its own network. LoadBalancer has the subnets
	// in this network for Services.
	VCN          string          `yaml:"vcn"`
	LoadBalancer OCILoadBalancer `yaml:"loadBalancer"`
	// Proxy is the proxy of the controllers.
	Proxy Proxy `yaml:"proxy"`
	// SelfManaged reports whether the cluster should manage itself.
	SelfManaged bool `yaml:"selfManaged"`
	// Endpoints are URLs of services. They replace the URLs of the region.
	Endpoints OCIEndpoints `yaml:"endpoints"`
}

// OCIImages are the OCIDs of images by architecture.
type OCIImages struct {
	AMD64 string `yaml:"amd64"`
	ARM64 string `yaml:"arm64"`
}

// OCIShape is the size of a machine.
type OCIShape struct {
	// Shape is the name of a shape such as VM.Standard.E4.Flex. The other fields are its number of processors and its
	// memory in GB.
	Shape       string `yaml:"shape"`
	OCPUs       string `yaml:"ocpus"`
	MemoryInGBs string `yaml:"memoryInGBs"`
	// BootVolumeSizeInGBs is the size of the disk in GB. If empty, it is 50.
	BootVolumeSizeInGBs string `yaml:"bootVolumeSizeInGBs"`
}

// OCILoadBalancer has the OCIDs of the subnets for load balancers.
type OCILoadBalancer struct {
	Subnet1 string `yaml:"subnet1"`
	Subnet2 string `yaml:"subnet2"`
}

// OCIEndpoints are the URLs of services.
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
	// ServerURL is the URL of the engine, without /api.
	ServerURL string `yaml:"serverURL"`
	// ServerCA is the CA in PEM. ServerCAPath are the names of CA files, separated by commas.
	ServerCA              string    `yaml:"serverCA"`
	ServerCAPath          string    `yaml:"serverCAPath"`
	InsecureSkipTLSVerify bool      `yaml:"insecureSkipTLSVerify"`
	CredentialsSecret     Reference `yaml:"credentialsSecret"`
	CAConfigMap           Reference `yaml:"caConfigMap"`
}

// Reference names an object in the management cluster.
type Reference struct {
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace"`
}

// OCK describes the disk of an uploaded image.
type OCK struct {
	StorageDomainName string `yaml:"storageDomainName"`
	DiskName          string `yaml:"diskName"`
	DiskSize          string `yaml:"diskSize"`
}

// LocalAPIEndpoint is the address and the port that the API servers listen on.
type LocalAPIEndpoint struct {
	BindPort         int32  `yaml:"bindPort"`
	AdvertiseAddress string `yaml:"advertiseAddress"`
}

// Machine has the settings of all machines of one role.
type Machine struct {
	OvirtClusterName string         `yaml:"olvmOvirtClusterName"`
	VMTemplateName   string         `yaml:"vmTemplateName"`
	Network          Network        `yaml:"olvmNetwork"`
	VirtualMachine   VirtualMachine `yaml:"virtualMachine"`
}

// Network is a network of the engine.
type Network struct {
	NetworkName     string `yaml:"networkName"`
	VNICName        string `yaml:"vnicName"`
	VNICProfileName string `yaml:"vnicProfileName"`
}

// VirtualMachine is the size of a VM, and the network in its guest.
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

// GuestNetwork configures the network in the guest of a VM.
type GuestNetwork struct {
	// Gateway is the IPv4 gateway.
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
		// Subnet and Gateway are not part of Oracle's format. Without them, routers announce themselves.
		Subnet  string `yaml:"subnet"`
		Gateway string `yaml:"gateway"`
	} `yaml:"ipv6"`
}

// These are the credentials that the storage driver can use.
const (
	// DriverOwn are the credentials of an engine user for the driver only.
	DriverOwn = "Own"
	// DriverMachines are the credentials used to create machines.
	DriverMachines = "Machines"
)

// CSIDriver is the oVirt CSI driver in the cluster.
type CSIDriver struct {
	Install *bool `yaml:"install"`
	// Credentials is DriverOwn or DriverMachines. If empty, it is DriverOwn, because every node has these credentials.
	Credentials          string `yaml:"credentials"`
	Namespace            string `yaml:"namespace"`
	CredsSecretName      string `yaml:"credsSecretName"`
	CAConfigMapName      string `yaml:"caConfigmapName"`
	CSIDriverName        string `yaml:"csiDriverName"`
	ControllerPluginName string `yaml:"controllerPluginName"`
	NodePluginName       string `yaml:"nodePluginName"`
	// StorageClasses are created together with the driver.
	StorageClasses []StorageClass `yaml:"storageClasses"`
}

// StorageClass is a class for volumes in one storage domain.
type StorageClass struct {
	// Name is the name of the class. If empty, it is the name of the storage domain.
	Name              string `yaml:"name"`
	StorageDomainName string `yaml:"storageDomainName"`
	// Default reports whether claims that name no class use this one.
	Default bool `yaml:"default"`
	// Thick reports whether a volume allocates all of its space when it is created.
	Thick bool `yaml:"thick"`
	// FSType is the file system of volumes. If empty, it is xfs.
	FSType string `yaml:"fsType"`
}
