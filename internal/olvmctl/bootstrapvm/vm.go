// Package bootstrapvm creates a temporary VM. The VM is the management cluster of a new cluster until the new cluster
// manages itself.
//
// The VM is a cluster of one machine. It uses kubeadm from the image of the control plane's machines, and a bridge as
// its CNI. Its settings are decided once, and are saved in a folder of the user, beside the Terraform state. An
// interrupted operation can therefore continue with the same VM.
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
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// suffix is appended to the name of the cluster to name the VM.
const suffix = "-bootstrap"

// VM is the bootstrap VM of a cluster.
type VM struct {
	dir string
	record
}

// record has the saved settings of a VM. It is secret, because the user data contains the keys of the VM's cluster.
type record struct {
	// Namespace and Cluster identify the cluster that the VM creates.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// UID is the UID in the owner mark of the VM.
	UID string `json:"uid"`
	// URL, CA and Insecure describe the connection to the engine.
	URL      string `json:"url"`
	CA       []byte `json:"ca,omitempty"`
	Insecure bool   `json:"insecure,omitempty"`
	// Version is the Kubernetes version.
	Version string `json:"version"`
	// Machine and OLVMCluster are the specs used for the VM.
	Machine       infrav1.OLVMMachineSpec `json:"machine"`
	OLVMCluster   infrav1.OLVMClusterSpec `json:"olvmCluster"`
	FailureDomain string                  `json:"failureDomain,omitempty"`
	// Network is the network of its pods and Services.
	Network clusterv1.ClusterNetwork `json:"network"`
	// NIC is the name of its network interface in the engine. Addresses are the addresses of this interface.
	NIC       string                 `json:"nic"`
	Addresses []addressrange.Address `json:"addresses"`
	// Data is the user data from the bootstrap provider, and Extra are the additions of users.
	Format bootstrap.Format  `json:"format"`
	Data   []byte            `json:"data"`
	Extra  []bootstrap.Extra `json:"extra,omitempty"`
	// Kubeconfig is the administrator's kubeconfig.
	Kubeconfig []byte `json:"kubeconfig"`
	// Made reports whether Terraform has created the complete VM.
	Made bool `json:"made"`
	// Asked reports whether the manifests of the cluster were applied to the VM. If they were, some machines may be
	// known only to this VM.
	Asked bool `json:"asked"`
	// Moved reports whether the move of the Cluster API objects from the VM to the new cluster has begun.
	Moved bool `json:"moved,omitempty"`
	// Workload is the path for the kubeconfig of the cluster. It is empty before Asked is set.
	Workload string `json:"workload,omitempty"`
}

// rootDir returns the folder for the bootstrap VMs of the user. Each namespace has a subfolder with a folder for each
// VM.
func rootDir() string { return filepath.Join(xdg.StateHome, "capolvm", "bootstrap") }

func folderOf(namespace, cluster string) string { return filepath.Join(rootDir(), namespace, cluster) }

func (v *VM) recordFile() string { return filepath.Join(v.dir, "vm.json") }
func (v *VM) stateFile() string  { return filepath.Join(v.dir, "terraform.tfstate") }

// lockFile returns the path of the lock. It is outside the folder of the VM, so the lock outlives this folder.
func (v *VM) lockFile() string { return v.dir + ".lock" }

// KubeconfigFile returns the path of the administrator's kubeconfig.
func (v *VM) KubeconfigFile() string { return filepath.Join(v.dir, "admin.kubeconfig") }

// Find returns the bootstrap VM of a cluster, from its record on this machine. It returns nil if there is no record. If
// namespace is empty, Find searches all namespaces, and returns an error if several have a record for this name.
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
		return nil, fmt.Errorf("clusters %s in several namespaces have bootstrap VMs; specify the namespace with -n",
			cluster)
	}

	v := &VM{dir: filepath.Dir(found[0])}

	content, err := os.ReadFile(found[0])
	if err == nil {
		err = json.Unmarshal(content, &v.record)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to read the record of the bootstrap VM: %w", err)
	}

	return v, nil
}

// Name returns the name of the VM, which is also the host name of its guest.
func (v *VM) Name() string { return v.Cluster + suffix }

// Address returns the address of the VM's API server.
func (v *VM) Address() string { return v.Addresses[0].Addr().String() }

// Exists reports whether this machine has a record of the VM.
func (v *VM) Exists() bool {
	_, err := os.Stat(v.recordFile())
	return err == nil
}

// Engine returns the connection to the engine of the VM, without credentials.
func (v *VM) Engine() engine.Config {
	return engine.Config{URL: v.URL, CA: v.CA, Insecure: v.Insecure}
}

func (v *VM) ownerMark() ownermark.Owner {
	return ownermark.Owner{Namespace: v.Namespace, Name: v.Name(), UID: v.UID}
}

// MarkAsked records that the manifests of the cluster will now be applied to the VM. workload is the path for the
// kubeconfig of the cluster.
func (v *VM) MarkAsked(workload string) error {
	if v.Asked && v.Workload == workload {
		return nil
	}

	v.Asked, v.Workload = true, workload

	return v.saveFiles()
}

// MarkMoved records that the move of the Cluster API objects to the new cluster begins. From then on, the cluster may
// exist even if the VM has no Cluster object.
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

	// Write the record last: if it exists, all other files exist, too.
	if err == nil {
		err = writeFile(v.recordFile(), content)
	}

	if err != nil {
		return fmt.Errorf("failed to write the record of the bootstrap VM: %w", err)
	}

	return nil
}

// removeFiles removes the saved files of the VM.
func (v *VM) removeFiles() error {
	// Remove the record first: without a record, the VM counts as deleted.
	err := errors.Join(os.Remove(v.recordFile()), os.RemoveAll(v.dir))
	if err != nil {
		return fmt.Errorf("failed to remove the record of the bootstrap VM: %w", err)
	}

	_ = os.Remove(filepath.Dir(v.dir)) // the folder of the namespace, if it is empty

	return nil
}

// writeFile replaces a secret file atomically. After an interrupt or a power failure, the previous file remains.
func writeFile(path string, content []byte) error { return atomicfile.Write(path, content, 0o600) }

// manifestError returns an error about manifests that a bootstrap VM cannot use, with the flag as its prefix.
func manifestError(format string, args ...any) error {
	return fmt.Errorf("--bootstrap vm: "+format, args...)
}
