package oci

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// managerImage is the container image of the cloud controller manager. managerVersions are the versions known to be
// published. Each is for the Kubernetes version with the same minor version.
const managerImage = "ghcr.io/oracle/cloud-provider-oci:"

var managerVersions = []string{"v1.30.0", "v1.32.0", "v1.33.1", "v1.34.0"}

// ControllerManager configures the cloud controller manager of a cluster.
type ControllerManager struct {
	// Kubernetes is the Kubernetes version of the cluster.
	Kubernetes string
	// Region is the region. The other fields are the OCIDs of the compartment, of the network, and of the subnets for
	// load balancers.
	Region, Compartment, VCN string
	Subnets                  []string
}

//go:embed controllermanager.yaml
var managerManifests []byte

// Manifests returns the objects of the cloud controller manager, for the workload cluster.
func (m ControllerManager) Manifests() ([]*unstructured.Unstructured, error) {
	objects, err := manifest.Read(managerManifests)
	if err != nil {
		return nil, fmt.Errorf("the cloud controller manager: %w", err)
	}

	// The manager opens the ports of Services in the security lists of both subnets, and closes them again.
	balancer := map[string]any{"securityListManagementMode": "All"}
	for i, subnet := range m.Subnets {
		balancer[fmt.Sprintf("subnet%d", i+1)] = subnet
	}

	configuration, err := yaml.Marshal(map[string]any{
		"useInstancePrincipals": true,
		"auth":                  map[string]any{"region": m.Region},
		"compartment":           m.Compartment,
		"vcn":                   m.VCN,
		"loadBalancer":          balancer,
	})
	if err != nil {
		return nil, fmt.Errorf("the cloud controller manager: %w", err)
	}

	for _, object := range objects {
		switch object.GetKind() {
		case "Secret":
			err = unstructured.SetNestedField(object.Object, base64.StdEncoding.EncodeToString(configuration),
				"data", "cloud-provider.yaml")
		case "DaemonSet":
			err = m.setImage(object)
		}

		if err != nil {
			return nil, fmt.Errorf("the cloud controller manager: %w", err)
		}
	}

	return objects, nil
}

// setImage sets the image of the DaemonSet to the version for the cluster.
func (m ControllerManager) setImage(object *unstructured.Unstructured) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(object.Object, path...)
	if err != nil {
		return err
	}

	containers[0].(map[string]any)["image"] = managerImage + managerVersion(m.Kubernetes)

	return unstructured.SetNestedSlice(object.Object, containers, path...)
}

// managerVersion returns the newest version whose minor version is at most that of Kubernetes. If all are newer, it
// returns the oldest.
func managerVersion(kubernetes string) string {
	wanted, err := semver.ParseTolerant(kubernetes)
	if err != nil {
		return managerVersions[len(managerVersions)-1]
	}

	for _, version := range slices.Backward(managerVersions) {
		if has, err := semver.ParseTolerant(version); err == nil && has.Minor <= wanted.Minor {
			return version
		}
	}

	return managerVersions[0]
}
