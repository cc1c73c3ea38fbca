package clusterfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	control = "providers.olvm.controlPlaneMachine."
	worker  = "providers.olvm.workerMachine."
)

// TestAMistakeIsSaidByItsKey has one mistake in each line, with all messages about it.
func TestAMistakeIsSaidByItsKey(t *testing.T) {
	const ranges = "ipAddresses: 10.20.30.210-10.20.30.220"

	for change, want := range map[[2]string][]string{
		{"workerNodes: 2", "workerNodes: two"}: {`cluster.yaml:4: workerNodes: "two" is not an integer`},
		{"workerNodes: 2", "workerNodes: 2.5"}: {`cluster.yaml:4: workerNodes: "2.5" is not an integer`},
		{"workerNodes: 2", "workerNodes: [2]"}: {"cluster.yaml:4: workerNodes: must be an integer, not a list"},
		{"workerNodes: 2", "workerNodes: -1"}:  {"cluster.yaml:4: workerNodes: -1 is less than 0"},
		{"workerNodes: 2", "workerNodes: {a: 2}"}: {
			"cluster.yaml:4: workerNodes: must be an integer, not a mapping"},
		{"virtualIp: 10.20.30.160", "virtualIp: x"}:             {`cluster.yaml:5: virtualIp: invalid IP address "x"; use a free address`},
		{"virtualIp: 10.20.30.160", "virtualIp: 127.20.90.555"}: {`virtualIp: invalid IP address "127.20.90.555"`},
		{"virtualIp: 10.20.30.160", "virtualIp: [10.20.30.160]"}: {
			"cluster.yaml:5: virtualIp: must be a string, not a list"},
		{"kubernetesVersion: 1.33", "kubernetesVersion: 1.19.1"}: {
			"warning: kubernetesVersion: Cluster API no longer supports 1.19.1; use 1.31 or newer",
			"warning: " + control + `vmTemplateName: "ock-1.33" looks like a template for Kubernetes 1.33, but`,
			"warning: " + worker + `vmTemplateName: "ock-1.33" looks like a template for Kubernetes 1.33, but`},
		{"kubernetesVersion: 1.33", "kubernetesVersion: 1.36.1"}: {
			"but kubernetesVersion is 1.36.1: machines with another kubelet",
			"but kubernetesVersion is 1.36.1: machines"},
		{ranges, "ipAddresses: 10.20.30.200-10.20.30.220"}: {
			"warning: " + worker + "virtualMachine.network.ipv4.ipAddresses: 10.20.30.200 is also in the ranges of the"},
		{ranges, "ipAddresses: 10.20.30.210"}: {"ipv4.ipAddresses: not enough addresses: 1 address for 2 machines"},
		{ranges, "ipAddresses: [10.20.30.210, 10.20.30.211]"}: {
			"must be a string, not a list; separate the items with commas"},
		{ranges, "ipAddresses: 10.20.30.220-10.20.30.210"}: {"ends before it begins; swap its ends"},
		{"cores: 2", "cores: many"}:                        {`cpu.topology.cores: "many" is not an integer`},
		{"cores: 2", "cores: 1.5"}:                         {`cpu.topology.cores: "1.5" is not an integer`},
		{"autoConf: true", "autoConf: maybe"}:              {`ipv6.autoConf: "maybe" is not true or false`},
		{"name: demo", "name: My Cluster"}:                 {`name: invalid cluster name "My Cluster": use up to 63`},
		{"namespace: olvm", "namespace: OLVM"}:             {`namespace: invalid namespace "OLVM": use up to 63 lower`},
		{"podSubnet: 10.244.0.0/16,fd01::/48", "podSubnet: 10.244.0.0"}: {
			`podSubnet: "10.244.0.0" is not a CIDR block; use for example 10.244.0.0/16`},
		{"networkName: kvm-vlan", `networkName: "kvm-vlan\n          vnicProfileName: another"`}: {
			control + "olvmNetwork.networkName: contains a line break; use a single line"},
		{"networkName: kvm-vlan", `networkName: "kvm-vlan\u2028          vnicProfileName: another"`}: {"contains a line break"},
		{"networkName: kvm-vlan", "networkName: >\n            kvm-vlan"}:                            {},
		{"provider: olvm", "provider: [olvm]"}: {"provider: " +
			"must be a string, not a list"},
		{"      memory: 7GB", "      memory: 7GB\n        rootDisk: 100GB"}: {
			control + `virtualMachine.rootDisk: "100GB" is not a mapping`},
		{"      memory: 7GB", "      memory: 7GB\n        dataDisks: {name: a}"}: {
			"cluster.yaml:46: " + control + "virtualMachine.dataDisks: must be a list, not a mapping"},
		{"      memory: 7GB", "      memory: 7GB\n        rootDisk: {size: big, format: raw, clone: false}"}: {
			control + `virtualMachine.rootDisk.size: "big" is not a size`,
			control + "virtualMachine.rootDisk.clone: a raw or non-sparse disk must be a copy"},
		{"      memory: 7GB", "      memory: 7GB\n        dataDisks: [{name: a, size: 1GB}, {name: a, size: 10}, {}]"}: {
			`dataDisks.name: another disk already has the name "a"`, `dataDisks.size: "10" is less than 256MB`,
			"dataDisks.name: required; use for example data", "dataDisks.size: required; use for"},
		{"      memory: 7GB", "      memory: 7GB\n        dataDisks: [{name: x y, size: 1GB, format: qcow2, interfaceType: ide}]"}: {
			`dataDisks.name: invalid disk name "x y"`, `dataDisks.format: unsupported value "qcow2"; use cow or raw`,
			`dataDisks.interfaceType: unsupported value "ide"; use one of virtio_scsi, virtio, sata`},
		{"nameserver 10.20.30.53", "nothing"}: {}, // the text names resolv.conf
		{"/etc/resolv.conf", "/etc/motd"}:     {}, // the text names a nameserver
		{"- path: /etc/resolv.conf\n      mode: 0644\n      overwrite: true\n      contents:\n        inline: |\n          " +
			"nameserver 10.20.30.53", "- path: /etc/motd"}: {
			"warning: " + control + "virtualMachine.network.dnsServers: no DNS servers: nodes cannot resolve names",
			"warning: " + worker + "virtualMachine.network.dnsServers: no DNS servers"},
	} {
		t.Run(change[1], func(t *testing.T) {
			got := read(t, "current.yaml", change[0], change[1]).Validate()
			said := texts(got)

			for _, text := range want {
				check.Contains(t, change[1], said, text)
			}

			check.Length(t, "problems:\n"+said+"\nproblems", got, len(want))
		})
	}

	_, err := Parse(filepath.Join(t.TempDir(), "cluster.yaml"), []byte("name: demo\nproviders:\n\tolvm: {}\n"), "")
	check.Contains(t, "tabs", err.Error(), "indent with spaces, not tabs")
}

// TestFourMistakesAreSaidAtOnce has mistakes in four different parts of a file.
func TestFourMistakesAreSaidAtOnce(t *testing.T) {
	s := read(t, "current.yaml", "workerNodes: 2", "workerNodes: two", "virtualIp: 10.20.30.160", "virtualIp: x",
		"vnicProfileName: kvm-vlan", "vnicProfilName: kvm-vlan", "memory: 16GB", "memory: 16 apples")
	said := texts(s.Validate())

	for _, want := range []string{
		"cluster.yaml:4: workerNodes: ", "cluster.yaml:5: virtualIp: ", "did you mean vnicProfileName?",
		worker + `virtualMachine.memory: "16 apples" is not a size`,
	} {
		check.Contains(t, "what is said", said, want)
	}
}

// TestDisksOfAClusterFileComeToTheMachines checks the disks in every flavor.
func TestDisksOfAClusterFileComeToTheMachines(t *testing.T) {
	for _, flavor := range []string{"default", "ock"} {
		s := read(t, "current.yaml", "        memory: 16GB", `        memory: 16GB
        rootDisk: {size: 100GB, storageDomainName: fast, format: raw, sparse: false, clone: true}
        dataDisks:
        - {name: data, size: 200GB}
        - {name: log, size: 10GB, storageDomainName: slow, format: raw, sparse: true, interfaceType: virtio}`,
			"extraIgnitionInline:", "clusterfile:")
		if flavor == "default" {
			s.ExtraIgnitionInline.Kind = 0
		}

		check.Equal(t, flavor+": mistakes", strings.Contains(texts(s.Validate()), "Disk"), false)
		objects, err := s.Manifests(flavor, none)
		check.Error(t, err, "")

		yes, no := true, false
		vm := decoded[infrav1.OLVMMachineTemplate](t, objects, "OLVMMachineTemplate", "demo-md-0").
			Spec.Template.Spec.VirtualMachine
		check.Equal(t, flavor+": root disk", vm.RootDisk, &infrav1.RootDisk{
			Size: "100GB", StorageDomainName: "fast", Format: "raw", Sparse: &no, Clone: &yes,
		})
		check.Equal(t, flavor+": data disks", vm.DataDisks, []infrav1.DataDisk{
			{Name: "data", Size: "200GB"},
			{Name: "log", Size: "10GB", StorageDomainName: "slow", Format: "raw", Sparse: &yes, InterfaceType: "virtio"},
		})

		vm = decoded[infrav1.OLVMMachineTemplate](t, objects, "OLVMMachineTemplate", "demo-control-plane").
			Spec.Template.Spec.VirtualMachine
		check.Equal(t, flavor+": no disks of the control plane", vm.RootDisk == nil && len(vm.DataDisks) == 0, true)
	}
}

// TestWhatTheEngineRefusesIsSaidByItsKey has errors such as those from plans of machines.
func TestWhatTheEngineRefusesIsSaidByItsKey(t *testing.T) {
	s := read(t, "current.yaml")
	check.Equal(t, "failed", HasErrors(s.Validate()), false)

	for machine, want := range map[string]string{
		"demo-control-plane-0": `cluster.yaml:39: ` + control + `vmTemplateName: there is no template "ock-1.33"`,
		"demo-md-0-1":          `cluster.yaml:57: ` + worker + `vmTemplateName: there is no template "ock-1.33"`,
	} {
		err := fmt.Errorf("OLVMMachine olvm/%s: %w", machine,
			blocker.New("TemplateNotFound", "spec.vmTemplateName", "there is no template %q", "ock-1.33"))
		check.Equal(t, machine, texts([]Problem{s.EngineProblem(err)}), want)
	}

	err := blocker.New("DataCenterNotFound", "spec.olvmDatacenterName", "there is none")
	check.Contains(t, "of the cluster", texts([]Problem{s.EngineProblem(err)}),
		"cluster.yaml:29: providers.olvm.olvmDatacenterName: there is none")
	check.Equal(t, "of no key", texts([]Problem{s.EngineProblem(errors.New("it does not answer"))}),
		"cluster.yaml: engine: it does not answer")
}

// TestNoValueOfTheEnvironmentAddsAField has a line with the indent of the template in variables of each kind: a text, a
// number and a list. A cluster file of another person may have one, too.
func TestNoValueOfTheEnvironmentAddsAField(t *testing.T) {
	for flavor, variable := range map[string]string{
		"failure-domains": "OLVM_FAILURE_DOMAIN_A", "machine-health-check": "NODE_LOST_SECONDS", "ipam": "OLVM_NODE_ADDRESSES",
		"load-balancer": "OLVM_LOAD_BALANCER_TEMPLATE",
	} {
		for _, lineBreak := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			s := read(t, "current.yaml")
			s.Validate()

			_, err := s.Manifests(flavor, func(name string) (string, bool) {
				if name == variable {
					return "1" + lineBreak + "        paused: true", true
				}

				return "1", true
			})
			check.Error(t, err, "the value of "+variable+" contains a line break, which could add fields")
		}
	}
}

// TestNoValueOfTheEnvironmentAddsAKeyBesideIt ends its own value on the line of a template.
func TestNoValueOfTheEnvironmentAddsAKeyBesideIt(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "templates", "cluster-template-topology.yaml"))
	check.Error(t, err, "")

	for _, variable := range []string{"OLVM_CONTROL_PLANE_CORES", "OLVM_WORKER_SOCKETS"} {
		text := regexp.MustCompile(`\$\{`+variable+`:=\d+\}`).ReplaceAllString(string(content), "2, threads: 8")
		text = regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(text, "1")

		for _, document := range strings.Split(text, "\n---\n") {
			var object map[string]any
			if yaml.Unmarshal([]byte(document), &object) == nil {
				check.Equal(t, variable+" adds a key", strings.Contains(fmt.Sprint(object), "threads:8"), false)
			}
		}
	}
}

// TestANameOfTheStorageDriverIsNoYAML has a name that would end its quotes, and mount the root of each node.
func TestANameOfTheStorageDriverIsNoYAML(t *testing.T) {
	const hostile = `a", type: Directory}}, {name: root, hostPath: {path: "/`

	before := read(t, "current.yaml")
	before.Validate()

	s := read(t, "current.yaml")
	s.Validate()
	s.Providers.OLVM.CSIDriver.CSIDriverName = hostile
	s.Providers.OLVM.CSIDriver.NodePluginName = "node: {}"
	s.Registry = "registry # comment"

	volumes := func(s *Source, name string) ([]corev1.Volume, string) {
		objects, err := s.StorageDriver("", "")
		check.Error(t, err, "")
		spec := decoded[appsv1.DaemonSet](t, objects, "DaemonSet", name).Spec.Template.Spec

		return spec.Volumes, spec.ServiceAccountName + " " + spec.Containers[0].Image
	}

	want, _ := volumes(before, "ovirt-csi-node-plugin")
	got, texts := volumes(s, "node: {}")
	check.Length(t, "volumes", got, len(want))
	check.Contains(t, "texts", texts, "node: {} registry # comment/olcne/")

	paths := ""

	for _, volume := range got {
		if volume.HostPath != nil {
			paths += volume.HostPath.Path + "\n"
		}
	}

	check.Contains(t, "paths", paths, "/var/lib/kubelet/plugins/"+hostile+"\n")
}
