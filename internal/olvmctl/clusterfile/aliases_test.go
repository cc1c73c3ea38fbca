package clusterfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// rendered returns the problems and the manifests of a cluster file as a text.
func rendered(t *testing.T, s *Source, flavor string, lookup func(string) (string, bool)) string {
	t.Helper()

	if problems := s.Validate(); HasErrors(problems) {
		return texts(problems)
	}

	return manifestsText(t, s, flavor, lookup)
}

// manifestsText returns the manifests of a cluster file as a text.
func manifestsText(t *testing.T, s *Source, flavor string, lookup func(string) (string, bool)) string {
	t.Helper()

	objects, err := s.Manifests(flavor, lookup)
	check.Error(t, err, "")

	content, err := json.Marshal(objects)
	check.Error(t, err, "")

	return string(content)
}

const (
	networkOfControl = "olvmNetwork:\n        networkName: kvm-vlan\n        vnicName: nic-1\n        " +
		"vnicProfileName: kvm-vlan"
	networkOfWorkers = "olvmNetwork:\n        networkName: kvm-vlan\n        vnicProfileName: kvm-vlan"
)

// TestAnAliasIsTheValueThatItStandsFor compares files with aliases and merge keys with files that repeat the values.
func TestAnAliasIsTheValueThatItStandsFor(t *testing.T) {
	anchored := strings.Replace(networkOfControl, "olvmNetwork:", "olvmNetwork: &network", 1)

	for name, test := range map[string]struct{ with, without string }{
		"an alias of a mapping": {"olvmNetwork: *network", networkOfControl},
		"a merge key": {"olvmNetwork: {<<: *network, networkName: other}",
			strings.Replace(networkOfControl, "networkName: kvm-vlan", "networkName: other", 1)},
		"a list of merged mappings": {"olvmNetwork: {<<: [{networkName: other}, *network], vnicName: nic-2}",
			"olvmNetwork: {networkName: other, vnicName: nic-2, vnicProfileName: kvm-vlan}"},
		"a mapping of other keys": {
			"olvmNetwork: {networkName: *network}",
			"olvmNetwork: {networkName: {networkName: kvm-vlan, vnicName: nic-1, vnicProfileName: kvm-vlan}}",
		},
		"keys in the wrong place": {
			"olvmNetwork: *network\n      virtualMachin: *network",
			networkOfControl + "\n      virtualMachin: {}",
		},
		"one inside an inner value": {
			"olvmNetwork: {networkName: &name x, vnicProfileName: *name}",
			"olvmNetwork: {networkName: x, vnicProfileName: x}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			with := read(t, "current.yaml", networkOfControl, anchored, networkOfWorkers, test.with)
			without := read(t, "current.yaml", networkOfWorkers, test.without)

			got, want := rendered(t, with, DefaultFlavor, none), rendered(t, without, DefaultFlavor, none)
			check.Equal(t, "what is said or rendered", withoutLines(got), withoutLines(want))
		})
	}

	dir := t.TempDir()
	defaults := filepath.Join(dir, "defaults.yaml")
	check.Error(t, os.WriteFile(defaults, []byte(
		"providers: {olvm: {workerMachine: {olvmNetwork: {vnicName: nic-2}}, controlPlaneMachine: {olvmNetwork: "+
			"{vnicName: nic-3}}}}\n"), 0o600), "")

	s, err := Parse(filepath.Join(dir, "cluster.yaml"), []byte("providers: {olvm: {controlPlaneMachine: "+
		"{olvmNetwork: &n "+
		"{networkName: a}}, workerMachine: {olvmNetwork: *n}}}\n"), defaults)
	check.Error(t, err, "")
	check.Equal(t, "the default beside an alias", s.Providers.OLVM.WorkerMachine.Network.VNICName, "nic-2")
	check.Equal(t, "the default beside its anchor", s.Providers.OLVM.ControlPlaneMachine.Network.VNICName, "nic-3")
}

// withoutLines removes the line numbers of problems.
func withoutLines(text string) string {
	for i := range 100 {
		text = strings.ReplaceAll(text, fmt.Sprintf("cluster.yaml:%d:", i), "cluster.yaml:")
	}

	return text
}

// TestAValueThatIsNoPlainTextIsRefused has values that the decoder reads otherwise than the checks.
func TestAValueThatIsNoPlainTextIsRefused(t *testing.T) {
	bomb := "name: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("k%d: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", i, 'b'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i,
			'a'+i, 'a'+i, 'a'+i)
	}

	for name, test := range map[string]struct{ content, want string }{
		"a binary name": {
			"name: !!binary ZGVtbw==\n",
			"cluster.yaml:1: name: it has the tag !!binary; write the value itself, as a text",
		},
		"a binary with a line break": {
			"virtualIp: !!binary MTAuMC4wLjEKYTogYg==\n",
			"cluster.yaml:1: virtualIp: it has the tag !!binary",
		},
		"a binary in its long form": {
			"%TAG !y! tag:yaml.org,2002:\n---\nname: !y!binary ZGVtbw==\n",
			"name: it has the tag !!binary",
		},
		"a binary key": {"!!binary bmFtZQ==: demo\n", "it has the tag !!binary"},
		"a tag of its own": {
			"provider: !include olvm\n",
			"cluster.yaml:1: provider: it has the tag !include",
		},
		"in a list": {
			"catalogs: [{name: !!binary ZGVtbw==}]\n",
			"catalogs.name: it has the tag !!binary",
		},
		"in an alias": {
			"name: &a demo\nprovider: *a\nvirtualIp: !!binary ZGVtbw==\n",
			"virtualIp: it has the tag",
		},
		"an alias of itself": {
			"catalogs: &a [*a]\n",
			"cluster.yaml:1: catalogs: the alias a is inside the value that it stands for",
		},
		"aliases of aliases":          {bomb, "its aliases make more than 100000 values; write the values themselves"},
		"a merge key without keys":    {"name: &a demo\n<<: *a\n", "cluster.yaml:2: <<: it is no mapping of keys"},
		"a merge key in quotes":       {"'<<': {name: demo}\n", ""},
		"plain tags are no obstacles": {"name: !!str demo\ncontrolPlaneNodes: !!int 3\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("cluster.yaml", []byte(test.content), "")
			check.Error(t, err, test.want)

			var problem Problem
			check.Equal(t, "it is a problem of the file", errors.As(err, &problem), test.want != "")
		})
	}
}

// TestALineBreakAtTheEndIsNoPartOfAValue has blocks of YAML, and values of the environment as files end.
func TestALineBreakAtTheEndIsNoPartOfAValue(t *testing.T) {
	want := rendered(t, read(t, "current.yaml"), DefaultFlavor, none)

	for name, change := range map[string][]string{
		"a folded block":  {"networkName: kvm-vlan", "networkName: >\n            kvm-vlan"},
		"a literal block": {"networkName: kvm-vlan", "networkName: |+\n            kvm-vlan\n\n"},
		"the name":        {"name: demo\n", "name: |\n  demo\n"},
		"the memory":      {"memory: 7GB\n", "memory: |\n          7GB\n"},
	} {
		check.Equal(t, name, rendered(t, read(t, "current.yaml", change...), DefaultFlavor, none), want)
	}

	for _, flavor := range Flavors() {
		ending := func(end string) string {
			return manifestsText(t, minimal(t, flavor), flavor, func(name string) (string, bool) {
				value, found := ofFlavors[name]
				return value + end, found
			})
		}
		check.Equal(t, flavor, ending("\n"), ending(""))
	}
}

// TestTheRangeOfLoadBalancersAddsNoKey has an end of the value, and a new key, in the range of Services.
func TestTheRangeOfLoadBalancersAddsNoKey(t *testing.T) {
	const hostile = `10.20.30.50", evil: "x`

	s := minimal(t, "service-load-balancers")
	objects, err := s.Manifests("service-load-balancers", func(name string) (string, bool) {
		if name == "SERVICE_ADDRESSES" {
			return hostile, true
		}

		value, found := ofFlavors[name]

		return value, found
	})
	check.Error(t, err, "")

	found := false

	for _, object := range objects {
		data, _ := object.Object["data"].(map[string]any)

		text, ok := data["load-balancers.yaml"].(string)
		if !ok {
			continue
		}

		found = true
		services, err := manifest.Read([]byte(text))
		check.Error(t, err, "")
		check.Equal(t, "the range", services[0].Object["data"], any(map[string]any{"range-global": hostile}))
	}

	check.Equal(t, "the flavor has the range", found, true)
}
