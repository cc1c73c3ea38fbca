// Package bootstrapvm makes a temporary VM that is the management cluster of a cluster until that manages itself.
//
// The VM is a cluster of one machine: kubeadm from the image of the control plane's machines, and a bridge as CNI. What
// it is made of is decided once and kept in a folder of the user, beside Terraform's state. So an operation that was
// interrupted goes on with the same VM.
package bootstrapvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// suffix of the VM's name, after that of the cluster.
const suffix = "-bootstrap"

// VM is the bootstrap VM of a cluster.
type VM struct {
	dir string
	record
}

// record is what was decided for a VM. It has secrets: the keys of its cluster are in its user data.
type record struct {
	// Namespace and Cluster are those of the cluster that is made from it.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// UID is in the mark of the VM.
	UID string `json:"uid"`
	// URL, CA and Insecure say how the engine is reached.
	URL      string `json:"url"`
	CA       []byte `json:"ca,omitempty"`
	Insecure bool   `json:"insecure,omitempty"`
	// Version of Kubernetes.
	Version string `json:"version"`
	// Machine and OLVMCluster are what the VM is made of.
	Machine       infrav1.OLVMMachineSpec `json:"machine"`
	OLVMCluster   infrav1.OLVMClusterSpec `json:"olvmCluster"`
	FailureDomain string                  `json:"failureDomain,omitempty"`
	// Network of its pods and services.
	Network clusterv1.ClusterNetwork `json:"network"`
	// Addresses of its network interface, whose name in the engine is NIC.
	NIC       string         `json:"nic"`
	Addresses []ipam.Address `json:"addresses"`
	// Data is what the bootstrap provider would make for it, Extra what users add.
	Format bootstrap.Format  `json:"format"`
	Data   []byte            `json:"data"`
	Extra  []bootstrap.Extra `json:"extra,omitempty"`
	// Kubeconfig of its administrator.
	Kubeconfig []byte `json:"kubeconfig"`
	// Made reports that Terraform has made all of it.
	Made bool `json:"made"`
	// Asked reports that the manifests of the cluster were applied to it: there may be machines that only it knows.
	Asked bool `json:"asked"`
	// Moved reports that a move of the cluster into itself was begun.
	Moved bool `json:"moved,omitempty"`
	// Workload is the file for the kubeconfig of the cluster; empty before Asked.
	Workload string `json:"workload,omitempty"`
}

// root is the folder with a folder for each bootstrap VM of the user.
func root() string { return filepath.Join(xdg.StateHome, "capolvm", "bootstrap") }

func folderOf(namespace, cluster string) string { return filepath.Join(root(), namespace, cluster) }

func (v *VM) recordFile() string { return filepath.Join(v.dir, "vm.json") }
func (v *VM) stateFile() string  { return filepath.Join(v.dir, "terraform.tfstate") }

// lockFile is beside the folder of the VM: it stays until that is removed.
func (v *VM) lockFile() string { return v.dir + ".lock" }

// KubeconfigFile is the file for its administrator.
func (v *VM) KubeconfigFile() string { return filepath.Join(v.dir, "admin.kubeconfig") }

// Find is the bootstrap VM of a cluster that this machine has begun to make; nil for none. An empty namespace means any
// that has a cluster of that name, if it is the only one.
func Find(namespace, cluster string) (*VM, error) {
	for _, name := range []string{namespace, cluster} {
		if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			return nil, nil // there is no such cluster
		}
	}

	pattern := namespace
	if pattern == "" {
		pattern = "*"
	}

	found, err := filepath.Glob(filepath.Join(folderOf(pattern, cluster), "vm.json"))
	if err != nil || len(found) == 0 {
		return nil, err
	}

	if len(found) > 1 {
		return nil, fmt.Errorf("clusters %s of several namespaces have bootstrap VMs; say which with -n", cluster)
	}

	v := &VM{dir: filepath.Dir(found[0])}

	content, err := os.ReadFile(found[0])
	if err == nil {
		err = json.Unmarshal(content, &v.record)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to read what is kept of the bootstrap VM: %w", err)
	}

	return v, nil
}

// Name of the VM, and the host name of its guest.
func (v *VM) Name() string { return v.Cluster + suffix }

// Address is that of its API server.
func (v *VM) Address() string { return v.Addresses[0].Addr().String() }

// Exists reports whether this machine keeps something of it.
func (v *VM) Exists() bool {
	_, err := os.Stat(v.recordFile())
	return err == nil
}

// Engine is how its engine is reached, without credentials.
func (v *VM) Engine() engine.Config {
	return engine.Config{URL: v.URL, CA: v.CA, Insecure: v.Insecure}
}

func (v *VM) owner() ownermark.Owner {
	return ownermark.Owner{Namespace: v.Namespace, Name: v.Name(), UID: v.UID}
}

// MarkAsked notes that the manifests of the cluster, whose kubeconfig will be in that file, are applied to it from now
// on.
func (v *VM) MarkAsked(workload string) error {
	if v.Asked && v.Workload == workload {
		return nil
	}

	v.Asked, v.Workload = true, workload

	return v.keep()
}

// MarkMoved notes that the cluster is moved into itself from now on: that the VM has no Cluster does not mean any more
// that there is none.
func (v *VM) MarkMoved() error {
	if v.Moved {
		return nil
	}

	v.Moved = true

	return v.keep()
}

// keep writes the record and the kubeconfig.
func (v *VM) keep() error {
	content, err := json.Marshal(v.record)
	if err == nil {
		err = os.MkdirAll(v.dir, 0o700)
	}

	if err == nil {
		err = writeFile(v.KubeconfigFile(), v.Kubeconfig)
	}

	// The record comes last: with it, all that is needed is there.
	if err == nil {
		err = writeFile(v.recordFile(), content)
	}

	if err != nil {
		return fmt.Errorf("failed to keep what the bootstrap VM is made of: %w", err)
	}

	return nil
}

// forget removes all that is kept of it.
func (v *VM) forget() error {
	// The record goes first: without it, there is none.
	err := errors.Join(os.Remove(v.recordFile()), os.RemoveAll(v.dir))
	if err != nil {
		return fmt.Errorf("failed to remove what is kept of the bootstrap VM: %w", err)
	}

	_ = os.Remove(filepath.Dir(v.dir)) // of the namespace, where nothing else is in it

	return nil
}

// writeFile writes a file of secrets whole: an interrupt, or a power cut, leaves the one of before.
func writeFile(path string, content []byte) error { return atomicfile.Write(path, content, 0o600) }

// said is an error about what a bootstrap VM needs and the manifests do not have.
func said(format string, args ...any) error {
	return fmt.Errorf("--bootstrap vm: "+format, args...)
}
