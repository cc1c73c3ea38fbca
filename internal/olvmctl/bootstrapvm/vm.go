// Package bootstrapvm makes a temporary VM: the management cluster of a cluster until the cluster manages itself.
//
// The VM is a cluster of one machine: kubeadm from the image of the control plane's machines, and a bridge as CNI. Its
// settings are decided once and saved in a folder of the user, next to Terraform's state. Thereby an interrupted
// operation resumes with the same VM.
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

// suffix follows the cluster's name in the VM's name.
const suffix = "-bootstrap"

// VM is the bootstrap VM of a cluster.
type VM struct {
	dir string
	record
}

// record has the settings of a VM. It has secrets: the keys of its cluster are in its user data.
type record struct {
	// Namespace and Cluster identify the cluster created from it.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// UID is in the mark of the VM.
	UID string `json:"uid"`
	// URL, CA and Insecure are the connection to the engine.
	URL      string `json:"url"`
	CA       []byte `json:"ca,omitempty"`
	Insecure bool   `json:"insecure,omitempty"`
	// Version of Kubernetes.
	Version string `json:"version"`
	// Machine and OLVMCluster are the specs for the VM.
	Machine       infrav1.OLVMMachineSpec `json:"machine"`
	OLVMCluster   infrav1.OLVMClusterSpec `json:"olvmCluster"`
	FailureDomain string                  `json:"failureDomain,omitempty"`
	// Network of its pods and services.
	Network clusterv1.ClusterNetwork `json:"network"`
	// Addresses of its network interface, named NIC in the engine.
	NIC       string         `json:"nic"`
	Addresses []ipam.Address `json:"addresses"`
	// Data is the bootstrap provider's user data, and Extra the users' additions.
	Format bootstrap.Format  `json:"format"`
	Data   []byte            `json:"data"`
	Extra  []bootstrap.Extra `json:"extra,omitempty"`
	// Kubeconfig of its administrator.
	Kubeconfig []byte `json:"kubeconfig"`
	// Made reports whether Terraform has made all of it.
	Made bool `json:"made"`
	// Asked reports whether the manifests of the cluster were applied to it. If so, it may be the only one to know some
	// machines.
	Asked bool `json:"asked"`
	// Moved reports whether a move of the cluster into itself has begun.
	Moved bool `json:"moved,omitempty"`
	// Workload is the file for the kubeconfig of the cluster; empty before Asked.
	Workload string `json:"workload,omitempty"`
}

// rootDir is the folder with a folder for each bootstrap VM of the user.
func rootDir() string { return filepath.Join(xdg.StateHome, "capolvm", "bootstrap") }

func folderOf(namespace, cluster string) string { return filepath.Join(rootDir(), namespace, cluster) }

func (v *VM) recordFile() string { return filepath.Join(v.dir, "vm.json") }
func (v *VM) stateFile() string  { return filepath.Join(v.dir, "terraform.tfstate") }

// lockFile returns the lock, outside the folder of the VM, so it survives the folder's removal.
func (v *VM) lockFile() string { return v.dir + ".lock" }

// KubeconfigFile returns the file for its administrator.
func (v *VM) KubeconfigFile() string { return filepath.Join(v.dir, "admin.kubeconfig") }

// Find returns the bootstrap VM of a cluster begun on this machine; nil for none. An empty namespace means any with a
// cluster of this name, if there is only one.
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

// Name returns the name of the VM, which is also the host name of its guest.
func (v *VM) Name() string { return v.Cluster + suffix }

// Address returns the address of its API server.
func (v *VM) Address() string { return v.Addresses[0].Addr().String() }

// Exists reports whether this machine has its record.
func (v *VM) Exists() bool {
	_, err := os.Stat(v.recordFile())
	return err == nil
}

// Engine returns the connection to its engine, without credentials.
func (v *VM) Engine() engine.Config {
	return engine.Config{URL: v.URL, CA: v.CA, Insecure: v.Insecure}
}

func (v *VM) ownerMark() ownermark.Owner {
	return ownermark.Owner{Namespace: v.Namespace, Name: v.Name(), UID: v.UID}
}

// MarkAsked records that the manifests of the cluster are applied to it from now on. workload is the file for the
// cluster's kubeconfig.
func (v *VM) MarkAsked(workload string) error {
	if v.Asked && v.Workload == workload {
		return nil
	}

	v.Asked, v.Workload = true, workload

	return v.saveFiles()
}

// MarkMoved records that the cluster is moved into itself from now on. A missing Cluster in the VM then no longer means
// that there is none.
func (v *VM) MarkMoved() error {
	if v.Moved {
		return nil
	}

	v.Moved = true

	return v.saveFiles()
}

// saveFiles writes the record and the kubeconfig.
func (v *VM) saveFiles() error {
	content, err := json.Marshal(v.record)
	if err == nil {
		err = os.MkdirAll(v.dir, 0o700)
	}

	if err == nil {
		err = writeFile(v.KubeconfigFile(), v.Kubeconfig)
	}

	// The record comes last, so everything needed exists if it does.
	if err == nil {
		err = writeFile(v.recordFile(), content)
	}

	if err != nil {
		return fmt.Errorf("failed to keep what the bootstrap VM is made of: %w", err)
	}

	return nil
}

// removeFiles removes its saved files.
func (v *VM) removeFiles() error {
	// The record goes first: without it, the VM does not count.
	err := errors.Join(os.Remove(v.recordFile()), os.RemoveAll(v.dir))
	if err != nil {
		return fmt.Errorf("failed to remove what is kept of the bootstrap VM: %w", err)
	}

	_ = os.Remove(filepath.Dir(v.dir)) // of the namespace, if it is empty

	return nil
}

// writeFile replaces a file of secrets atomically: an interrupt or a power cut leaves the previous one.
func writeFile(path string, content []byte) error { return atomicfile.Write(path, content, 0o600) }

// manifestError returns an error about an object needed by a bootstrap VM and missing from the manifests.
func manifestError(format string, args ...any) error {
	return fmt.Errorf("--bootstrap vm: "+format, args...)
}
