package clusterfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_0"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capolvm/cluster-api-provider-olvm/config/templates"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// ofFlavors has values for the variables that only flavors have.
var ofFlavors = map[string]string{
	"CLUSTER_DOMAIN": "a.example.com", "INGRESS_VIRTUAL_IP": "10.20.30.6", "CONTROL_PLANE_ENDPOINT_IPV6": "fd00::5", "OLVM_SUBNET_IPV6": "fd00::/64",
	"OLVM_GATEWAY_IPV6": "fd00::1", "OLVM_CONTROL_PLANE_ADDRESSES_IPV6": "fd00::10-fd00::19",
	"OLVM_WORKER_ADDRESSES_IPV6": "fd00::20-fd00::29", "OLVM_FAILURE_DOMAIN_A": "a", "OLVM_FAILURE_DOMAIN_B": "b",
	"OLVM_FAILURE_DOMAIN_C": "c", "OLVM_NODE_ADDRESSES": "10.20.30.10-10.20.30.30",
	"OLVM_LOAD_BALANCER_TEMPLATE": "balancer", "OLVM_LOAD_BALANCER_ADDRESSES": "10.20.30.40-10.20.30.41",
	"OIDC_VM_TEMPLATE": "dex", "OIDC_ADDRESS": "10.20.30.42", "SERVICE_ADDRESSES": "10.20.30.50-10.20.30.59",
}

// written are defaults that cluster files write explicitly, although the flavor leaves the fields empty.
var written = map[string]string{
	"/controlPlaneServices/apiServerPort":  strconv.Itoa(bootstrap.DefaultAPIServerPort),
	"/virtualMachine/cpu/topology/threads": "1",
	"/virtualMachine/network/interface":    `"enp1s0"`,
}

// leaves returns all values in manifests by their paths.
func leaves(t *testing.T, content []byte) map[string]string {
	t.Helper()
	objects, err := manifest.Read(content)
	check.Error(t, err, "")

	out := map[string]string{}
	var walk func(place string, value any)
	walk = func(place string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, field := range value {
				walk(place+"/"+key, field)
			}
		default:
			text, err := json.Marshal(value)
			check.Error(t, err, "")
			out[place] = string(text)
		}
	}

	for _, object := range objects {
		dropOmitted(object.Object)
		walk(object.GetKind()+"/"+object.GetName(), object.Object)
	}

	return out
}

// TestAClusterFileAsksForWhatItsFlavorAsksFor compares a minimal cluster file with every flavor. Each value must be the
// same as that rendered by clusterctl.
func TestAClusterFileAsksForWhatItsFlavorAsksFor(t *testing.T) {
	for _, flavor := range Flavors() {
		t.Run(flavor, func(t *testing.T) {
			s := minimal(t, flavor)
			given := s.templateVariables()

			for name, value := range ofFlavors {
				if given[name] == "" {
					given[name] = value
				}
			}

			file := "cluster-template-" + flavor + ".yaml"
			if flavor == "default" {
				file = "cluster-template.yaml"
			}

			content, err := templates.Files.ReadFile(file)
			check.Error(t, err, "")
			processor := yamlprocessor.NewSimpleProcessor()
			defaults, err := processor.GetVariableMap(content)
			check.Error(t, err, "")
			content, err = processor.Process(content, func(name string) (string, error) {
				if strings.HasPrefix(name, "OLVM_REGISTRY") { // the default of clusterctl
					return "", fmt.Errorf("%s is not set", name)
				}

				if standard := defaults[name]; standard == nil || strings.TrimSpace(*standard) == "" {
					return cmp.Or(given[name], omitted), nil
				}

				return given[name], nil
			})
			check.Error(t, err, "")

			objects, err := s.Manifests(flavor, func(name string) (string, bool) {
				value, ok := ofFlavors[name]
				return value, ok
			})
			check.Error(t, err, "")

			var text strings.Builder
			check.Error(t, manifest.Write(&text, objects), "")
			compare(t, leaves(t, []byte(text.String())), leaves(t, content))
		})
	}
}

// TestTheFirstIgnition3ReadsTheNodesOfOCK checks that the configuration of nodes has the oldest possible format. Images
// with an older Ignition would not boot with a newer Butane version in the flavor or in a cluster file.
func TestTheFirstIgnition3ReadsTheNodesOfOCK(t *testing.T) {
	for name, change := range map[string]func(*Source){
		"the flavor":     func(*Source) {},
		"a password":     func(s *Source) { s.Password = "$6$salt$hash" },
		"system updates": func(s *Source) { s.OSTransport = "ostree-unverified-registry" },
	} {
		t.Run(name, func(t *testing.T) {
			s := minimal(t, "ock")
			change(s)
			objects, err := s.Manifests("ock", none)
			check.Error(t, err, "")

			var guest bootstrap.Guest

			for _, object := range objects {
				extras, _, _ := unstructured.NestedSlice(object.Object, "spec", "userData", "extra")
				for _, extra := range extras {
					text, _ := extra.(map[string]any)["inline"].(string)
					guest.Extra = append(guest.Extra, bootstrap.Extra{Source: object.GetName(), Data: []byte(text)})
				}
			}

			merged, err := bootstrap.Merge([]byte(`{"ignition":{"version":"2.3.0"}}`), bootstrap.Ignition, guest)
			check.Error(t, err, "")
			check.Contains(t, "user data", string(merged), "ocne.service")

			_, report, err := v3_0.Parse(merged)
			check.Error(t, err, "")
			check.Equal(t, "report", report.String(), "")
		})
	}
}

// compare reports each value that differs, unless the cluster file sets it on purpose.
func compare(t *testing.T, file, flavor map[string]string) {
	t.Helper()
	places := maps.Clone(flavor)
	maps.Copy(places, file)

	for _, place := range slices.Sorted(maps.Keys(places)) {
		if file[place] == flavor[place] || strings.HasPrefix(place, "ConfigMap/") { // clusterctl's users create theirs
			continue
		}

		if !slices.ContainsFunc(slices.Collect(maps.Keys(written)), func(end string) bool {
			return flavor[place] == "" && strings.HasSuffix(place, end) && file[place] == written[end]
		}) {
			t.Errorf("%s: the cluster file has %s, and the flavor %s", place, file[place], flavor[place])
		}
	}
}

// indented returns the content of a file, indented as the value of a field beside serverURL.
func indented(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check.Error(t, err, "")

	return "        " + strings.ReplaceAll(strings.TrimSpace(string(content)), "\n", "\n        ") + "\n"
}

// minimal returns a minimal cluster file with the address family of a flavor.
func minimal(t *testing.T, flavor string) *Source {
	t.Helper()
	const machine = `
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      vmTemplateName: ock-1.33
      virtualMachine:
        memory: 7GB
        cpu: {topology: {cores: CORES, sockets: 1}}
        network:
          gateway: NETWORK1
          ipv4: {subnet: NETWORK0/24, ipAddresses: FIRST-LAST}
`

	text := "name: demo\nprovider: olvm\ncontrolPlaneNodes: 3\nworkerNodes: 2\nvirtualIp: NETWORK160\n" +
		"providers:\n  olvm:\n    olvmDatacenterName: Default\n    olvmOvirtAPIServer:\n" +
		"      serverURL: https://engine.example.com/ovirt-engine\n      serverCA: |\n" + indented(t, "testdata/ca.crt") +
		"    controlPlaneMachine:" +
		strings.NewReplacer("CORES", "2", "FIRST", "NETWORK161", "LAST", "NETWORK169").Replace(machine) +
		"    workerMachine:" +
		strings.NewReplacer("CORES", "4", "FIRST", "NETWORK210", "LAST", "NETWORK220").Replace(machine)
	if flavor == "ipv6" {
		text = "podSubnet: fd01::/48\nserviceSubnet: fd02::/112\n" +
			strings.NewReplacer("gateway: NETWORK1\n          ipv4: {", "ipv6: {gateway: fd00::1, ", "NETWORK0/24",
				"fd00::/64", "NETWORK", "fd00::").Replace(text)
	}

	path := filepath.Join(t.TempDir(), "cluster.yaml")
	check.Error(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "NETWORK", "10.20.30.")), 0o600), "")
	s, err := Read(path, "")
	check.Error(t, err, "")
	s.Validate()
	s.SSHPublicKey, s.SSHPublicKeyPath = "", "" // these are the keys of the user who runs the tests

	return s
}

// TestANameOfTheEngineIsTheTextOfTheClusterFile has names that YAML misreads unless they are quoted.
func TestANameOfTheEngineIsTheTextOfTheClusterFile(t *testing.T) {
	for _, name := range []string{"010", "kvm #2", "it's", "true", "null", "a: b"} {
		s := minimal(t, "default")
		s.Providers.OLVM.ControlPlaneMachine.Network.NetworkName = name

		objects, err := s.Manifests("default", func(string) (string, bool) { return "", false })
		check.Error(t, err, "")

		for _, object := range objects {
			if object.GetName() == "demo-control-plane" && object.GetKind() == "OLVMMachineTemplate" {
				got, _, err := unstructured.NestedString(
					object.Object, "spec", "template", "spec", "olvmNetwork", "networkName")
				check.Error(t, err, "")
				check.Equal(t, "the network", got, name)
			}
		}
	}
}
