package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// site is an engine, and manifests for this engine.
type site struct {
	t         *testing.T
	sim       *ovirtsim.Server
	caFile    string
	manifests string
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteWith(t, ovirtsim.Options{Timings: ovirtsim.DefaultTimings().Faster(20)})
}

func newSiteWith(t *testing.T, options ovirtsim.Options) *site {
	t.Helper()

	s := newSiteAlone(t, options)
	for _, variable := range s.environment() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}

	return s
}

// newSiteAlone returns a site that is not in the environment of this process.
func newSiteAlone(t *testing.T, options ovirtsim.Options) *site {
	t.Helper()
	sim, err := ovirtsim.New(options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	sample, err := os.ReadFile(filepath.Join(testenv.Toolchain(t).Root(), "config", "samples", "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	s := &site{
		t:         t,
		sim:       sim,
		caFile:    filepath.Join(t.TempDir(), "ca.pem"),
		manifests: strings.ReplaceAll(string(sample), "ENGINE_URL", sim.URL()),
	}
	if err := os.WriteFile(s.caFile, sim.CA(), 0o600); err != nil {
		t.Fatal(err)
	}

	return s
}

// environment returns the variables that select the engine.
func (s *site) environment() []string {
	s.t.Helper()

	return []string{
		"OLVM_USERNAME=" + s.sim.Username(), "OLVM_PASSWORD=" + s.sim.Password(), "OLVM_URL=" + s.sim.URL(),
		"CAPOLVM_TERRAFORM=" + testenv.FindExecutable(s.t).Path,
	}
}

// run runs olvmctl with manifests on standard input. It returns the exit code and the output.
func (s *site) run(manifests string, args ...string) (code int, out, problems string) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	command := newCommand(streams{in: strings.NewReader(manifests), out: &stdout, err: &stderr})
	command.SetArgs(args)
	err := command.ExecuteContext(s.t.Context())
	if err != nil && !errors.Is(err, errChanges) {
		stderr.WriteString(err.Error())
	}

	return exitCode(err), stdout.String(), stderr.String()
}

func TestPlan(t *testing.T) {
	s := newSite(t)
	code, out, problems := s.run(s.manifests, "plan", "-f", "-", "--ca-file", s.caFile)
	if code != 2 {
		t.Fatalf("exit code %d: %s", code, problems)
	}

	for _, want := range []string{"default/demo-control-plane-0 of " +
		"KubeadmControlPlane/demo-control-plane", "addresses: 127.20.30.10)", "default/demo-md-0-1",
		"Plan: 3 to create, 0 to update, 0 to replace, 0 to destroy\n", "(sensitive value)"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q", want)
		}
	}

	if strings.Contains(out+problems, s.sim.Password()) {
		t.Error("the plan shows the password")
	}

	code, out, problems = s.run(s.manifests, "plan", "-f", "-", "--ca-file", s.caFile, "-o", "json")
	var plan struct {
		Changed  int
		Machines []struct {
			Name      string
			Addresses []string
			Changes   []struct{ Address, Action string }
			Plan      struct {
				FormatVersion string `json:"format_version"`
			}
		}
	}
	err := json.Unmarshal([]byte(out), &plan)
	check.Error(t, err, "")
	check.Equal(t, "exit code, after "+problems, code, 2)
	check.Equal(t, "plan.Changed", plan.Changed, 3)
	check.Length(t, "plan.Machines", plan.Machines, 3)
	check.Length(t, "plan.Machines[0].Changes", plan.Machines[0].Changes, 4)
	check.Set(t, "plan.Machines[0].Plan.FormatVersion", plan.Machines[0].Plan.FormatVersion)

	if strings.Contains(out, s.sim.Password()) {
		t.Error("the JSON shows the password")
	}

	none := strings.NewReplacer("replicas: 1", "replicas: 0", "replicas: 2", "replicas: 0").Replace(s.manifests)
	if code, _, problems = s.run(none, "plan", "-f", "-", "--ca-file", s.caFile); code != 0 {
		t.Errorf("no machines: exit code %d, %s", code, problems)
	}

	if s.sim.Summarize().VMs != 0 {
		t.Error("planning made VMs")
	}
}

// TestAPlanGoesOnPastAMachineThatIsRefused has an address range with an address for the first worker only.
func TestAPlanGoesOnPastAMachineThatIsRefused(t *testing.T) {
	s := newSite(t)
	few := strings.ReplaceAll(s.manifests, "127.20.30.100-127.20.30.149", "127.20.30.100")

	code, out, problems := s.run(few, "plan", "-f", "-", "--ca-file", s.caFile)
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "problems", problems, "1 machine is refused\nmachine default/demo-md-0-1 ")
	check.Contains(t, "out", out, "REFUSED: machine default/demo-md-0-1 (MachineDeployment/demo-md-0): ")
	check.Contains(t, "out", out, "default/demo-md-0-0 of MachineDeployment/demo-md-0 (cluster demo, addresses: 127.20.30.100)")
	check.Contains(t, "out", out, "Plan: 2 to create, 0 to update, 0 to replace, 0 to destroy, 1 refused\n")

	code, out, _ = s.run(few, "plan", "-f", "-", "--ca-file", s.caFile, "-o", "json")
	var report struct {
		Changed, Refused int
		Machines         []struct{ Name, Refused string }
	}
	check.Error(t, json.Unmarshal([]byte(out), &report), "")
	check.Equal(t, "exit code with -o json", code, 1)
	check.Equal(t, "changed", report.Changed, 2)
	check.Equal(t, "refused", report.Refused, 1)

	for _, machine := range report.Machines {
		check.Equal(t, machine.Name+" has a reason", machine.Refused != "", machine.Name == "demo-md-0-1")
	}

	code, out, _ = s.run(few, "plan", "-f", "-", "--offline", "-o", "markdown")
	check.Equal(t, "exit code offline", code, 1)
	check.Contains(t, "markdown", out, "**refused**: machine default/demo-md-0-1 ")
}

// TestPlanOfNetworks has machines that get their addresses from a management cluster or from the network.
func TestPlanOfNetworks(t *testing.T) {
	s := newSite(t)

	network := func(yaml string) string {
		const worker = "          gateway: 127.20.30.1\n          ipv4:\n            subnet: 127.20.30.0/24\n       " +
			"     ipAddresses: [127.20.30.100-127.20.30.149]\n"
		at := strings.Index(s.manifests, strings.TrimPrefix(worker, "          "))
		if at < 0 {
			t.Fatal("the sample has another network")
		}

		return s.manifests[:at] + yaml + s.manifests[at+len(worker)-10:]
	}
	for name, test := range map[string]struct{ yaml, want, code string }{
		"a pool": {"addressesFromPools: [{apiGroup: ipam.cluster.x-k8s.io, kind: " +
			"InClusterIPPool, name: nodes}]\n", "addresses: from InClusterIPPool nodes)",
			`(known after apply)`},
		"DHCP": {"ipv4: {dhcp: true}\n", "addresses: dynamic IPv4 on enp1s0)",
			`boot_protocol = "dhcp"`},
		"two kinds": {"ipv4: {subnet: 127.20.30.0/24, ipAddresses: [127.20.30.7-127.20.30.8]}\n          " +
			"ipv6: {autoConf: true}\n",
			"; 127.20.30.8, dynamic IPv6 on enp1s0)", `"127.20.30.7"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, problems := s.run(network(test.yaml), "plan", "-f", "-", "--ca-file", s.caFile)
			check.Equal(t, "exit code, after "+problems, code, 2)
			check.Contains(t, "out", out, test.want)
			check.Contains(t, "out", out, test.code)
		})
	}
}

func TestBadInputNamesTheFieldAndTheRemedy(t *testing.T) {
	s := newSite(t)
	replace := func(from, to string) string {
		changed := strings.ReplaceAll(s.manifests, from, to)
		if changed == s.manifests {
			t.Fatalf("%q is not in the sample", from)
		}

		return changed
	}

	tests := map[string]struct {
		manifests string
		args      []string
		want      []string
	}{
		"unknown template": {
			replace("vmTemplateName: ol9-k8s", "vmTemplateName: ol9"),
			nil,
			[]string{"spec.vmTemplateName", `"ol9"`, "ol9-k8s", "demo-control-plane"},
		},
		"malformed memory": {
			replace("memory: 7GB", "memory: 7 GBB"),
			nil,
			[]string{"spec.virtualMachine.memory", "such as 16GB"},
		},
		"a field that is no field": {
			replace("vmTemplateName: ol9-k8s", "vmTemplate: ol9-k8s"),
			nil,
			[]string{"OLVMMachineTemplate", "vmTemplate"},
		},
		"endpoint in the pool": {
			replace("host: 127.20.30.5", "host: 127.20.30.12"),
			nil,
			[]string{"ipv4.ipAddresses", "127.20.30.12"},
		},
		"too few addresses": {
			replace("127.20.30.100-127.20.30.149", "127.20.30.100"),
			nil,
			[]string{"all 1 addresses of a range are in use", "lower the replicas"},
		},
		"too few hosts": {
			strings.Replace(
				replace(
					"olvmDatacenterName: Default",
					"olvmDatacenterName: Default\n  affinityGroups: [{name: apart, role: Worker, enforcing: Always}]",
				),
				"replicas: 2", "replicas: 5", 1,
			),
			nil,
			[]string{
				"spec.affinityGroups[apart]",
				"5 machines",
				"3 hosts",
				"demo-md-0-3, demo-md-0-4",
				"reduce the replicas",
			},
		},
		"no CA": {s.manifests, []string{}, []string{"caConfigMap", "--ca-file"}},
		"a template that is missing": {
			replace(
				"        kind: OLVMMachineTemplate\n        name: demo-md-0",
				"        kind: OLVMMachineTemplate\n        name: other",
			),
			nil,
			[]string{"other", "not in the manifests"},
		},
		"a topology": {
			replace(
				"  controlPlaneRef:\n    apiGroup: controlplane.cluster.x-k8s.io\n    kind: KubeadmControlPlane\n   "+
					" name: demo-control-plane",
				"  topology: {classRef: {name: x}}",
			),
			nil,
			[]string{"topology"},
		},
		"not YAML": {"a: [", nil, []string{"document 1"}},
		"a Secret without a kind": {
			s.manifests + "\n---\napiVersion: v1\nstringData: {password: hunter2}\n",
			[]string{"--offline"},
			[]string{"standard input: document ", ": kind: required"},
		},
		"an unknown output": {
			s.manifests,
			[]string{"--ca-file", s.caFile, "-o", "xml"},
			[]string{"-o xml", "text, markdown, json or yaml"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := test.args
			if args == nil {
				args = []string{"--ca-file", s.caFile}
			}

			code, out, problems := s.run(test.manifests, append([]string{"plan", "-f", "-"}, args...)...)
			if code != 1 || out != "" && !strings.Contains(out, "REFUSED: ") {
				t.Fatalf("exit code %d, printed %q", code, out)
			}

			for _, want := range test.want {
				if !strings.Contains(problems, want) {
					t.Errorf("the error lacks %q: %s", want, problems)
				}
			}

			if strings.Contains(problems, "hunter2") {
				t.Errorf("the error has what may be secret: %s", problems)
			}
		})
	}

	t.Run("wrong password", func(t *testing.T) {
		t.Setenv("OLVM_PASSWORD", "wrong")
		code, _, problems := s.run(s.manifests, "plan", "-f", "-", "--ca-file", s.caFile)
		check.Equal(t, "exit code, after "+problems, code, 1)
		check.Contains(t, "problems", problems, "admin@internal")
		check.Contains(t, "problems", problems, "correct the user name")
	})
	t.Run("a folder that is empty", func(t *testing.T) {
		code, _, problems := s.run("", "plan", "-f", t.TempDir())
		if code != 1 || !strings.Contains(problems, "no manifests") {
			t.Errorf("exit code %d: %s", code, problems)
		}
	})
}

// TestARenderedFolderIsPlannedByHand follows the steps in docs/user/olvmctl.md.
func TestARenderedFolderIsPlannedByHand(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	dir := filepath.Dir(s.clusterFile("name: demo", "name: prod"))
	out := s.documented("docs/user/olvmctl.md", "terraform init -plugin-dir", dir)
	if !strings.Contains(out, "Plan: 4 to add") {
		t.Errorf("the plan is\n%s", out)
	}

	info, err := os.Stat(filepath.Join(dir, "out", "olvm", "prod-md-0-0", "terraform.tfvars.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secrets: %v, %v", info, err)
	}
}

// TestOtherBlocksOfDocuments follows the steps in docs/develop/terraform-provider.md and docs/develop/simulator.md.
func TestOtherBlocksOfDocuments(t *testing.T) {
	s := newSite(t)
	dir := filepath.Dir(s.caFile)
	err := os.WriteFile(
		filepath.Join(dir, "main.tf"),
		[]byte(
			"terraform {\n  required_providers {\n    ovirt = { source = "+
				"\"registry.terraform.io/ovirt/ovirt\" }\n  }\n}\n",
		),
		0o600,
	)
	if err != nil {
		t.Fatal(err)
	}

	out := s.documented("docs/develop/terraform-provider.md", "terraform init -plugin-dir", dir)
	if !strings.Contains(out, "ovirt/ovirt v"+tfprovider.Version()) {
		t.Errorf("terraform init:\n%s", out)
	}

	for _, program := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("docs/develop/simulator.md is not tried: %s is not there", program)
		}
	}

	connection, err := json.Marshal(ovirtsim.Connection{
		URL:      s.sim.URL(),
		CAFile:   s.caFile,
		Username: s.sim.Username(),
		Password: s.sim.Password(),
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(dir, "ovirtsim.json"), connection, 0o600); err != nil {
		t.Fatal(err)
	}

	out = s.documented("docs/develop/simulator.md", "token=$(curl", dir)
	if !strings.HasPrefix(out, "{") || s.sim.CountLogins() != 1 {
		t.Errorf("the engine answers\n%s", out)
	}
}

// documented runs a block of commands in a folder, and returns the output. It is the block of the document that
// contains the given text.
func (s *site) documented(document, text, dir string) string {
	s.t.Helper()
	blocks := testenv.CommandBlocks(testenv.ReadDocuments(s.t)[document])
	at := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, text) })
	if at < 0 {
		s.t.Fatalf("%s has no %s", document, text)
	}

	err := testenv.Toolchain(s.t).BuildProject(s.t.Context(), filepath.Join(dir, "bin"), "terraform-provider-ovirt")
	if err != nil {
		s.t.Fatal(err)
	}

	executable, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}

	script := fmt.Sprintf(
		"set -e\nmake() { test \"$*\" = build; }\nbin/olvmctl() { %s=1 %q \"$@\"; }\nterraform() { "+
			"%q \"$@\" -no-color; }\n",
		asOlvmctl, executable, testenv.FindExecutable(s.t).Path,
	)
	command := exec.CommandContext(s.t.Context(), "bash", "-c",
		script+strings.ReplaceAll(blocks[at], "linux_amd64", runtime.GOOS+"_"+runtime.GOARCH))
	command.Dir = dir
	command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1")
	out, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", document, err, out)
	}

	return string(out)
}

// clusterFile writes a cluster file for the simulator. The CA is in the same folder.
func (s *site) clusterFile(changes ...string) string {
	s.t.Helper()
	text := strings.NewReplacer("ENGINE_URL", s.sim.URL()).Replace(`name: demo
provider: olvm
workerNodes: 2
virtualIp: 10.20.30.5
kubernetesVersion: 1.33
providers:
  olvm:
    namespace: olvm
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: ENGINE_URL, serverCAPath: ca.pem}
    controlPlaneMachine: &machine
      olvmOvirtClusterName: Default
      vmTemplateName: ock-1.36
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        network:
          ipv4: {subnet: 10.20.30.0/24, ipAddresses: 10.20.30.10-10.20.30.19}
    workerMachine: *machine
`)
	text = strings.NewReplacer(changes...).Replace(text)
	path := filepath.Join(filepath.Dir(s.caFile), "cluster.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}

	return path
}

func TestAClusterFileIsCheckedPlannedAndRendered(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	path := s.clusterFile()
	if code, out, problems := s.run("", "validate", "-f", path,
		"--engine"); code != 0 || !strings.Contains(out, "cluster.yaml is valid") {
		t.Errorf("exit code %d: %s%s", code, out, problems)
	}

	code, manifests, problems := s.run("", "template", "-f", path)
	check.Equal(t, "exit code, after "+problems, code, 0)
	check.Contains(t, "manifests", manifests, "kind: KubeadmControlPlane")
	check.Lacks(t, "manifests", manifests, s.sim.Password())
	if t.Failed() {
		t.FailNow()
	}

	code, fromFile, problems := s.run("", "plan", "-f", path, "-o", "json")
	if code != 2 {
		t.Fatalf("exit code %d: %s", code, problems)
	}

	if code, fromManifests, problems := s.run(manifests, "plan", "-f", "-", "-o",
		"json"); code != 2 || !sameMachines(t, fromFile, fromManifests) {
		t.Errorf("the manifests have another plan: exit code %d: %s", code, problems)
	}
}

// sameMachines compares plans without random values and times.
func sameMachines(t *testing.T, plans ...string) bool {
	t.Helper()
	var seen []string

	for _, plan := range plans {
		var decoded struct {
			Machines []struct {
				Name, From string
				Addresses  []string
			}
		}
		if err := json.Unmarshal([]byte(plan), &decoded); err != nil || len(decoded.Machines) != 3 {
			t.Errorf("%d machines, %v", len(decoded.Machines), err)
		}

		text, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}

		seen = append(seen, string(text))
	}

	return seen[0] == seen[1]
}

func TestWhatIsWrongWithAClusterFileIsSaidAtOnce(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")

	for name, test := range map[string]struct {
		changes []string
		args    []string
		want    []string
	}{
		"without the engine": {
			[]string{"virtualIp: 10.20.30.5", "virtualIp: 10.20.30.12", "workerNodes: 2", "workernodes: 2"},
			[]string{"validate"},
			[]string{"workernodes: unknown key; did you mean workerNodes?",
				"10.20.30.12 is inside the machine ranges"},
		},
		"a template that the engine does not have": {
			[]string{"ock-1.36", "ock-1.37"},
			[]string{"validate", "--engine"},
			[]string{"cluster.yaml:", "Machine.vmTemplateName: ", "ock-1.36"},
		},
		"a template with cloud-init under a flavor with Ignition": {
			[]string{"ock-1.36", "ol9-k8s"},
			[]string{"validate", "--engine"},
			[]string{"spec.virtualMachine.osType", "KubeadmControlPlane/demo-control-plane is for Ignition",
				"MachineDeployment/demo-md-0 is for Ignition", "--flavor"},
		},
		"a template with Ignition under a flavor with cloud-init": {
			nil,
			[]string{"validate", "--engine", "--flavor", "default"},
			[]string{"spec.virtualMachine.osType", "KubeadmControlPlane/demo-control-plane is a cloud-config"},
		},
		"for a plan": {
			[]string{"virtualIp: 10.20.30.5", "virtualIp: api"},
			[]string{"plan"},
			[]string{`virtualIp: invalid IP address "api"`},
		},
		"for a template": {
			[]string{"Default", `""`},
			[]string{"template"},
			[]string{"olvmDatacenterName: required", "controlPlaneMachine.olvmOvirtClusterName: required"},
		},
		"for JSON": {
			[]string{"virtualIp: 10.20.30.5", "virtualIp: api"},
			[]string{"validate", "-o", "json"},
			[]string{`"valid": false`, `"path": "virtualIp"`, `"line": 4`},
		},
	} {
		code, out, problems := s.run("", append(test.args, "-f", s.clusterFile(test.changes...))...)
		for _, want := range test.want {
			if code != 1 || !strings.Contains(out+problems, want) {
				t.Errorf("%s: exit code %d, no %q in\n%s%s", name, code, want, out, problems)
			}
		}
	}

	code, _, problems := s.run(s.manifests, "plan", "-f", s.clusterFile(), "-f", "-")
	if code != 1 || !strings.Contains(problems, "omit the other arguments") {
		t.Errorf("manifests beside a cluster file: %d, %s", code, problems)
	}
}

// TestRemediesOfAClusterFileNameNoSecret has engines that reject the user of a cluster file. Such a user has no Secret
// or ConfigMap to correct.
func TestRemediesOfAClusterFileNameNoSecret(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")

	for name, test := range map[string]struct {
		changes  []string
		password string
		want     string
	}{
		"no credentials": {
			want: "the credentials of the engine: missing; set OLVM_USERNAME and OLVM_PASSWORD",
		},
		"a wrong password": {
			password: "wrong",
			want:     "correct the user name (with its domain, such as admin@internal) and password in OLVM_USERNAME and OLVM_PASSWORD",
		},
		"no CA": {
			changes:  []string{", serverCAPath: ca.pem", ""},
			password: s.sim.Password(),
			want:     "cluster.yaml: providers.olvm.olvmOvirtAPIServer.serverCAPath",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OLVM_PASSWORD", test.password)
			if test.password == "" {
				t.Setenv("OLVM_USERNAME", "")
			}

			for _, command := range []string{"validate --engine", "plan", "render --out " + t.TempDir(), "image list"} {
				path := s.clusterFile(test.changes...)
				code, out, problems := s.run("", append(strings.Fields(command), "-f", path)...)
				check.Equal(t, command+": the exit code", code, 1)

				for _, kind := range []string{"the Secret", "the ConfigMap", "spec.olvm"} {
					check.Lacks(t, command, out+problems, kind)
				}

				if command != "image list" || test.password != "" {
					check.Contains(t, command, out+problems, test.want)
				}
			}
		})
	}
}

func TestAPlanForAPullRequest(t *testing.T) {
	s := newSite(t)
	code, out, problems := s.run(s.manifests, "plan", "-f", "-", "--ca-file", s.caFile, "-o", "markdown")
	if code != 2 {
		t.Fatalf("exit code %d: %s", code, problems)
	}

	for _, want := range []string{"### Plan: 3 to create, 0 to update, 0 to replace, 0 to destroy\n", "default/demo-md-0-1 | " +
		"MachineDeployment/demo-md-0 | demo | 127.20.30.",
		"<details><summary>default/demo-control-plane-0</summary>\n\n```\n", "| create "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}

	if strings.Contains(out, s.sim.Password()) {
		t.Error("it shows the password")
	}
}

func TestAPlanWithoutAnEngine(t *testing.T) {
	s := newSite(t)
	s.sim.Close()
	code, out, problems := s.run(s.manifests, "plan", "-f", "-", "--offline")
	if code != 0 || !strings.Contains(out, "A VM of template ol9-k8s in cluster Default, with 16GB of memory and ") ||
		!strings.Contains(out, "Not compared with a management cluster or an engine (--offline); the changes are unknown.") {
		t.Errorf("exit code %d: %s\n%s", code, problems, out)
	}

	if code, _, problems := s.run("", "plan"); code != 1 ||
		!strings.Contains(problems, "specify manifests or a cluster file with -f") {
		t.Errorf("nothing to plan: %d, %s", code, problems)
	}

	if code, _, problems := s.run(s.manifests, "plan", "-f", "-", "--offline", "--kubeconfig",
		"none"); code != 1 || !strings.Contains(problems, "--kubeconfig none: ") {
		t.Errorf("no such file: %d, %s", code, problems)
	}
}

func TestItIsAPluginOfKubectl(t *testing.T) {
	before := os.Args[0]
	t.Cleanup(func() { os.Args[0] = before })

	for program, want := range map[string]string{
		"/usr/bin/kubectl-olvm": "kubectl olvm plan",
		"clusterctl-olvm":       "clusterctl olvm plan",
		"./olvmctl":             "olvmctl plan",
	} {
		os.Args[0] = program
		var out bytes.Buffer
		command := newCommand(streams{out: &out, err: &out})
		command.SetArgs([]string{"plan", "--help"})
		err := command.ExecuteContext(t.Context())
		if err != nil || !strings.Contains(out.String(), "\n  "+want+" FILE") {
			t.Errorf("%s: %v\n%s", program, err, out.String())
		}
	}
}

// reporting are guests that report their addresses.
type reporting struct {
	ovirtsim.Guest
	addresses map[string]string
}

func (g reporting) Boot(ctx context.Context, vm ovirtsim.GuestVM, ready func(ovirtsim.AgentReport)) error {
	seen := ovirtsim.ReportedInterface{Name: "eth0", Addresses: []string{g.addresses[vm.Name]}}
	ready(ovirtsim.AgentReport{Interfaces: []ovirtsim.ReportedInterface{seen}})

	<-ctx.Done()

	return nil
}
func (reporting) HandleHalt(string)    {}
func (reporting) HandleRemoval(string) {}
func (reporting) Close()               {}
func (reporting) Node(string) (node ovirtsim.GuestNode, is bool) {
	return node, false
}

func TestAddressesThatOtherVMsHave(t *testing.T) {
	guests := reporting{
		addresses: map[string]string{
			"old":    "10.20.30.15",
			"holder": "10.20.30.5",
			"apart":  "10.20.30.200",
			"own":    "10.20.30.16",
		},
	}
	s := newSiteWith(t, ovirtsim.Options{Timings: ovirtsim.DefaultTimings().Faster(20), Guest: guests})
	t.Setenv("OCNE_DEFAULTS", "")
	client, err := engine.New(engine.Config{
		URL:      s.sim.URL(),
		Username: s.sim.Username(),
		Password: s.sim.Password(),
		CA:       s.sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	dc, err := client.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := client.FindCluster(t.Context(), dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	template, err := client.FindTemplates(t.Context(), nil, "ol9-k8s")
	if err != nil || len(template) != 1 {
		t.Fatal(err, len(template))
	}

	for name := range guests.addresses {
		vm := &engine.VM{Name: name, Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(template[0].ID)}
		if name == "own" {
			comment := ownermark.Owner{Namespace: "olvm", Name: "demo-md-0-abc", UID: "x"}.Comment()
			vm.Comment = &comment
		}

		made, err := client.CreateVM(t.Context(), vm, nil)
		if err != nil {
			t.Fatal(err)
		}

		err = engine.Wait(t.Context(), name, func(ctx context.Context) (bool, string, error) {
			seen, err := client.FetchVM(ctx, made.ID)
			if err == nil && seen.Status == "down" {
				err = client.StartVM(ctx, made.ID, false)
			}

			interfaces, _ := client.ListGuestInterfaces(ctx, made.ID)

			return len(interfaces) == 1, string(seen.Status), err
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}

	code, out, problems := s.run("", "validate", "-f", s.clusterFile(), "--engine")
	check.Equal(t, "exit code, after "+problems, code, 1)
	check.Contains(t, "out", out, "network of KubeadmControlPlane/demo-control-plane: 10.20.30.15 is in use by VM old")
	check.Contains(t, "out", out, "the control plane endpoint of OLVMCluster demo: 10.20.30.5 is in use by VM holder")
	check.Lacks(t, "out", out, "apart")
	check.Lacks(t, "out", out, "own,")
}

func TestVersionsOfWhichThereAreReleases(t *testing.T) {
	for version, want := range map[string]bool{
		"v0.1.0":            true,
		"v1.12.3-rc.1":      true,
		"v0.1.0-dev":        false,
		"v0.1.0-3-g1a2b3c4": false,
		"v0.1.0-dirty":      false,
		"52b172b":           false,
		"":                  false,
	} {
		if got := released.MatchString(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}
