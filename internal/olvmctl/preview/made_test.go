package preview

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestTheMachinesOfAnOwnerAreKnownByTheirNames(t *testing.T) {
	for name, from := range map[string]string{
		"prod-control-plane-x7k2p":   "KubeadmControlPlane/prod-control-plane",
		"prod-md-0-5b8fcd9d6x-x7k2p": "MachineDeployment/prod-md-0",
	} {
		check.Equal(t, name, isMachineOf(name, from), true)
	}

	for name, from := range map[string]string{
		"prod-bootstrap":                  "KubeadmControlPlane/prod",
		"prod-2-control-plane-x7k2p":      "KubeadmControlPlane/prod",
		"prod-control-plane-x7k2p-dns":    "KubeadmControlPlane/prod-control-plane",
		"prod-md-0-control-plane-x7k2p":   "MachineDeployment/prod-md-0",
		"prod-md-01-5b8fcd9d6x-x7k2p":     "MachineDeployment/prod-md-0",
		"other-control-plane-x7k2p":       "KubeadmControlPlane/prod-control-plane",
		"prod-dns-0":                      "OLVMCluster/prod dns",
		"prod-control-plane":              "KubeadmControlPlane/prod-control-plane",
		"prod-control-plane-x7k2p-x7k2p0": "KubeadmControlPlane/prod-control-plane",
	} {
		check.Equal(t, name, isMachineOf(name, from), false)
	}
}
