package survey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// Written describes the files written by a survey.
type Written struct {
	// ClusterFile, CA and Credentials are the paths of the files. CA is empty if the CAs of the system verify the
	// engine.
	ClusterFile string `json:"clusterFile"`
	CA          string `json:"ca,omitempty"`
	Credentials string `json:"credentials"`
	// NoTemplate reports whether the template does not exist in the engine yet.
	NoTemplate bool `json:"noTemplate,omitempty"`
	// Warnings are the warnings about the cluster file.
	Warnings []clusterfile.Problem `json:"warnings,omitempty"`
}

func (a *Answers) caFile(name string) string     { return name + "-ca.crt" }
func (a *Answers) secretFile(name string) string { return name + "-credentials.yaml" }

// keys is a YAML mapping that keeps the order of its keys.
type keys yaml.Node

// add adds a key with a value: text, a number as text, keys, or a list of keys. It skips empty values. The comment goes
// above it.
func (k *keys) add(key string, value any, comment string) *keys {
	var node *yaml.Node

	switch value := value.(type) {
	case string:
		node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	case count:
		node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: string(value)}
	case *keys:
		node = (*yaml.Node)(value)
	case []*keys:
		node = &yaml.Node{Kind: yaml.SequenceNode}
		for _, one := range value {
			node.Content = append(node.Content, (*yaml.Node)(one))
		}
	}

	if node.Value == "" && len(node.Content) == 0 {
		return k
	}

	if strings.Contains(node.Value, "\n") {
		node.Style = yaml.LiteralStyle
	}

	k.Content = append(k.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key, HeadComment: comment}, node)

	return k
}

// count is a number as typed by the user.
type count string

func newBlockMapping() *keys { return &keys{Kind: yaml.MappingNode} }
func newFlowMapping() *keys  { return &keys{Kind: yaml.MappingNode, Style: yaml.FlowStyle} }

// machineKeys returns the settings of the machines of one role.
func (a *Answers) machineKeys(memory, cores, disk, dataDisk, addresses string) *keys {
	var data []*keys
	if dataDisk != "" {
		data = append(data, newFlowMapping().add("name", "data", "").add("size", dataDisk, ""))
	}

	topology := newFlowMapping()
	if cores != "" {
		topology.add("cores", count(cores), "").add("sockets", count("1"), "")
	}

	return newBlockMapping().
		add("olvmOvirtClusterName", a.Cluster, "").
		add("vmTemplateName", a.Template, "").
		add("olvmNetwork", newFlowMapping().add("networkName", a.Network, "").
			add("vnicProfileName", a.VNICProfile, ""), "").
		add("virtualMachine", newBlockMapping().
			add("memory", memory, "").
			add("cpu", newFlowMapping().add("topology", topology, ""), "").
			add("rootDisk", newFlowMapping().add("size", disk, ""), "").
			add("dataDisks", data, "").
			add("network", newBlockMapping().add("gateway", a.Gateway, "").
				add("dnsServers", a.DNSServers, "").
				add("ipv4", newFlowMapping().add("subnet", a.Subnet, "").add("ipAddresses", addresses, ""), ""), ""),
			"")
}

// renderFile renders the cluster file with the answers so far. ca is the name of the CA file, or "" for none.
func (a *Answers) renderFile(ca string) ([]byte, error) {
	server := ""
	if a.Engine != "" {
		base, err := engine.ParseBaseURL(a.Engine)
		if err != nil {
			return nil, err
		}

		server = base.String()
	}

	root := newBlockMapping().
		add("name", a.Name, "").
		add("provider", "olvm", "").
		add("kubernetesVersion", a.KubernetesVersion, "").
		add("controlPlaneNodes", count(a.ControlPlaneNodes), "").
		add("workerNodes", count(a.WorkerNodes), "").
		add("virtualIp", a.VirtualIP, "# Control plane endpoint, held by one of the control plane machines.").
		add("sshPublicKey", a.SSHPublicKey, "# For user ocne on the machines.").
		add("providers", newBlockMapping().add("olvm", newBlockMapping().
			add("olvmDatacenterName", a.DataCenter, "").
			add("olvmOvirtAPIServer", newBlockMapping().add("serverURL", server, "").add("serverCAPath", ca, ""), "").
			add("olvmOCK", newFlowMapping().add("storageDomainName", a.StorageDomain, ""),
				"# Storage domain for the disks that olvmctl image creates.").
			add("ingressVirtualIp", a.IngressVirtualIP, "# Held by a node on which ingress answers.").
			add("baseDomain", a.BaseDomain, "# Nodes resolve api.NAME.DOMAIN and *.apps.NAME.DOMAIN.").
			add("controlPlaneMachine", a.machineKeys(a.ControlPlaneMemory, a.ControlPlaneCores, a.ControlPlaneDisk, "",
				a.ControlPlaneAddresses), "").
			add("workerMachine", a.machineKeys(a.WorkerMemory, a.WorkerCores, a.WorkerDisk, a.WorkerDataDisk,
				a.WorkerAddresses), ""), ""), "")
	var out bytes.Buffer
	out.WriteString("# Created by olvmctl init. Omitted keys have their defaults; see docs/user/cluster-file.md.\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode((*yaml.Node)(root)); err != nil {
		return nil, fmt.Errorf("failed to encode the cluster file: %w", err)
	}

	return out.Bytes(), nil
}

// renderSecret renders the Secret with the credentials. The manifests of the cluster file refer to it by its name.
func (s *survey) renderSecret(file *clusterfile.Source) ([]byte, error) {
	namespace, reference := file.Providers.OLVM.Namespace, file.Providers.OLVM.OvirtAPIServer.CredentialsSecret
	if reference.Namespace != "" {
		namespace = reference.Namespace
	}

	var out bytes.Buffer
	err := manifest.Write(&out, []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{
			"name":      reference.Name,
			"namespace": namespace,
			"labels":    map[string]any{clusterctlv1.ClusterctlMoveLabel: ""},
		},
		"stringData": map[string]any{
			"username":                   s.answers.User,
			"password":                   s.answers.Password,
			"scope":                      "ovirt-app-api",
			infrav1.AllowedServerURLsKey: file.EngineURL()},
	}}})

	return out.Bytes(), err
}

// output is a file to write.
type output struct {
	name    string
	content []byte
}

// writeFiles first writes the files to a temporary folder beside the output. It checks the cluster file there, as
// olvmctl validate does. Only then it moves the files to their places.
func (s *survey) writeFiles(ctx context.Context) (*Written, error) {
	dir := filepath.Dir(s.Output)
	staging, err := os.MkdirTemp(dir, ".olvmctl-init-")
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}

	defer func() { _ = os.RemoveAll(staging) }()
	a := &s.answers
	out := &Written{
		ClusterFile: s.Output,
		Credentials: filepath.Join(dir, a.secretFile(a.Name)),
		NoTemplate:  s.noTemplate,
	}
	var files []output
	ca := ""
	if s.ca != nil {
		ca = a.caFile(a.Name)
		out.CA = filepath.Join(dir, ca)
		files = append(files, output{ca, encodeCA(s.ca)})
	}

	content, err := a.renderFile(ca)
	if err != nil {
		return nil, err
	}

	files = append(files, output{filepath.Base(s.Output), content})
	if err := stageFiles(staging, files); err != nil {
		return nil, err
	}

	read, err := s.readValidated(filepath.Join(staging, filepath.Base(s.Output)), out)
	if err != nil {
		return nil, err
	}

	secret, err := s.renderSecret(read)
	if err != nil {
		return nil, err
	}

	files = append(files, output{a.secretFile(a.Name), secret})
	if err := stageFiles(staging, files[len(files)-1:]); err != nil {
		return nil, err
	}

	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}

	if err := s.publishFiles(staging, files); err != nil {
		return nil, err
	}

	return out, nil
}

func stageFiles(dir string, files []output) error {
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o600); err != nil {
			return fmt.Errorf("failed to write %s: %w", f.name, err)
		}
	}

	return nil
}

// readValidated reads and checks the cluster file at a path. Problems name the path of the output instead.
func (s *survey) readValidated(path string, out *Written) (*clusterfile.Source, error) {
	read, err := clusterfile.Read(path, s.Defaults)
	if err != nil {
		return nil, err
	}

	var wrong []error

	for _, p := range read.Validate() {
		if p.File == path {
			p.File = s.Output
		}

		if p.Warning {
			out.Warnings = append(out.Warnings, p)
		} else {
			wrong = append(wrong, p)
		}
	}

	if len(wrong) == 0 {
		_, err = read.Manifests(clusterfile.DefaultFlavor, os.LookupEnv)
		wrong = append(wrong, err)
	}

	return read, errors.Join(wrong...)
}

// publishFiles moves either all files to their places, or none. Without Force, it overwrites no existing files.
func (s *survey) publishFiles(staging string, files []output) (err error) {
	var undo []func()
	defer func() {
		if err == nil {
			return
		}

		for _, back := range slices.Backward(undo) {
			back()
		}
	}()

	for _, f := range files {
		if err := s.checkWritable(f.name); err != nil {
			return err
		}

		path, before := filepath.Join(filepath.Dir(s.Output), f.name), filepath.Join(staging, f.name+".before")
		switch err := os.Rename(path, before); {
		case err == nil:
			undo = append(undo, func() { _ = os.Rename(before, path) })
		case !errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("failed to overwrite %s: %w", path, err)
		}

		if err := os.Rename(filepath.Join(staging, f.name), path); err != nil {
			return fmt.Errorf("failed to write %s: %w", path, err)
		}

		undo = append(undo, func() { _ = os.Remove(path) })
	}

	return nil
}
