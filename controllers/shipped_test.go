package controllers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/config/templates"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/refused"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// ofTheSimulator has values for the variables without a default in the shipped templates. Guests of the simulator have
// loopback addresses.
var ofTheSimulator = map[string]string{
	"CLUSTER_DOMAIN": "dns.example.com", "CLUSTER_NAME": "shipped", "NAMESPACE": "shipped",
	"INGRESS_VIRTUAL_IP": "127.20.1.6",
	"KUBERNETES_VERSION": "v1.36.1", "CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "1",
	"CONTROL_PLANE_ENDPOINT_HOST": "127.20.1.5", "CONTROL_PLANE_ENDPOINT_IPV6": "fd00:1::5",
	"OLVM_SERVER_URL": "https://127.0.0.90:8443/ovirt-engine", "OLVM_VM_TEMPLATE": "ol9-k8s",
	"OLVM_NETWORK": "kvm-vlan", "OLVM_VNIC_PROFILE": "kvm-vlan",
	"OLVM_SUBNET": "127.20.1.0/24", "OLVM_GATEWAY": "127.20.1.1", "OLVM_DNS_SERVER": "127.20.1.1",
	"OLVM_SUBNET_IPV6": "fd00:1::/64", "OLVM_GATEWAY_IPV6": "fd00:1::1",
	"OLVM_CONTROL_PLANE_ADDRESSES":      "127.20.1.10-127.20.1.19",
	"OLVM_CONTROL_PLANE_ADDRESSES_IPV6": "fd00:1::10-fd00:1::19",
	"OLVM_WORKER_ADDRESSES":             "127.20.1.100-127.20.1.109,127.20.1.120",
	"OLVM_WORKER_ADDRESSES_IPV6":        "fd00:1::100-fd00:1::109",
	"OLVM_NODE_ADDRESSES":               "127.20.1.10-127.20.1.14,127.20.1.100-127.20.1.109",
	"OLVM_LOAD_BALANCER_TEMPLATE":       "ol9-k8s", "OLVM_LOAD_BALANCER_ADDRESSES": "127.20.1.30-127.20.1.31",
	"OIDC_VM_TEMPLATE": "ol9-k8s", "OIDC_ADDRESS": "127.20.1.40",
	"OLVM_FAILURE_DOMAIN_A": "rack-a", "OLVM_FAILURE_DOMAIN_B": "rack-b", "OLVM_FAILURE_DOMAIN_C": "rack-c",
	"SERVICE_ADDRESSES": "127.20.1.200-127.20.1.209",
}

// shipped is the name of a namespace without any objects yet.
const shipped = "shipped"

func newShippedSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, nil)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shipped}}
	check.Error(t, client.IgnoreAlreadyExists(s.Client.Create(t.Context(), namespace)), "")

	return s
}

// TestTheAPIServerTakesTheTemplatesWithAddressesOfTheSimulator creates this provider's objects of each flavor. A rule
// against loopback addresses would reject the clusters of the quick start.
func TestTheAPIServerTakesTheTemplatesWithAddressesOfTheSimulator(t *testing.T) {
	s := newShippedSite(t)
	names, err := fs.Glob(templates.Files, "*.yaml")
	check.Error(t, err, "")

	for _, name := range names {
		content, err := fs.ReadFile(templates.Files, name)
		check.Error(t, err, "")

		if strings.HasPrefix(name, "cluster-template") {
			content, err = yamlprocessor.NewSimpleProcessor().Process(content, func(variable string) (string, error) {
				return ofTheSimulator[variable], nil
			})
			check.Error(t, err, "")
		}

		s.expectTaken(name, content)
	}
}

// TestTheAPIServerTakesTheManifestsOfSamplesAndDocs creates the examples for users.
func TestTheAPIServerTakesTheManifestsOfSamplesAndDocs(t *testing.T) {
	s := newShippedSite(t)
	taken := 0

	for _, pattern := range []string{"../config/samples/*.yaml", "../docs/gitops/*/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		check.Error(t, err, "")

		for _, file := range files {
			content, err := os.ReadFile(file)
			check.Error(t, err, "")

			// A sample for real nodes leaves the engine URL to the demo.
			taken += s.expectTaken(file, []byte(strings.ReplaceAll(string(content), "SERVER_URL", "https://a")))
		}
	}

	for name, text := range testenv.ReadDocuments(t) {
		for _, block := range blocks.FindAllStringSubmatch(text, -1) {
			taken += s.expectTaken(name, []byte(block[1]))
		}
	}

	check.Equal(t, "there are objects", taken > 30, true)
}

// blocks matches the YAML blocks of a document.
var blocks = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// expectTaken creates the objects of this provider in a YAML text as a dry run, and returns their number. A text
// without apiVersion shows single fields. expectTaken merges them into an object of the kind.
func (s *site) expectTaken(from string, content []byte) int {
	s.T.Helper()
	taken := 0

	for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
		shown := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &shown.Object); err != nil || !isOwn(shown) {
			continue
		}

		object := shown

		if shown.GetAPIVersion() == "" {
			base, err := refused.NewObject(shown.GetKind())
			check.Error(s.T, err, "")

			if _, ok, _ := unstructured.NestedMap(shown.Object, "spec", "template", "spec", "fromInventory"); ok {
				delete(base.Object, "spec") // a machine of an inventory has no fields of a new VM
			}

			merge(base.Object, shown.Object)

			object = base
		} else if objects, err := manifest.Read([]byte(document)); err == nil && len(objects) == 1 {
			object = objects[0] // its numbers are decoded as in an API server
		}

		mapping, err := s.Client.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind())
		check.Error(s.T, err, "")
		object.SetNamespace("")

		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			object.SetNamespace(shipped)
		}

		taken++

		err = s.Client.Create(s.T.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
		if err != nil {
			s.T.Errorf("%s: %s %s: %v", from, object.GetKind(), object.GetName(), err)
		}
	}

	return taken
}

// isOwn reports whether an object has a kind of this provider, or a kind of Cluster API that the API server has.
func isOwn(object *unstructured.Unstructured) bool {
	return strings.HasPrefix(object.GetKind(), "OLVM") && object.Object["spec"] != nil ||
		strings.HasPrefix(object.GetAPIVersion(), "cluster.x-k8s.io/")
}

// merge merges the fields of from into into.
func merge(into, from map[string]any) {
	for name, value := range from {
		inner, isMap := value.(map[string]any)
		below, has := into[name].(map[string]any)

		if isMap && has {
			merge(below, inner)
		} else {
			into[name] = value
		}
	}
}
