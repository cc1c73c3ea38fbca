package clusterfile

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// These are the default settings of the provider oci.
const (
	defaultControlShape = "VM.Standard.A1.Flex"
	defaultWorkerShape  = "VM.Standard.E4.Flex"
	defaultControlOCPUs = "2"
	defaultWorkerOCPUs  = "4"
	defaultBootVolume   = "50"
	defaultImageBucket  = "ocne-images"
	defaultProfile      = "DEFAULT"
)

// maxOCIName is the maximum length of a cluster name in Cluster API Provider OCI, in characters.
const maxOCIName = 44

// These are the kinds of principals in OCI.
const (
	// UserPrincipal is a user with an API key.
	UserPrincipal = "User"
	// InstancePrincipal is the instance that makes the request.
	InstancePrincipal = "Instance"
)

// setOCIDefaults sets the missing settings of the provider oci.
func (f *File) setOCIDefaults() {
	o := &f.Providers.OCI
	setText(&o.Profile, defaultProfile)
	setText(&o.Principal, UserPrincipal)
	setText(&o.ImageBucket, defaultImageBucket)
	setText(&o.ControlPlaneShape.Shape, defaultControlShape)
	setText(&o.ControlPlaneShape.OCPUs, defaultControlOCPUs)
	setText(&o.WorkerShape.Shape, defaultWorkerShape)
	setText(&o.WorkerShape.OCPUs, defaultWorkerOCPUs)
	setText(&o.ControlPlaneShape.BootVolumeSizeInGBs, defaultBootVolume)
	setText(&o.WorkerShape.BootVolumeSizeInGBs, defaultBootVolume)
}

// OCICredentialsOf returns the name of the Secret with the OCI key of a cluster.
func OCICredentialsOf(cluster string) string { return cluster + "-oci-credentials" }

// OCIKubernetes returns the Kubernetes version as in image tags, without a v.
func (f *File) OCIKubernetes() string { return strings.TrimPrefix(f.Version(), "v") }

// imageOCID matches the OCIDs of images.
var imageOCID = regexp.MustCompile(`^ocid1\.image\.`)

// checkOCI checks the settings of the provider oci.
func (s *Source) checkOCI() {
	const path = "providers.oci."
	o := s.Providers.OCI
	if o.Compartment == "" {
		s.noteProblem(false, path+"compartment", "required; use an OCID, or a path such as parent/child")
	}

	if len(s.Name) > maxOCIName {
		s.noteProblem(
			false, "name", "%q is too long for a cluster on OCI; use at most %d characters", s.Name, maxOCIName,
		)
	}

	switch o.Principal {
	case UserPrincipal, InstancePrincipal:
	default:
		s.noteProblem(
			false, path+"principal", "unsupported value %q; use %s or %s", o.Principal, UserPrincipal,
			InstancePrincipal,
		)
	}

	for key, id := range map[string]string{"amd64": o.Images.AMD64, "arm64": o.Images.ARM64} {
		if id != "" && !imageOCID.MatchString(id) {
			s.noteProblem(false, path+"images."+key,
				"%q is not the OCID of an image; use an OCID that starts with ocid1.image", id)
		}
	}

	s.checkShape(path+"controlPlaneShape.", o.ControlPlaneShape)
	s.checkShape(path+"workerShape.", o.WorkerShape)
	s.checkEndpoints()
	s.checkUnusedByOCI()
}

// checkShape checks the numbers in a shape.
func (s *Source) checkShape(path string, shape OCIShape) {
	for key, value := range map[string]string{
		"ocpus": shape.OCPUs, "memoryInGBs": shape.MemoryInGBs, "bootVolumeSizeInGBs": shape.BootVolumeSizeInGBs,
	} {
		number, err := strconv.ParseFloat(value, 64)
		if value != "" && (err != nil || number <= 0) {
			s.noteProblem(false, path+key, "%q is not a number greater than 0", value)
		}
	}

	size, err := strconv.ParseFloat(shape.BootVolumeSizeInGBs, 64)
	if err == nil && size > 0 && size < 50 {
		s.noteProblem(false, path+"bootVolumeSizeInGBs", "%s is less than 50, the minimum on OCI",
			shape.BootVolumeSizeInGBs)
	}
}

// byKey returns the endpoints by their keys in the file.
func (o OCIEndpoints) byKey() map[string]string {
	return map[string]string{
		"compute": o.Compute, "network": o.Network, "networkLoadBalancer": o.NetworkLoadBalancer,
		"identity": o.Identity, "objectStorage": o.ObjectStorage, "workRequests": o.WorkRequests,
	}
}

func (s *Source) checkEndpoints() {
	for key, value := range s.Providers.OCI.Endpoints.byKey() {
		parsed, err := url.Parse(value)
		if value != "" && (err != nil || parsed.Scheme != "https" || parsed.Host == "") {
			s.noteProblem(false, "providers.oci.endpoints."+key, "%q is not an https URL", value)
		}
	}
}

// checkUnusedByOCI warns about settings without effect on OCI.
func (s *Source) checkUnusedByOCI() {
	for path, used := range map[string]bool{
		"extraIgnition":       s.ExtraIgnition != "",
		"extraIgnitionInline": !s.ExtraIgnitionInline.IsZero(),
	} {
		if used {
			s.noteProblem(
				false,
				path,
				"not supported on OCI: machines use cloud-init, because Cluster API supports only Ignition 2, "+
					"which current images cannot read; remove it",
			)
		}
	}

	for path, value := range map[string]string{
		"virtualIp":   s.VirtualIP,
		"osTransport": s.OSTransport,
	} {
		if value != "" {
			s.noteProblem(
				true, path, "ignored on OCI, which has a network load balancer for the API servers",
			)
		}
	}

	if s.KubeAPIServerBindPortAlt != 0 {
		s.noteProblem(true, "kubeApiServerBindPortAlt", "ignored on OCI")
	}
}

// OCIFacts are facts about a cluster that only the cloud knows.
type OCIFacts struct {
	// Compartment is the OCID of its compartment.
	Compartment string
	// ControlPlaneImage and WorkerImage are the OCIDs of the images of its machines.
	ControlPlaneImage, WorkerImage string
}

//go:embed oci.yaml
var ociTemplate []byte

// OCIManifests renders the objects of a valid cluster file for OCI.
func (s *Source) OCIManifests(facts OCIFacts) ([]*unstructured.Unstructured, error) {
	variables := map[string]string{
		"CLUSTER_NAME":                s.Name,
		"NAMESPACE":                   s.Namespace(),
		"PRINCIPAL":                   s.Providers.OCI.Principal + "Principal",
		"CREDENTIALS_SECRET":          OCICredentialsOf(s.Name),
		"COMPARTMENT_ID":              facts.Compartment,
		"KUBERNETES_VERSION":          s.Version(),
		"API_SERVER_PORT":             strconv.Itoa(int(s.KubeAPIServerBindPort)),
		"CONTROL_PLANE_MACHINE_COUNT": strconv.Itoa(s.ControlPlaneNodes),
		"WORKER_MACHINE_COUNT":        strconv.Itoa(s.WorkerNodes),
	}
	content, err := yamlprocessor.NewSimpleProcessor().Process(ociTemplate, func(name string) (string, error) {
		if value, ok := variables[name]; ok {
			return value, nil
		}

		return "", fmt.Errorf("the template of oci has no variable %s", name)
	})
	if err != nil {
		return nil, err
	}

	objects, err := manifest.Read(content)
	if err != nil {
		return nil, fmt.Errorf("failed to read the template of oci: %w", err)
	}

	patches, err := s.ociPatches(facts)
	if err != nil {
		return nil, err
	}

	return objects, s.applyPatches(objects, patches)
}

// ociPatches returns the settings in the file that are not template variables. The key is the kind, and the part of the
// name after the cluster's name.
func (s *Source) ociPatches(facts OCIFacts) (map[string]object, error) {
	o := s.Providers.OCI
	keys, err := s.sshKeys()
	if err != nil {
		return nil, err
	}

	identity := object{"type": o.Principal + "Principal"}
	if o.Principal == InstancePrincipal {
		identity["principalSecret"] = nil
	}

	cluster := object{"networkSpec": ociNetwork(s.KubeAPIServerBindPort)}
	if overrides := o.Endpoints.clientOverrides(); len(overrides) > 0 {
		cluster["clientOverrides"] = overrides
	}

	networks := func(list string) object { return object{"cidrBlocks": splitList(list)} }
	control := s.ociKubeadm(keys)
	control["clusterConfiguration"] = s.ociClusterConfiguration()
	if s.KubeAPIServerBindPort != defaultPort { // Cluster API passes it only to the load balancer
		endpoint := object{"localAPIEndpoint": object{"bindPort": s.KubeAPIServerBindPort}}
		control["initConfiguration"] = endpoint
		control["joinConfiguration"] = object{"controlPlane": endpoint}
	}

	return map[string]object{
		"OCIClusterIdentity/": {"spec": identity},
		"Cluster/": {"spec": object{
			"clusterNetwork": object{"pods": networks(s.PodSubnet), "services": networks(s.ServiceSubnet)},
		}},
		"OCICluster/": {"spec": cluster},
		"OCIMachineTemplate/-control-plane": ociMachineTemplate(
			facts, facts.ControlPlaneImage, o.ControlPlaneShape, keys,
		),
		"OCIMachineTemplate/-md-0":           ociMachineTemplate(facts, facts.WorkerImage, o.WorkerShape, keys),
		"KubeadmControlPlane/-control-plane": {"spec": object{"kubeadmConfigSpec": control}},
		"KubeadmConfigTemplate/-md-0": {"spec": object{"template": object{
			"spec": s.ociKubeadm(keys),
		}}},
	}, nil
}

// ociMachineTemplate returns the machine template for a shape.
func ociMachineTemplate(facts OCIFacts, image string, shape OCIShape, keys []string) object {
	config := object{"ocpus": shape.OCPUs}
	if shape.MemoryInGBs != "" {
		config["memoryInGBs"] = shape.MemoryInGBs
	}

	spec := object{
		"imageId":                        image,
		"compartmentId":                  facts.Compartment,
		"shape":                          shape.Shape,
		"shapeConfig":                    config,
		"bootVolumeSizeInGBs":            shape.BootVolumeSizeInGBs,
		"isPvEncryptionInTransitEnabled": false,
	}
	if len(keys) > 0 {
		spec["metadata"] = object{"ssh_authorized_keys": strings.Join(keys, "\n")}
	}

	return object{"spec": object{"template": object{"spec": spec}}}
}

// ociKubeadm returns the kubeadm configuration of all machines: a user, and the proxy.
func (s *Source) ociKubeadm(keys []string) object {
	out := object{}
	if s.Password != "" || len(keys) > 0 {
		account := object{
			"name": user, "groups": "wheel", "sudo": "ALL=(ALL) ALL", "lockPassword": s.Password == "",
		}
		if s.Password != "" {
			account["passwd"] = s.Password
		}

		if len(keys) > 0 {
			account["sshAuthorizedKeys"] = keys
		}

		out["users"] = []any{account}
	}

	if s.Proxy.HTTPProxy == "" && s.Proxy.HTTPSProxy == "" {
		return out
	}

	var files []any
	for _, service := range []string{"containerd", "crio"} { // kubelets reach the API servers without a proxy
		files = append(files, object{
			"path":        "/etc/systemd/system/" + service + ".service.d/proxy.conf",
			"owner":       "root:root",
			"permissions": "0644",
			"content":     s.proxyUnit(),
		})
	}

	out["files"] = files
	out["preKubeadmCommands"] = []any{
		"systemctl daemon-reload",
		"systemctl try-restart containerd.service crio.service",
	}

	return out
}

// instanceMetadata is the address of the instance metadata service.
const instanceMetadata = "169.254.169.254"

// proxyUnit returns a systemd drop-in with the proxy for the services that pull images.
func (s *Source) proxyUnit() string {
	without := append(splitList(s.Proxy.NoProxy), "localhost", "127.0.0.1", instanceMetadata, vcnNetwork)
	without = append(append(without, splitList(s.PodSubnet)...), splitList(s.ServiceSubnet)...)

	return fmt.Sprintf("[Service]\nEnvironment=\"HTTP_PROXY=%s\" \"HTTPS_PROXY=%s\" \"NO_PROXY=%s\"\n",
		cmp.Or(s.Proxy.HTTPProxy, s.Proxy.HTTPSProxy), cmp.Or(s.Proxy.HTTPSProxy, s.Proxy.HTTPProxy),
		strings.Join(without, ","))
}

// ociClusterConfiguration returns the kubeadm configuration of the whole cluster.
func (s *Source) ociClusterConfiguration() object {
	out, server := object{}, object{"certSANs": []any{"localhost", "127.0.0.1"}}
	if nodeAt(s.documents[0].root, "registry").Kind != 0 {
		out["imageRepository"] = s.Registry + "/olcne"
	}

	if s.CipherSuites != "" {
		suites := func(name string) []any { return []any{object{"name": name, "value": s.CipherSuites}} }
		server["extraArgs"] = suites("tls-cipher-suites")
		out["controllerManager"] = object{"extraArgs": suites("tls-cipher-suites")}
		out["scheduler"] = object{"extraArgs": suites("tls-cipher-suites")}
		out["etcd"] = object{"local": object{"extraArgs": suites("cipher-suites")}}
	}

	out["apiServer"] = server

	return out
}

// clientOverrides returns the endpoints in the format of Cluster API Provider OCI.
func (o OCIEndpoints) clientOverrides() object {
	out := object{}

	for key, value := range map[string]string{
		"computeClientUrl":             o.Compute,
		"vCNClientUrl":                 o.Network,
		"networkLoadBalancerClientUrl": o.NetworkLoadBalancer,
		"identityClientUrl":            o.Identity,
		"workrequestClientUrl":         o.WorkRequests,
	} {
		if value != "" {
			out[key] = value
		}
	}

	return out
}
