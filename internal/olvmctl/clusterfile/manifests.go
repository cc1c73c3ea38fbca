package clusterfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capolvm/cluster-api-provider-olvm/config/templates"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// user is the name of the login user on nodes.
const user = "ocne"

// DefaultFlavor is the flavor intended for cluster files. Its images have Ignition, keepalived and nginx.
const DefaultFlavor = "ock"

// Flavors returns the names of all flavors. The name of the flavor without a suffix is "default".
func Flavors() []string {
	files, err := fs.Glob(templates.Files, "cluster-template*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}

	var out []string

	for _, file := range files {
		name := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(file, "cluster-template"), ".yaml"), "-")
		switch name {
		case "":
			out = append(out, "default")
		case "topology": // its machines are variables of a class
		case "rke2", "kamaji": // a cluster file describes a control plane of kubeadm
		default:
			out = append(out, name)
		}
	}

	slices.Sort(out)

	return out
}

// Manifests renders the objects of a valid cluster file from the template of a flavor. lookup returns the values of
// variables missing from the file, like clusterctl's lookup in the environment.
func (s *Source) Manifests(flavor string, lookup func(string) (string, bool)) ([]*unstructured.Unstructured, error) {
	if !slices.Contains(Flavors(), flavor) {
		return nil, fmt.Errorf("no such flavor %q; use one of %s", flavor, strings.Join(Flavors(), ", "))
	}

	file := "cluster-template.yaml"
	if flavor != "default" {
		file = "cluster-template-" + flavor + ".yaml"
	}

	content, err := templates.Files.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read a template: %w", err)
	}

	if content, err = s.fillVariables(content, flavor, lookup); err != nil {
		return nil, err
	}

	objects, err := manifest.Read(content)
	if err != nil {
		return nil, fmt.Errorf("failed to read the template of flavor %s: %w", flavor, err)
	}

	for _, object := range objects {
		dropOmitted(object.Object)
	}

	patches, err := s.filePatches(objects, flavor == DefaultFlavor)
	if err != nil {
		return nil, err
	}

	if err := s.applyPatches(objects, patches); err != nil {
		return nil, err
	}

	manifest.KindsFirst(objects, "Cluster", "OLVMCluster", "KubeadmControlPlane")
	ca, err := s.caConfigMap()
	if err != nil || ca == nil {
		return objects, err
	}

	return append([]*unstructured.Unstructured{ca}, objects...), nil
}

// fillVariables replaces the variables in a template as clusterctl does. Values in the cluster file take precedence
// over lookup.
func (s *Source) fillVariables(content []byte, flavor string, lookup func(string) (string, bool)) ([]byte, error) {
	processor := yamlprocessor.NewSimpleProcessor()

	defaults, err := processor.GetVariableMap(content)
	if err != nil {
		return nil, fmt.Errorf("failed to read the variables of flavor %s: %w", flavor, err)
	}

	variables := s.templateVariables()

	var (
		problem error    // clusterctl would report an unset variable instead
		missing []string // in no order
	)

	filled, err := processor.Process(content, func(name string) (string, error) {
		value, ok := variables[name]
		if ok && value == "" && defaults[name] == nil {
			return omitted, nil
		}

		if !ok {
			value, ok = lookup(name)
			value = strings.TrimRight(value, "\n") // as Flux does; clusterctl makes it a blank in a quoted text
		}

		if standard := defaults[name]; !ok && standard != nil && strings.TrimSpace(*standard) == "" {
			return omitted, nil
		}

		if ok && strings.Contains(string(content), "'${"+name) { // the variable is in a text in single quotes
			value = strings.ReplaceAll(value, "'", "''")
		}

		switch {
		case hasLines(value):
			problem = fmt.Errorf("the value of %s contains a line break, which could add fields; use a single line",
				name)
		case ok:
			return value, nil
		case defaults[name] == nil:
			missing = append(missing, name)
		}

		return "", errors.New(name + " is not set") // a default is taken, if there is one
	})
	if problem == nil && len(missing) > 0 {
		slices.Sort(missing)
		problem = fmt.Errorf("variables of flavor %s are not set; set them in the environment: %s", flavor,
			strings.Join(slices.Compact(missing), ", "))
	}

	if problem != nil {
		return nil, problem
	}

	return filled, err
}

// applyPatches applies patches to objects. The key of a patch is the kind, and the part of the name after the cluster's
// name.
func (s *Source) applyPatches(objects []*unstructured.Unstructured, patches map[string]object) error {
	for _, object := range objects {
		if patch, ok := patches[object.GetKind()+"/"+strings.TrimPrefix(object.GetName(), s.Name)]; ok {
			if err := applyPatch(object, patch); err != nil {
				return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}

	return nil
}

// onlyField returns an object with only one field of value.
func onlyField(value any, field string) object {
	from, _ := value.(object)
	return object{field: from[field]}
}

// omitted is the value of a variable that the cluster file does not set. dropOmitted removes its field. It is not the
// empty text, because some fields of templates are empty on purpose.
const omitted = "<omitted>"

// dropOmitted removes fields whose value is omitted, or is a list with omitted as its only entry. It also removes
// objects that become empty, and reports whether value itself becomes empty.
func dropOmitted(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		dropped := false

		for key, field := range value {
			list, ok := field.([]any)
			if field == omitted || ok && len(list) == 1 && list[0] == omitted || dropOmitted(field) {
				delete(value, key)

				dropped = true
			}
		}

		return dropped && len(value) == 0
	case []any:
		for _, entry := range value {
			dropOmitted(entry)
		}
	}

	return false
}

// templateVariables returns the template variables that the cluster file sets.
func (s *Source) templateVariables() map[string]string {
	o := s.Providers.OLVM
	control, worker := o.ControlPlaneMachine, o.WorkerMachine
	pods, services := splitList(s.PodSubnet), splitList(s.ServiceSubnet)
	out := map[string]string{
		"CLUSTER_NAME": s.Name, "NAMESPACE": o.Namespace, "KUBERNETES_VERSION": s.Version(),
		"CONTROL_PLANE_MACHINE_COUNT":  strconv.Itoa(s.ControlPlaneNodes),
		"WORKER_MACHINE_COUNT":         strconv.Itoa(s.WorkerNodes),
		"CONTROL_PLANE_ENDPOINT_HOST":  s.VirtualIP,
		"CONTROL_PLANE_ENDPOINT_PORT":  strconv.Itoa(int(s.KubeAPIServerBindPort)),
		"OLVM_DATA_CENTER":             o.DatacenterName,
		"OLVM_SERVER_URL":              s.EngineURL(),
		"OLVM_CLUSTER":                 control.OvirtClusterName,
		"OLVM_VM_TEMPLATE":             control.VMTemplateName,
		"OLVM_CREDENTIALS_SECRET":      o.OvirtAPIServer.CredentialsSecret.Name,
		"OLVM_CA_CONFIGMAP":            o.OvirtAPIServer.CAConfigMap.Name,
		"OLVM_NETWORK":                 control.Network.NetworkName,
		"OLVM_VNIC_PROFILE":            control.Network.VNICProfileName,
		"OLVM_SUBNET":                  control.VirtualMachine.Network.IPv4.Subnet,
		"OLVM_GATEWAY":                 control.VirtualMachine.Network.Gateway,
		"OLVM_DNS_SERVER":              firstEntry(control.VirtualMachine.Network.DNSServers),
		"OLVM_CONTROL_PLANE_ADDRESSES": control.VirtualMachine.Network.IPv4.IPAddresses,
		"OLVM_WORKER_ADDRESSES":        worker.VirtualMachine.Network.IPv4.IPAddresses,
		"OLVM_CONTROL_PLANE_MEMORY":    control.VirtualMachine.Memory,
		"OLVM_WORKER_MEMORY":           worker.VirtualMachine.Memory,
		"OLVM_REGISTRY":                s.Registry,
	}
	if s.Providers.OLVM.IngressVirtualIP != "" {
		out["INGRESS_VIRTUAL_IP"] = s.Providers.OLVM.IngressVirtualIP
	}

	if s.Domain() != "" {
		out["CLUSTER_DOMAIN"] = s.Domain()
	}

	if len(pods) > 0 && len(services) > 0 {
		out["POD_CIDR"], out["SERVICE_CIDR"] = pods[0], services[0]
	}

	if s.isIPv6Only() {
		out["POD_CIDR_IPV6"], out["SERVICE_CIDR_IPV6"] = firstEntry(s.PodSubnet), firstEntry(s.ServiceSubnet)
		out["CONTROL_PLANE_ENDPOINT_IPV6"] = s.VirtualIP
		out["OLVM_SUBNET_IPV6"] = control.VirtualMachine.Network.IPv6.Subnet
		out["OLVM_GATEWAY_IPV6"] = control.VirtualMachine.Network.IPv6.Gateway
		out["OLVM_CONTROL_PLANE_ADDRESSES_IPV6"] = control.VirtualMachine.Network.IPv6.IPAddresses
		out["OLVM_WORKER_ADDRESSES_IPV6"] = worker.VirtualMachine.Network.IPv6.IPAddresses
	}

	return out
}

// firstEntry returns the first entry of a comma-separated list, or "" for an empty list.
func firstEntry(list string) string {
	entries := splitList(list)
	if len(entries) == 0 {
		return ""
	}

	return entries[0]
}

// object is a JSON object.
type object = map[string]any

// filePatches returns the settings in the file that are not template variables. The key is the kind, and the part of
// the name after the cluster's name. They are merged into the objects as JSON merge patches (RFC 7386).
func (s *Source) filePatches(objects []*unstructured.Unstructured, ignition bool) (map[string]object, error) {
	cluster, err := s.clusterPatch(objects, ignition)
	if err != nil {
		return nil, err
	}

	control, err := asObject(s.machineSpec(&s.Providers.OLVM.ControlPlaneMachine))
	if err != nil {
		return nil, err
	}

	worker, err := asObject(s.machineSpec(&s.Providers.OLVM.WorkerMachine))
	if err != nil {
		return nil, err
	}

	for _, spec := range []object{control, worker} { // the template may have the disks of the other machines
		network := spec["virtualMachine"].(object)["network"].(object)
		for _, field := range []string{"dnsServers", "ipv4"} {
			if _, ok := network[field]; !ok {
				network[field] = nil
			}
		}
	}

	for _, o := range objects { // a flavor whose machine addresses come from elsewhere
		network, found, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec", "virtualMachine", "network")
		if found && network["ipv4"] == nil && network["ipv6"] == nil {
			for _, spec := range []object{control, worker} {
				vm := spec["virtualMachine"].(object)
				vm["network"] = onlyField(vm["network"], "dnsServers")
			}
		}
	}

	networks := func(list string) object { return object{"cidrBlocks": splitList(list)} }
	out := map[string]object{
		"Cluster/": {
			"spec": object{
				"clusterNetwork": object{"pods": networks(s.PodSubnet), "services": networks(s.ServiceSubnet)},
			},
		},
		"OLVMCluster/":                       {"spec": cluster},
		"OLVMMachineTemplate/-control-plane": {"spec": object{"template": object{"spec": control}}},
		"OLVMMachineTemplate/-md-0":          {"spec": object{"template": object{"spec": worker}}},
		"KubeadmControlPlane/-control-plane": {"spec": object{"kubeadmConfigSpec": s.kubeadmConfig(objects)}},
	}

	for _, o := range objects { // dual stack keeps its own networks if the file has only one
		blocks, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "clusterNetwork", "pods", "cidrBlocks")
		if len(blocks) > len(splitList(s.PodSubnet)) {
			delete(out, "Cluster/")
		}
	}

	return out, nil
}

// clusterPatch returns the spec of the OLVMCluster. The additions of the flavor to user data come before those of the
// file.
func (s *Source) clusterPatch(objects []*unstructured.Unstructured, ignition bool) (object, error) {
	cluster, err := asObject(s.clusterSpec())
	if err != nil {
		return nil, err
	}

	if !ignition { // the flavor has its own services
		if names := onlyNames(cluster["controlPlaneServices"].(object)); names != nil {
			cluster["controlPlaneServices"] = names
		} else {
			delete(cluster, "controlPlaneServices")
		}
	}

	if _, ok := cluster["olvmOvirtAPIServer"].(object)["caConfigMap"]; !ok {
		cluster["olvmOvirtAPIServer"].(object)["caConfigMap"] = nil
	}

	extra, err := s.extraConfigs(ignition)
	if err != nil || len(extra) == 0 {
		return cluster, err
	}

	data, _ := cluster["userData"].(object)
	if data == nil {
		data = object{}
	}

	for _, o := range objects {
		if of, _, _ := unstructured.NestedSlice(o.Object, "spec", "userData", "extra"); o.GetKind() == "OLVMCluster" {
			extra = append(of, extra...)
		}
	}

	data["extra"], cluster["userData"] = extra, data

	return cluster, nil
}

// kubeadmConfig returns the kubeadm configuration of the control plane.
func (s *Source) kubeadmConfig(objects []*unstructured.Unstructured) object {
	args := func(name, value string) []any { return []any{object{"name": name, "value": value}} }
	cluster := object{}

	if s.CipherSuites != "" {
		suites := args("tls-cipher-suites", s.CipherSuites)
		cluster["apiServer"] = object{"extraArgs": suites}
		cluster["controllerManager"] = object{"extraArgs": suites}
		cluster["scheduler"] = object{"extraArgs": suites}
		cluster["etcd"] = object{"local": object{"extraArgs": args("cipher-suites", s.CipherSuites)}}
	}

	if names := s.certificateNames(objects); len(names) > 0 {
		server, _ := cluster["apiServer"].(object)
		if server == nil {
			server = object{}
		}

		server["certSANs"], cluster["apiServer"] = names, server
	}

	control := object{}
	if len(cluster) > 0 {
		control["clusterConfiguration"] = cluster
	}

	if address := s.Providers.OLVM.LocalAPIEndpoint.AdvertiseAddress; address != "" {
		endpoint := object{"advertiseAddress": address}
		control["initConfiguration"] = object{"localAPIEndpoint": endpoint}
		control["joinConfiguration"] = object{"controlPlane": object{"localAPIEndpoint": endpoint}}
	}

	return control
}

// extraConfigs returns the additional user data of all machines: the user, the source of operating system updates, and
// the user's own additions.
func (s *Source) extraConfigs(ignition bool) ([]any, error) {
	keys, err := s.sshKeys()
	if err != nil {
		return nil, err
	}

	config, head := s.cloudConfigExtra(keys), "#cloud-config\n"
	if ignition {
		config, head = s.ignitionExtra(keys), ""
	}

	var out []any
	if config != nil {
		text, err := yaml.Marshal(config)
		if err != nil {
			return nil, fmt.Errorf("failed to encode user data: %w", err)
		}

		out = append(out, object{"inline": head + string(text)})
	}

	more, err := s.extraIgnition()
	if err != nil {
		return nil, err
	}

	if len(more) > 0 && !ignition {
		return nil, fmt.Errorf("extraIgnition requires an image with Ignition; use --flavor %s, or remove it",
			DefaultFlavor)
	}

	if len(more) > 0 {
		out = append(out, object{"inline": string(more)})
	}

	return out, nil
}

// ignitionExtra returns the additional Butane configuration of all machines with Ignition, or nil if there is none.
func (s *Source) ignitionExtra(keys []string) object {
	out := object{"variant": "fcos", "version": "1.0.0"}
	if s.OSTransport != "" {
		update := fmt.Sprintf("registry: %s\ntag: %q\ntransport: %s\n", s.OSRegistry, s.osTag(), s.OSTransport)
		out["storage"] = object{"files": []any{butaneFile("/etc/ocne/update.yaml", 0o400, update)}}
	}

	if s.Password == "" && len(keys) == 0 {
		if s.OSTransport == "" {
			return nil
		}

		return out
	}

	account := object{"name": user, "groups": []any{"wheel"}}
	if s.Password != "" {
		account["password_hash"] = s.Password
	}

	if len(keys) > 0 {
		account["ssh_authorized_keys"] = keys
	}

	out["passwd"] = object{"users": []any{account}}

	return out
}

// cloudConfigExtra returns the additional configuration of all machines with cloud-init, or nil if there is none.
func (s *Source) cloudConfigExtra(keys []string) object {
	if s.Password == "" && len(keys) == 0 {
		return nil
	}

	account := object{"name": user, "groups": "wheel", "sudo": "ALL=(ALL) ALL", "lock_passwd": s.Password == ""}
	if s.Password != "" {
		account["passwd"] = s.Password
	}

	if len(keys) > 0 {
		account["ssh_authorized_keys"] = keys
	}

	return object{"users": []any{"default", account}}
}

func butaneFile(path string, mode int, content string) object {
	return object{"path": path, "mode": mode, "overwrite": true, "contents": object{"inline": content}}
}

// osTag returns the version of the operating system. It is the version in the file, or else the Kubernetes version
// without its patch.
func (s *Source) osTag() string {
	if s.OSTag != "" {
		return s.OSTag
	}

	return minor.FindStringSubmatch(s.Version())[1]
}

// caConfigMap returns a ConfigMap with the engine's CA certificates, or nil if the file has no CA.
func (s *Source) caConfigMap() (*unstructured.Unstructured, error) {
	certificates, err := s.CA()
	if err != nil || len(certificates) == 0 {
		return nil, err
	}

	o := s.Providers.OLVM
	configMap := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.OvirtAPIServer.CAConfigMap.Name},
		Data:       map[string]string{},
	}
	if configured := o.OvirtAPIServer.CAConfigMap.Namespace; configured != "" {
		configMap.Namespace = configured
	}

	for i, certificate := range certificates {
		key := "ca.crt"
		if i > 0 {
			key += strconv.Itoa(i)
		}

		configMap.Data[key] = string(certificate)
	}

	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configMap)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a ConfigMap: %w", err)
	}

	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")

	return &unstructured.Unstructured{Object: content}, nil
}

func asObject(from any) (object, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("failed to encode: %w", err)
	}

	var out object
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("failed to encode: %w", err)
	}

	return out, nil
}

func applyPatch(target *unstructured.Unstructured, patch object) error {
	before, err := json.Marshal(target.Object)
	if err != nil {
		return err
	}

	change, err := json.Marshal(patch)
	if err != nil {
		return err
	}

	after, err := jsonpatch.MergePatch(before, change)
	if err != nil {
		return err
	}

	return target.UnmarshalJSON(after)
}

func encodeYAML(out io.Writer, node *yaml.Node) error {
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	return encoder.Encode(node)
}
