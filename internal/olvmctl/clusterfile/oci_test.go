package clusterfile

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// ociFile returns a cluster file for OCI. settings are those of the provider, and more has other keys of the file.
func ociFile(t *testing.T, settings, more string) *Source {
	t.Helper()
	content := "provider: oci\n" + more + "\nproviders:\n  oci:\n    compartment: a/b\n" + settings
	s, err := Parse(filepath.Join(t.TempDir(), "cluster.yaml"), []byte(content), "")
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func TestWhatIsWrongInAClusterFileForOCI(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct{ settings, more, want string }{
		"nothing":         {"", "", ""},
		"what ocne knows": {"    kubeconfig: x", "", "warning: providers.oci.kubeconfig: ignored"},
		"no such key": {"    compartmnt: x", "", "providers.oci.compartmnt: unknown key; did you mean " +
			"compartment?"},
		"an image":   {"    images: {arm64: ocid1.instance.oc1..a}", "", "providers.oci.images.arm64"},
		"processors": {"    workerShape: {ocpus: many}", "", `providers.oci.workerShape.ocpus: "many" is not a number`},
		"a small disk": {
			"    controlPlaneShape: {bootVolumeSizeInGBs: 20}", "",
			"providers.oci.controlPlaneShape.bootVolumeSizeInGBs: 20 is less than 50",
		},
		"who asks":    {"    principal: Nobody", "", "providers.oci.principal: unsupported value \"Nobody\""},
		"an endpoint": {"    endpoints: {compute: http://x}", "", "providers.oci.endpoints.compute"},
		"Ignition": {"", "extraIgnitionInline: {variant: fcos}",
			"extraIgnitionInline: not supported on OCI: machines use cloud-init"},
		"a virtual IP": {"", "virtualIp: 10.0.0.9", "warning: virtualIp: ignored on OCI"},
		"two definitions": {"", "clusterDefinition: a\nclusterDefinitionInline: b",
			"cannot be set together with clusterDefinitionInline"},
		"even number":      {"", "controlPlaneNodes: 2", "controlPlaneNodes: 2 is even"},
		"overlapping nets": {"", "podSubnet: 10.0.0.0/16", "10.0.0.0/16 overlaps with 10.0.0.0/16 (podSubnet)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var all []string
			for _, problem := range ociFile(t, test.settings, test.more).Validate() {
				all = append(all, strings.TrimPrefix(problem.Error(), problem.File))
			}

			got := strings.Join(all, "\n")
			if test.want == "" {
				check.Equal(t, "problems", got, "")
			}

			check.Contains(t, "problems", got, test.want)
		})
	}
}

// TestManifestsOfOCI covers the settings that e2e/oci does not compare.
func TestManifestsOfOCI(t *testing.T) {
	t.Parallel()
	s := ociFile(t, "    principal: Instance\n    workerShape: {memoryInGBs: 32}",
		"sshPublicKey: ssh-ed25519 AAAA me\npassword: $6$x\ncipherSuites: TLS_A\nregistry: registry.example.com")
	check.Equal(t, "problems", HasErrors(s.Validate()), true) // the SSH key is invalid

	objects, err := s.OCIManifests(OCIFacts{Compartment: "ocid1.compartment.x", ControlPlaneImage: "c", WorkerImage: "w"})
	if err != nil {
		t.Fatal(err)
	}

	find := func(kind, name string, path ...string) any {
		for _, object := range objects {
			if object.GetKind() == kind && object.GetName() == name {
				value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
				return value
			}
		}

		return nil
	}
	check.Equal(t, "principal", find("OCIClusterIdentity", "ocne", "spec", "type"), any("InstancePrincipal"))
	check.Equal(t, "Secret", find("OCIClusterIdentity", "ocne", "spec", "principalSecret"), nil)
	check.Equal(t, "keys", find("OCIMachineTemplate", "ocne-md-0", "spec", "template", "spec", "metadata",
		"ssh_authorized_keys"), any("ssh-ed25519 AAAA me"))
	check.Equal(t, "memory", find("OCIMachineTemplate", "ocne-md-0", "spec", "template", "spec", "shapeConfig",
		"memoryInGBs"), any("32"))
	config := []string{"spec", "kubeadmConfigSpec", "clusterConfiguration"}
	check.Equal(t, "registry", find("KubeadmControlPlane", "ocne-control-plane", append(config, "imageRepository")...),
		any("registry.example.com/olcne"))
	check.Set(t, "cipher suites of etcd", find("KubeadmControlPlane", "ocne-control-plane", append(config, "etcd", "local",
		"extraArgs")...) != nil)
}
