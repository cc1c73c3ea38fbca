package guest

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/ignition"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/config/templates"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// ockFlavor renders the flavor for images of OCK like clusterctl. It returns the configuration of the machines and of
// the cluster.
func (s *site) ockFlavor(version string) (bootstrapv1.KubeadmConfigSpec, infrav1.OLVMClusterSpec) {
	s.t.Helper()
	content, err := templates.Files.ReadFile("cluster-template-ock.yaml")
	check.Error(s.t, err, "")
	content, err = yamlprocessor.NewSimpleProcessor().Process(content, func(name string) (string, error) {
		return map[string]string{"CLUSTER_NAME": "demo", "KUBERNETES_VERSION": version}[name], nil
	})
	check.Error(s.t, err, "")
	objects, err := utilyaml.ToUnstructured(bytes.ReplaceAll(content, []byte("- \n"), []byte("- a\n")))
	check.Error(s.t, err, "")

	var plane controlplanev1.KubeadmControlPlane
	var cluster infrav1.OLVMCluster
	read := func(object unstructured.Unstructured, into any) {
		check.Error(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into), "")
	}

	for _, object := range objects {
		switch object.GetKind() {
		case "KubeadmControlPlane":
			unstructured.RemoveNestedField(object.Object, "spec", "replicas")
			read(object, &plane)
		case "OLVMCluster":
			unstructured.RemoveNestedField(object.Object, "spec", "controlPlaneEndpoint")
			read(object, &cluster)
		}
	}

	return plane.Spec.KubeadmConfigSpec, cluster.Spec
}

// ockMachine returns the first VM of a cluster of this flavor, with an image of OCK.
func (s *site) ockMachine(version string) api.GuestVM {
	s.t.Helper()
	spec, cluster := s.ockFlavor(version)
	parsed := semver.MustParse(version[1:])
	spec.ClusterConfiguration.ControlPlaneEndpoint = s.endpoint
	config, err := kubeadmtypes.MarshalClusterConfigurationForVersion(&spec.ClusterConfiguration, parsed,
		&upstream.AdditionalData{KubernetesVersion: &version})
	check.Error(s.t, err, "")
	init, err := kubeadmtypes.MarshalInitConfigurationForVersion(&spec.InitConfiguration, parsed)
	check.Error(s.t, err, "")
	data, warnings, err := ignition.NewInitControlPlane(&ignition.ControlPlaneInput{
		ControlPlaneInput: &cloudinit.ControlPlaneInput{
			Certificates: s.certificates(), ClusterConfiguration: config, InitConfiguration: init,
		},
	})
	check.Error(s.t, err, "")
	check.Equal(s.t, "warnings", warnings, "")

	services := endpointOn(s, func(e *bootstrap.APIEndpoint) {
		e.LoadBalancer, e.ServerPort = bootstrap.Nginx, bootstrap.DefaultAPIServerPort
		e.NginxImage = cluster.ControlPlaneServices.NginxImage
	})
	services.Self = netip.MustParseAddr("127.40.0.41")
	guest := bootstrap.Guest{HostName: "cp-1", Services: services, Files: []bootstrap.File{
		{Path: keyfilePath, Mode: 0o600, Content: keyfileFor("127.40.0.41")},
	}}

	if cluster.UserData != nil {
		for _, extra := range cluster.UserData.Extra {
			guest.Extra = append(guest.Extra, bootstrap.Extra{Source: "the flavor", Data: []byte(extra.Inline)})
		}
	}

	data, err = bootstrap.Merge(data, bootstrap.Ignition, guest)
	check.Error(s.t, err, "")
	vm := ignitionMachine("cp-1", data, "")
	vm.KubernetesVersion, vm.Image = version, store.ImageOCK

	return vm
}

// TestAClusterOfTheFlavorForOCKComesUpOnAnImageOfOCK combines Cluster API's output for the flavor with the controller's
// additions. The test uses the stricter image: it creates its own cluster by default.
func TestAClusterOfTheFlavorForOCKComesUpOnAnImageOfOCK(t *testing.T) {
	for i, version := range []string{"v1.30.3", "v1.33.1"} {
		t.Run(version, func(t *testing.T) {
			s := newSite(t, []string{"127.40.15.5:6443", "127.40.15.6:6443"}[i])
			vm := s.ockMachine(version)
			s.mustStart(vm)

			s.guests.mu.Lock()
			defer s.guests.mu.Unlock()
			check.Equal(t, "what does not start again", s.guests.members[vm.ID].unlasting, "")
		})
	}
}
