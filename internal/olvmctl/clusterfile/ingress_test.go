package clusterfile

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAClusterFileGivesIngressAndNamesToEachFlavor also checks that the flavor keeps its own settings.
func TestAClusterFileGivesIngressAndNamesToEachFlavor(t *testing.T) {
	providers := map[string]string{"ock": "Keepalived", "default": "KubeVIP", "dns": "KubeVIP", "ingress": "KubeVIP"}

	for flavor, provider := range providers {
		t.Run(flavor, func(t *testing.T) {
			s := minimal(t, flavor)
			s.Providers.OLVM.IngressVirtualIP, s.Providers.OLVM.BaseDomain = "10.20.30.6", "example.com"

			objects, err := s.Manifests(flavor, none)
			check.Error(t, err, "")

			for _, o := range objects {
				text := func(fields ...string) string {
					found, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, fields...)...)
					return found
				}

				switch o.GetKind() {
				case "OLVMCluster":
					check.Equal(t, "provider", text("controlPlaneServices", "virtualIPProvider"), provider)
					check.Equal(t, "ingress", text("controlPlaneServices", "ingressVirtualIP"), "10.20.30.6")
					check.Equal(t, "domain", text("controlPlaneServices", "dns", "domain"), "demo.example.com")
				case "KubeadmControlPlane":
					names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "kubeadmConfigSpec",
						"clusterConfiguration", "apiServer", "certSANs")
					wanted := []string{"localhost", "127.0.0.1", "api.demo.example.com", "api-int.demo.example.com"}
					check.Equal(t, "names", slices.Equal(names, wanted), true)
				}
			}
		})
	}
}

// TestIngressAndABaseDomainAreValid has a valid file with an ingress address and a base domain.
func TestIngressAndABaseDomainAreValid(t *testing.T) {
	s := read(t, "current.yaml", added("baseDomain: example.com\n    ingressVirtualIp: 10.20.30.159")...)
	check.Equal(t, "problems", texts(s.Validate()), "")
}
