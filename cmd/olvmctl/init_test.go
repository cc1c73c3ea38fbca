//go:build linux

package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

const ownKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIO2v6BH6hDHKL1y1WHWv+IVpfKc01C2e3xgOx5xR/+v ops@example.com"

// bench has an engine with two data centers, one of them without a template, and a folder for the output.
type bench struct {
	t       *testing.T
	sim     *ovirtsim.Server
	dir     string
	answers map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()

	return newBenchOf(t, ovirtsim.Options{})
}

// newBenchOf is like newBench, but with other options of the engine.
func newBenchOf(t *testing.T, options ovirtsim.Options) *bench {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()
	dc := &inventory.DataCenters[0]
	dc.Clusters = append(dc.Clusters, ovirtsim.Cluster{Name: "Edge", Hosts: []ovirtsim.Host{{Name: "edge-1"}}})
	dc.Networks[1].VNICProfiles = []string{"fast", "kvm-vlan"}
	dc.Templates = append(dc.Templates, ovirtsim.Template{
		Name:    "edge-only",
		Cluster: "Edge",
		Disks:   dc.Templates[0].Disks,
	})
	inventory.DataCenters = append(inventory.DataCenters, ovirtsim.DataCenter{
		Name: "Lab", Clusters: []ovirtsim.Cluster{{Name: "Lab", Hosts: []ovirtsim.Host{{Name: "lab-1"}}}},
		Networks:       []ovirtsim.Network{{Name: "lab", VNICProfiles: []string{"lab"}}},
		StorageDomains: []ovirtsim.StorageDomain{{Name: "lab-data"}},
	})
	options.Inventory = inventory
	sim, err := ovirtsim.New(options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)
	t.Setenv("OCNE_DEFAULTS", "")
	t.Setenv("OLVM_USERNAME", "")
	t.Setenv("OLVM_PASSWORD", sim.Password())
	b := &bench{t: t, sim: sim, dir: t.TempDir()}
	t.Chdir(b.dir)
	b.answers = map[string]string{
		"engine":        strings.TrimSuffix(strings.TrimPrefix(sim.URL(), "https://"), "/ovirt-engine"),
		"caFingerprint": b.fingerprint(),
		"dataCenter":    "Default",
		"cluster":       "Default",
		"template":      "ock-1.36",
		"network":       "kvm-vlan",
		"vnicProfile":   "kvm-vlan",
		"storageDomain": "olvm-data-2",
		"name":          "prod", "kubernetesVersion": "1.36.1", "subnet": "10.20.30.0/24", "virtualIp": "10.20.30.5",
		"ingressVirtualIp": "10.20.30.6", "baseDomain": "example",
		"dnsServers":            "10.20.30.53, 10.20.30.54",
		"controlPlaneAddresses": "10.20.30.10-10.20.30.19", "workerAddresses": "10.20.30.100-10.20.30.149",
		"controlPlaneNodes": "3",
		"workerNodes":       "2",
		"workerMemory":      "24GB",
		"workerCores":       "8",
		"controlPlaneDisk":  "60GB",
		"workerDataDisk":    "200GB",
		"sshPublicKey":      ownKey,
	}

	return b
}

// fingerprint returns the fingerprint of the simulator's CA.
func (b *bench) fingerprint() string {
	block, _ := pem.Decode(b.sim.CA())
	return colons(block.Bytes)
}

// colons returns the SHA-256 digest with colons between its octets.
func colons(certificate []byte) string {
	var pairs []string
	for _, octet := range sha256.Sum256(certificate) {
		pairs = append(pairs, fmt.Sprintf("%02X", octet))
	}

	return strings.Join(pairs, ":")
}

// file writes a file with the answers. changes are pairs of a key and its new value. An empty value removes the answer.
func (b *bench) file(changes ...string) string {
	b.t.Helper()

	answers := maps.Clone(b.answers)
	for i := 0; i+1 < len(changes); i += 2 {
		answers[changes[i]] = changes[i+1]
		if changes[i+1] == "" {
			delete(answers, changes[i])
		}
	}

	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		fmt.Fprintf(&text, "%s: %s\n", key, answers[key])
	}

	path := filepath.Join(b.t.TempDir(), "answers.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.t.Fatal(err)
	}

	return path
}

// run runs olvmctl without a terminal.
func (b *bench) run(args ...string) (code int, out, problems string) {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	command := newCommand(streams{in: strings.NewReader(""), out: &stdout, err: &stderr})
	command.SetArgs(args)
	err := command.ExecuteContext(b.t.Context())
	if err != nil {
		fmt.Fprint(&stderr, err)
	}

	return exitCode(err), stdout.String(), stderr.String()
}

// written returns the content of the files in the folder.
func (b *bench) written() map[string]string {
	b.t.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}

	out := map[string]string{}

	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(b.dir, entry.Name()))
		if err != nil {
			b.t.Fatal(err)
		}

		out[entry.Name()] = string(content)
	}

	return out
}

// refused checks that a run has ended with exit code 1, has printed the wanted texts, and has written nothing.
func (b *bench) refused(name string, code int, problems string, wants ...string) {
	b.t.Helper()

	for _, want := range wants {
		if code != 1 || !strings.Contains(problems, want) {
			b.t.Errorf("%s: exit code %d, no %q in\n%s", name, code, want, problems)
		}
	}

	if left := b.written(); len(left) != 0 {
		b.t.Errorf("%s: it wrote %q", name, slices.Sorted(maps.Keys(left)))
	}
}

// tty is a terminal with a simulated user.
type tty struct {
	t             *testing.T
	master, slave *os.File
	mu            sync.Mutex
	raw           string
	seen          int // length of the text expected so far
}

var controls = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)|\x1b[=>]")

func newTTY(t *testing.T) *tty {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}

	if err := pty.Setsize(master, &pty.Winsize{Rows: 50, Cols: 200}); err != nil {
		t.Fatal(err)
	}

	c := &tty{t: t, master: master, slave: slave}
	t.Cleanup(func() { _ = slave.Close(); _ = master.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			c.mu.Lock()
			c.raw += string(buffer[:n])
			c.mu.Unlock()

			if err != nil {
				return
			}
		}
	}()

	return c
}

// text returns the terminal's text without control sequences.
func (c *tty) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw := c.raw
	if last := strings.LastIndexByte(raw, '\x1b'); last >= 0 && controls.FindStringIndex(raw[last:]) == nil {
		raw = raw[:last] // the rest of a sequence is still missing
	}

	return controls.ReplaceAllString(raw, "")
}

// until waits for a condition. If it fails, it shows the content of the terminal.
func (c *tty) until(what string, holds func() bool) {
	c.t.Helper()
	wait.For(c.t, what, func() error {
		if holds() {
			return nil
		}

		return fmt.Errorf("the terminal has:\n%s", c.text())
	})
}

// expect waits for a text after the last expected text.
func (c *tty) expect(want string) {
	c.t.Helper()
	c.until(fmt.Sprintf("%q is on the terminal", want), func() bool {
		text := c.text()
		at := strings.Index(text[c.seen:], want)
		if at >= 0 {
			c.seen += at + len(want)
		}

		return at >= 0
	})
}

func (c *tty) send(keys string) {
	c.t.Helper()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// settings returns the settings of the terminal after a program has ended.
func (c *tty) settings() unix.Termios {
	c.t.Helper()
	now, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}

	return *now
}

// ended is the result of a command.
type ended struct {
	code          int
	out, problems string
}

// start starts olvmctl on the terminal, without a password in its environment. It returns a function that waits for the
// end of the command.
func (c *tty) start(args ...string) func() ended {
	c.t.Setenv("OLVM_PASSWORD", "")

	return c.startWith(args...)
}

// startWith is like start, but does not change the environment.
func (c *tty) startWith(args ...string) func() ended {
	var stdout bytes.Buffer
	command := newCommand(streams{in: c.slave, out: &stdout, err: c.slave})
	command.SetArgs(args)
	done := make(chan ended, 1)
	go func() {
		err := command.ExecuteContext(c.t.Context())
		end := ended{code: exitCode(err), out: stdout.String()}
		if err != nil {
			end.problems = err.Error()
		}

		done <- end
	}()

	return func() (end ended) {
		c.t.Helper()
		c.until("olvmctl has ended", func() bool {
			select {
			case end = <-done:
				return true
			default:
				return false
			}
		})

		return end
	}
}

// step is an expected prompt, and the answer to it.
type step struct {
	prompt string
	answer answer
	text   string
	choice int
}

type answer int

const (
	text   answer = iota // types step.text; empty for the default
	pick                 // chooses the item with this number, from 1
	fix                  // types step.text in place of a rejected answer
	secret               // types step.text once input is hidden
	yes
	no
	back // goes back to the previous question
	nothing
)

// answer performs the steps. lines reports whether olvmctl asks line by line.
func (c *tty) answer(lines bool, steps ...step) {
	c.t.Helper()
	enter := map[bool]string{true: "\n", false: "\r"}[lines]

	for _, s := range steps {
		c.expect(s.prompt)

		switch s.answer {
		case text:
			c.send(s.text + enter)
		case pick:
			if lines {
				c.expect("Enter a number between")
				c.send(strconv.Itoa(s.choice) + enter)
			} else {
				c.send(strings.Repeat("\x1b[B", s.choice-1) + enter)
			}
		case fix:
			if !lines {
				c.send("\x15") // clears the line
			}

			c.send(s.text + enter)
		case secret:
			c.until("a password that is hidden", func() bool { return c.settings().Lflag&unix.ECHO == 0 })
			c.send(s.text + enter)
		case yes:
			if c.send("y"); lines {
				c.send(enter)
			}
		case no:
			c.send(enter) // the answer is not the default
		case back:
			c.send(map[bool]string{true: "<\n", false: "\x1b[Z"}[lines])
		case nothing:
		}
	}
}

// modes are the ways to ask on a terminal, with the environment variables that select them.
var modes = map[string]struct {
	term, accessible string
	lines            bool
}{
	"on the screen":     {"xterm-256color", "", false},
	"by lines":          {"xterm-256color", "1", true},
	"on a dumb display": {"dumb", "", true},
}

// eachMode runs a test in each of the modes.
func eachMode(t *testing.T, test func(t *testing.T, lines bool)) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", mode.term)
			t.Setenv("ACCESSIBLE", mode.accessible)
			test(t, mode.lines)
		})
	}
}

// steps returns the steps for the answers of the bench up to a prompt. For an empty prompt it returns all steps.
func (b *bench) steps(until string) []step {
	all := []step{
		{prompt: "engine.example.com", text: b.answers["engine"]},
		{prompt: "SHA-256  " + b.answers["caFingerprint"], answer: nothing},
		{prompt: "Do the fingerprints match?", answer: yes},
		{prompt: "User with domain"},
		{prompt: "Password", answer: secret, text: b.sim.Password()},
		{prompt: "Data center of the engine", answer: pick, choice: 1},
		{prompt: `Cluster in data center "Default"`, answer: pick, choice: 1},
		{prompt: "VM template of the machines", answer: pick, choice: 1},
		{prompt: `with a vNIC profile`, answer: pick, choice: 1},
		{prompt: `vNIC profile of network "kvm-vlan"`, answer: pick, choice: 2},
		{prompt: `Storage domain for images in data center "Default"`, answer: pick, choice: 2},
		{prompt: "Lower case letters, digits and hyphens", text: "Prod"},
		{prompt: `invalid cluster name "Prod"`, answer: fix, text: "prod"},
		{prompt: "Version in the VM template", text: "1.36.1"},
		{prompt: "Subnet of all machines", text: "10.96.30.0/24"},
		{prompt: "overlaps with 10.96", answer: fix, text: "10.20.30.0/24"},
		{prompt: "Gateway of the subnet", text: ""},
		{prompt: "empty only if the image configures DNS servers", text: "dns"},
		{prompt: `invalid IP address "dns"`, answer: fix, text: "10.20.30.53, 10.20.30.54"},
		{prompt: "Free address in the subnet, such as 10.20.30.5", text: "10.20.31.5"},
		{prompt: "is not in the subnet 10.20.30.0/24", answer: fix, text: "10.20.30.5"},
		{prompt: "for a node with ingress", text: "10.20.30.5"},
		{prompt: "is the same as virtualIp", answer: fix, text: "10.20.30.6"},
		{prompt: "Nodes resolve names in prod.DOMAIN", text: "example"},
		{prompt: "one more than machines, such as 10.20.30.10-10.20.30.19", text: "10.20.30.5-10.20.30.19"},
		{prompt: "is inside the machine ranges", answer: fix, text: "10.20.30.10-10.20.30.19"},
		{prompt: "one more than machines, such as 10.20.30.100-10.20.30.149", text: "10.20.30.100-10.20.30.149"},
		{prompt: "Number of machines; must be odd", text: "2"},
		{prompt: "etcd needs an odd number", answer: fix, text: "3"},
		{prompt: "Number of workers", text: "0"},
		{prompt: "is not a positive integer", answer: fix, text: "2"},
		{prompt: "Memory of a control plane machine"},
		{prompt: "Cores of a control plane machine"},
		{prompt: "Root disk of a control plane machine", text: "60GB"},
		{prompt: "Memory of a worker", text: "24GB"},
		{prompt: "Cores of a worker", text: "8"},
		{prompt: "Root disk of a worker"},
		{prompt: "Data disk of a worker", text: "200GB"},
		{prompt: "Public key of user ocne", text: ownKey},
	}
	for i, s := range all {
		if s.prompt == until {
			return all[:i]
		}
	}

	return all
}

func TestInitWritesTheSameForAPersonAndForAFile(t *testing.T) {
	eachMode(t, func(t *testing.T, lines bool) {
		b := newBench(t)
		c := newTTY(t)
		before := c.settings()
		wait := c.start("init")
		c.answer(lines, b.steps("")...)
		end := wait()
		if end.code != 0 || c.settings() != before {
			t.Fatalf("exit code %d: %s\n%s", end.code, end.problems, c.text())
		}

		if strings.Contains(c.text(), b.sim.Password()) {
			t.Errorf("the terminal shows the password:\n%s", c.text())
		}

		byHand := b.written()
		t.Setenv("OLVM_PASSWORD", b.sim.Password())
		code, out, problems := b.run("init", "--force", "--answers", b.file())
		if code != 0 || out != end.out {
			t.Fatalf("exit code %d: %s\nit prints\n%s\nand on the terminal\n%s", code, problems, out, end.out)
		}

		if byFile := b.written(); !maps.Equal(byHand, byFile) || len(byFile) != 3 {
			t.Errorf("by hand %q\nby file %q", byHand, byFile)
		}
	})
}

// TestInitGoesBack simulates a user who notices mistakes late: in the name of the engine at once, and in the network
// after three more answers.
func TestInitGoesBack(t *testing.T) {
	eachMode(t, func(t *testing.T, lines bool) {
		b := newBench(t)
		b.answers["network"], b.answers["vnicProfile"] = "ovirtmgmt", ""
		c := newTTY(t)
		wait := c.start("init")

		before := slices.Clone(b.steps("Subnet of all machines"))
		c.answer(lines, before...)
		c.answer(lines,
			step{prompt: "Subnet of all machines", answer: back},
			step{prompt: "Version in the VM template", answer: back},
			step{prompt: "Lower case letters, digits and hyphens", answer: back},
			step{prompt: `Storage domain for images in data center "Default"`, answer: back},
			step{prompt: `vNIC profile of network "kvm-vlan"`, answer: back},
			step{prompt: `with a vNIC profile`, answer: pick, choice: 2},
			step{prompt: "vNIC profile: ovirtmgmt (the only choice)", answer: nothing},
			step{prompt: `Storage domain for images in data center "Default"`}, // as before
			step{prompt: "Lower case letters, digits and hyphens"},
			step{prompt: "Version in the VM template"})

		at := slices.IndexFunc(b.steps(""), func(s step) bool { return s.prompt == "Subnet of all machines" })
		c.answer(lines, b.steps("")[at:]...)
		end := wait()
		if end.code != 0 {
			t.Fatalf("exit code %d: %s\n%s", end.code, end.problems, c.text())
		}

		byHand := b.written()
		t.Setenv("OLVM_PASSWORD", b.sim.Password())
		code, _, problems := b.run("init", "--force", "--answers", b.file())
		check.Equal(t, "the exit code of a file with the same answers, after "+problems, code, 0)
		check.Equal(t, "what is written", b.written(), byHand)
	})
}

// TestInitTakesTheLoginOfTheEnvironment has the password in a variable. In one run, it is wrong.
func TestInitTakesTheLoginOfTheEnvironment(t *testing.T) {
	for name, password := range map[string]string{"a password": "", "a wrong password": "wrong"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", "dumb")
			b := newBench(t)
			t.Setenv("OLVM_USERNAME", "admin@internal")
			t.Setenv("OLVM_PASSWORD", cmp.Or(password, b.sim.Password()))
			c := newTTY(t)
			wait := c.startWith("init")
			c.answer(true, b.steps("Password")...)
			c.expect("Password: taken from OLVM_PASSWORD")

			if password != "" {
				c.answer(true, step{prompt: `engine refuses user "admin@internal"`, answer: nothing},
					step{prompt: "Password", answer: secret, text: b.sim.Password()})
			}

			at := slices.IndexFunc(b.steps(""), func(s step) bool { return s.prompt == "Data center of the engine" })
			c.answer(true, b.steps("")[at:]...)
			if end := wait(); end.code != 0 {
				t.Errorf("exit code %d: %s", end.code, end.problems)
			}
		})
	}
}

// TestInitOffersTheVersionOfTheTemplate gives no version.
func TestInitOffersTheVersionOfTheTemplate(t *testing.T) {
	b := newBench(t)

	// The template name ock-1.36 has no patch version, and nothing else has it. init does not offer its default, 1.33,
	// for this template.
	code, _, problems := b.run("init", "--answers", b.file("kubernetesVersion", ""))
	check.Equal(t, "the exit code", code, 1)
	check.Contains(
		t,
		"what it says",
		problems,
		"kubernetesVersion: required. Version in the VM template, with the patch version; ock-1.36 has version 1.36",
	)

	code, _, problems = b.run(
		"init",
		"--answers",
		b.file("kubernetesVersion", "", "dataCenter", "Lab", "cluster", "Lab",
			"template", "ol9-v1.31", "network", "lab", "vnicProfile", "", "storageDomain", "lab-data"),
	)
	check.Equal(t, "the exit code, after "+problems, code, 0)
	check.Contains(t, "the cluster file", b.written()["cluster.yaml"], "kubernetesVersion: \"1.31\"")
}

func TestWhatInitWrites(t *testing.T) {
	b := newBench(t)
	code, out, problems := b.run("init", "--out", "site.yaml", "--answers", b.file("gateway", "10.20.30.254"))
	if code != 0 || problems != "" {
		t.Fatalf("exit code %d: %s", code, problems)
	}

	for _, want := range []string{"olvmctl validate site.yaml --credentials " +
		"prod-credentials.yaml --engine\n", "olvmctl start site.yaml --credentials prod-credentials.yaml\n"} {
		if !strings.Contains(out, want) || strings.Contains(out, "image template") {
			t.Errorf("no %q, or an image, in\n%s", want, out)
		}
	}

	files := b.written()
	for name := range files {
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}

	if files["prod-ca.crt"] != string(b.sim.CA()) || len(files) != 3 {
		t.Errorf("the files are %q", slices.Sorted(maps.Keys(files)))
	}

	var secret corev1.Secret
	if err := kyaml.UnmarshalStrict([]byte(files["prod-credentials.yaml"]), &secret); err != nil {
		t.Fatal(err)
	}

	move, labelled := secret.Labels["clusterctl.cluster.x-k8s.io/move"]
	want := map[string]string{
		"username":          "admin@internal",
		"password":          b.sim.Password(),
		"scope":             "ovirt-app-api",
		"allowedServerURLs": b.sim.URL(),
	}
	check.Equal(t, "secret.Kind", secret.Kind, "Secret")
	check.Equal(t, "secret.Name", secret.Name, "prod-ovirt-credentials")
	check.Equal(t, "secret.Namespace", secret.Namespace, "ocne")
	check.Equal(t, "labelled", labelled, true)
	check.Equal(t, "move", move, "")
	check.Equal(t, "maps.Equal(secret.StringData, want)", maps.Equal(secret.StringData, want), true)

	read, err := clusterfile.Read("site.yaml", "")
	if err != nil {
		t.Fatal(err)
	}

	o := read.Providers.OLVM
	worker := o.WorkerMachine.VirtualMachine
	got := []any{
		read.Name,
		read.Version(),
		read.ControlPlaneNodes,
		read.WorkerNodes,
		read.VirtualIP,
		read.SSHPublicKey,
		o.DatacenterName,
		o.OvirtAPIServer.ServerURL,
		o.OCK.StorageDomainName,
		o.ControlPlaneMachine.VMTemplateName,
		o.WorkerMachine.OvirtClusterName,
		o.WorkerMachine.Network.VNICProfileName,
		worker.Memory,
		worker.CPU.Topology.Cores,
		worker.Network.Gateway,
		o.ControlPlaneMachine.VirtualMachine.Memory,
		o.ControlPlaneMachine.VirtualMachine.Network.IPv4.IPAddresses,
		worker.Network.IPv4.IPAddresses,
	}
	if want := []any{
		"prod",
		"v1.36.1",
		3,
		2,
		"10.20.30.5",
		ownKey,
		"Default",
		b.sim.URL(),
		"olvm-data-2",
		"ock-1.36",
		"Default",
		"kvm-vlan",
		"24GB",
		int32(8),
		"10.20.30.254",
		"7GB",
		"10.20.30.10-10.20.30.19",
		"10.20.30.100-10.20.30.149",
	}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("got  %v\nwant %v", got, want)
	}

	check.Equal(t, "root disk of the control plane", o.ControlPlaneMachine.VirtualMachine.RootDisk.Size, "60GB")
	check.Equal(t, "root disk of a worker", worker.RootDisk.Size, "")
	check.Equal(t, "data disks of a worker", worker.DataDisks, []clusterfile.DataDisk{{Name: "data", Size: "200GB"}})

	for _, silent := range []string{"podSubnet", "namespace", "interface", "registry", b.sim.Password()} {
		if strings.Contains(files["site.yaml"], silent) {
			t.Errorf("%s is in\n%s", silent, files["site.yaml"])
		}
	}

	t.Setenv("OLVM_USERNAME", b.sim.Username())
	if code, out, problems := b.run("validate", "-f", "site.yaml",
		"--engine"); code != 0 || out != "site.yaml is valid\n" {
		t.Errorf("exit code %d: %s%s", code, out, problems)
	}

	if b.sim.Summarize().Sessions != 0 {
		t.Errorf("%d sessions are open", b.sim.Summarize().Sessions)
	}
}

func TestANetworkWithOneProfileAsksForNone(t *testing.T) {
	eachMode(t, func(t *testing.T, lines bool) {
		b := newBench(t)
		c := newTTY(t)
		wait := c.start("init")

		for _, s := range b.steps("") {
			switch s.prompt {
			case `with a vNIC profile`:
				s.choice = 2 // ovirtmgmt
			case `vNIC profile of network "kvm-vlan"`:
				s = step{prompt: "vNIC profile: ovirtmgmt (the only choice)", answer: nothing}
			}

			c.answer(lines, s)
		}

		if end := wait(); end.code != 0 || strings.Contains(c.text(), "Of network") {
			t.Fatalf("exit code %d: %s\n%s", end.code, end.problems, c.text())
		}

		byHand := b.written()
		t.Setenv("OLVM_PASSWORD", b.sim.Password())
		code, _, problems := b.run("init", "--force", "--answers", b.file("network", "ovirtmgmt", "vnicProfile", ""))
		if code != 0 || !maps.Equal(byHand, b.written()) {
			t.Errorf("exit code %d: %s", code, problems)
		}
	})
}

func TestADataCenterWithoutATemplate(t *testing.T) {
	b := newBench(t)
	code, out, problems := b.run(
		"init",
		"--answers",
		b.file(
			"dataCenter", "Lab", "cluster", "Lab", "network", "lab", "vnicProfile", "", "storageDomain", "lab-data",
			"template", "mine",
		),
	)
	check.Equal(t, "exit code, after "+problems, code, 0)
	check.Contains(t, "out", out, "olvmctl image template --file IMAGE -f cluster.yaml --credentials ")
	check.Contains(t, `b.written()["cluster.yaml"]`, b.written()["cluster.yaml"], "vmTemplateName: mine\n")
}

func TestThreeWrongPasswords(t *testing.T) {
	eachMode(t, func(t *testing.T, lines bool) {
		b := newBench(t)
		c := newTTY(t)
		wait := c.start("init")
		c.answer(lines, b.steps("Password")...)

		for i := range 3 {
			c.answer(lines, step{prompt: "Password", answer: secret, text: "wrong"})
			if i < 2 {
				c.expect(`engine refuses user "admin@internal"`)
			}
		}

		end := wait()
		b.refused("three", end.code, end.problems, `engine refuses user "admin@internal"`, "3 attempts")
	})
	t.Run("the third is right", func(t *testing.T) {
		t.Setenv("TERM", "dumb")
		b := newBench(t)
		c := newTTY(t)
		wait := c.start("init")
		c.answer(true, b.steps("User with domain")...)
		c.answer(true,
			step{prompt: "User with domain", text: "nobody@internal"},
			step{prompt: "Password", answer: secret, text: "wrong"},
			step{prompt: "Password", answer: secret, text: "<"}, // another user
			step{prompt: "User [nobody@internal]", text: "admin@internal"},
			step{prompt: "Password", answer: secret, text: "wrong"})
		at := slices.IndexFunc(b.steps(""), func(s step) bool { return s.prompt == "Password" })
		c.answer(true, b.steps("")[at:]...)
		if end := wait(); end.code != 0 {
			t.Errorf("exit code %d: %s", end.code, end.problems)
		}
	})
}

func TestAnEngineThatMayBeAnother(t *testing.T) {
	eachMode(t, func(t *testing.T, lines bool) {
		b := newBench(t)
		c := newTTY(t)
		wait := c.start("init")
		c.answer(lines, b.steps("Do the fingerprints match?")...)
		c.answer(lines, step{prompt: "Do the fingerprints match?", answer: no})
		end := wait()
		b.refused("the fingerprint is another", end.code, end.problems, "the engine's CA is not confirmed")
	})
	b := newBench(t)
	other := strings.Repeat("AB:", 31) + "AB"
	code, _, problems := b.run("init", "--answers", b.file("caFingerprint", other))
	b.refused("the file has another fingerprint", code, problems, "answers.yaml:2: caFingerprint: ",
		b.answers["caFingerprint"], other)
	code, _, problems = b.run("init", "--answers", b.file("caFingerprint", ""))
	b.refused("the file has no fingerprint", code, problems, "answers.yaml: caFingerprint: required",
		b.answers["caFingerprint"], "CN=ovirtsim CA")
	if len(b.sim.ListRequests()) == 0 ||
		slices.ContainsFunc(
			b.sim.ListRequests(), func(r ovirtsim.Request) bool { return r.Method == http.MethodPost },
		) {
		t.Errorf("there was a login: %+v", b.sim.ListRequests())
	}

	// This engine shows the real CA, but has another engine's certificate.
	var asked []string
	swapped := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		_, _ = w.Write(b.sim.CA())
	}))
	defer swapped.Close()
	code, _, problems = b.run("init", "--answers", b.file("engine", swapped.URL))
	b.refused(
		"the certificate is swapped", code, problems, "certificate is signed by an unknown authority",
		"olvmctl has not sent the password",
	)
	if !slices.Equal(asked, []string{"GET /ovirt-engine/services/pki-resource"}) {
		t.Errorf("it was asked for %q", asked)
	}

	// This engine has a certificate for another name.
	var renamed *httptest.Server
	renamed = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: renamed.Certificate().Raw})
	}))
	defer renamed.Close()
	code, _, problems = b.run(
		"init",
		"--answers",
		b.file(
			"engine",
			strings.Replace(renamed.URL, "127.0.0.1", "localhost", 1),
			"caFingerprint",
			colons(renamed.Certificate().Raw),
		),
	)
	b.refused("the certificate is for another name", code, problems, "not localhost",
		"name the engine as its certificate does")
}

// TestTheCAHoldsForTheLogin replaces the engine by another one after the user has confirmed its CA.
func TestTheCAHoldsForTheLogin(t *testing.T) {
	t.Setenv("TERM", "dumb")
	b := newBench(t)
	other, err := ovirtsim.New(ovirtsim.Options{Username: b.sim.Username(), Password: b.sim.Password()})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(other.Close)
	address := func(of *ovirtsim.Server) string {
		return strings.TrimSuffix(strings.TrimPrefix(of.URL(), "https://"), "/ovirt-engine")
	}
	var target atomic.Value
	target.Store(address(b.sim))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}

			far, err := net.Dial("tcp", target.Load().(string))
			if err != nil {
				near.Close()
				return
			}

			go func() { _, _ = io.Copy(far, near); far.Close() }()
			go func() { _, _ = io.Copy(near, far); near.Close() }()
		}
	}()
	b.answers["engine"] = listener.Addr().String()
	c := newTTY(t)
	wait := c.start("init")
	c.answer(true, b.steps("Password")...)
	target.Store(address(other))
	c.answer(true, step{prompt: "Password", answer: secret, text: b.sim.Password()})
	end := wait()
	b.refused("swapped before the login", end.code, end.problems, "certificate is signed by an unknown authority")
	if len(other.ListRequests()) != 0 {
		t.Errorf("the other one was asked: %+v", other.ListRequests())
	}
}

// TestAProfileThatIsMissingHasTheUserAskedForAgain answers with a login of the web interface. The engine uses Keycloak.
// init asks for the password only once.
func TestAProfileThatIsMissingHasTheUserAskedForAgain(t *testing.T) {
	t.Setenv("TERM", "dumb")
	b := newBenchOf(t, ovirtsim.Options{Keycloak: true})
	t.Setenv("OLVM_PASSWORD", "")

	code, _, problems := b.run("init", "--answers", b.file("user", "admin@ovirt", "password", b.sim.Password()))
	b.refused(
		"an answer of a file", code, problems, "user: engine refuses user \"admin@ovirt\"", "the profile is missing",
		"admin@internal, or admin@ovirt@internalsso",
	)

	c := newTTY(t)
	wait := c.start("init")
	c.answer(true, b.steps("User with domain")...)
	c.answer(true, step{prompt: "User with domain", text: "admin@ovirt"})
	c.answer(true, step{prompt: "Password", answer: secret, text: b.sim.Password()})
	c.expect("admin@ovirt@internalsso at an engine with Keycloak")
	c.answer(true, step{prompt: "User with domain", text: "admin@ovirt@internalsso"})
	c.expect("Password: taken from the first attempt")
	c.expect("Data center")
	c.send("\x04")
	wait()

	check.Equal(t, "logins", b.sim.CountLogins(), 1)
}

func TestWhatIsWrongWithAnswers(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]struct {
		changes []string
		wants   []string
	}{
		"a key that is none": {
			[]string{"datacenter", "Default"},
			[]string{"answers.yaml:8: datacenter: unknown key; did you mean dataCenter?"},
		},
		"a value that is no text": {[]string{"name", "[a]"}, []string{"answers.yaml: ", "cannot unmarshal"}},
		"no engine": {
			[]string{"engine", ""},
			[]string{"answers.yaml: engine: required. Host name"},
		},
		"an engine without TLS": {
			[]string{"engine", "http://engine.example.com"},
			[]string{"engine: the engine URL must begin with https://"},
		},
		"an engine that is not there": {
			[]string{"engine", "127.0.0.1:1"},
			[]string{"engine: engine cannot be reached", "correct the name"},
		},
		"another server": {
			[]string{"engine", b.sim.URL() + "/other"},
			[]string{"answered HTTP 404 without a certificate"},
		},
		"another password": {
			[]string{"password", "other"},
			[]string{"answers.yaml:14: password: engine refuses user \"admin@internal\""},
		},
		"no data center": {
			[]string{"dataCenter", ""},
			[]string{"answers.yaml: dataCenter: required; use one of Default, Lab"},
		},
		"no cluster": {
			[]string{"cluster", ""},
			[]string{"cluster: required; use one of Default, Edge"},
		},
		"a cluster of another data center": {
			[]string{"cluster", "Lab"},
			[]string{`cluster: unsupported value "Lab"; use one of Default, Edge`},
		},
		"no template": {
			[]string{"template", ""},
			[]string{"template: required; use one of ock-1.36, ol9-k8s"},
		},
		"a template of another cluster": {
			[]string{"template", "edge-only"},
			[]string{`template: unsupported value "edge-only"; use one of ock-1.36, ol9-k8s`},
		},
		"no network": {
			[]string{"network", ""},
			[]string{"network: required; use one of kvm-vlan, ovirtmgmt"},
		},
		"two profiles, and none": {
			[]string{"vnicProfile", ""},
			[]string{"vnicProfile: required; use one of fast, kvm-vlan"},
		},
		"one profile, and another": {
			[]string{"network", "ovirtmgmt"},
			[]string{`vnicProfile: unsupported value "kvm-vlan"; use one of ovirtmgmt`},
		},
		"no storage domain": {
			[]string{"storageDomain", ""},
			[]string{"storageDomain: required; use one of olvm-data, olvm-data-2"},
		},
		"no name": {[]string{"name", ""}, []string{"name: required."}},
		"a version of nobody's": {
			[]string{"kubernetesVersion", "1.99"},
			[]string{"kubernetesVersion: 1.99 has no patch version"},
		},
		"no subnet": {
			[]string{"subnet", ""},
			[]string{"subnet: required.", "10.20.30.0/24"},
		},
		"a subnet that is none": {
			[]string{"subnet", "10.20.30.0"},
			[]string{`subnet: "10.20.30.0" is not an IPv4 subnet in CIDR notation`},
		},
		"a gateway elsewhere": {
			[]string{"gateway", "10.20.31.1"},
			[]string{`gateway: "10.20.31.1" is not an address of the subnet`},
		},
		"no endpoint": {[]string{"virtualIp", ""}, []string{"virtualIp: required."}},
		"an endpoint that is a name": {
			[]string{"virtualIp", "api"},
			[]string{`virtualIp: invalid IP address "api"`},
		},
		"an ingress address of another subnet": {
			[]string{"ingressVirtualIp", "10.20.31.6"},
			[]string{"ingressVirtualIp: 10.20.31.6 is not in the subnet"},
		},
		"a base domain that is none": {
			[]string{"baseDomain", "_.example"},
			[]string{`baseDomain: invalid domain "_.example"`},
		},
		"ranges elsewhere": {
			[]string{"controlPlaneAddresses", "10.20.31.10-10.20.31.19"},
			[]string{"controlPlaneAddresses: ", "is not inside the subnet"},
		},
		"no ranges": {
			[]string{"workerAddresses", ""},
			[]string{"workerAddresses: required."},
		},
		"more machines than addresses": {
			[]string{"workerNodes", "51"},
			[]string{"workerNodes: not enough addresses: 50 addresses for 51 machines"},
		},
		"an even control plane": {
			[]string{"controlPlaneNodes", "4"},
			[]string{"controlPlaneNodes: 4 is even"},
		},
		"a number that is none": {
			[]string{"workerCores", "many"},
			[]string{`workerCores: "many" is not a positive integer`},
		},
		"memory of nobody's": {
			[]string{"controlPlaneMemory", "much"},
			[]string{`controlPlaneMemory: "much" is not a size`},
		},
		"a disk of no size": {
			[]string{"workerDataDisk", "much"},
			[]string{`workerDataDisk: "much" is not a size`},
		},
		"a key of SSH that is none": {
			[]string{"sshPublicKey", "ssh-ed25519 AAAA"},
			[]string{"sshPublicKey: invalid SSH public key"},
		},
		"a file that is not there": {
			[]string{"sshPublicKey", "none.pub"},
			[]string{"sshPublicKey: open none.pub", "enter the public key itself"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another password" {
				// A successful login resets the failures, which would eventually lock the user.
				defer b.run("init", "--answers", b.file(), "--out", filepath.Join(t.TempDir(), "x.yaml"))
			}

			code, out, problems := b.run("init", "--answers", b.file(test.changes...))
			b.refused(name, code, problems, test.wants...)
			if out != "" {
				t.Errorf("it prints %s", out)
			}
		})
	}

	t.Setenv("OLVM_PASSWORD", "")
	code, _, problems := b.run("init", "--answers", b.file())
	b.refused("no password", code, problems, "answers.yaml: password: required; set it here, or in OLVM_PASSWORD")
	code, _, problems = b.run("init", "--answers", "none.yaml")
	b.refused("no file", code, problems, "--answers: open none.yaml")
	code, _, problems = b.run("init", "--answers", b.file(), "--out", "none/cluster.yaml")
	b.refused("no folder", code, problems, "--out: stat none")
	code, _, problems = b.run("init")
	b.refused("no terminal", code, problems, "init requires a terminal", "--answers FILE")
	t.Setenv("OCNE_DEFAULTS", b.file("name", ""))
	code, _, problems = b.run("init", "--answers", b.file())
	b.refused("defaults that are none", code, problems, "unknown key")
	if code, _, problems := b.run("init", "--answers", b.file("password", b.sim.Password()), "--defaults",
		""); code != 0 {
		t.Errorf("the password of the file: exit code %d: %s", code, problems)
	}
}

func TestInitOverwritesNothing(t *testing.T) {
	b := newBench(t)

	for _, name := range []string{"cluster.yaml", "prod-ca.crt", "prod-credentials.yaml"} {
		if err := os.WriteFile(name, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}

		code, _, problems := b.run("init", "--answers", b.file())
		if code != 1 ||
			!strings.Contains(problems, name+" already exists; use another name, or overwrite it with --force") ||
			!maps.Equal(b.written(), map[string]string{
				name: "mine",
			}) {
			t.Errorf("exit code %d: %s\n%q", code, problems, b.written())
		}

		if code, _, problems := b.run("init", "--force", "--answers",
			b.file()); code != 0 || len(b.written()) != 3 || b.written()[name] == "mine" {
			t.Errorf("exit code %d: %s\n%q", code, problems, b.written())
		}

		for made := range b.written() {
			if info, err := os.Stat(made); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v, %v", made, info.Mode(), err)
			}

			os.Remove(made)
		}
	}

	code, _, problems := b.run("init", "--answers", b.file(), "--out", "prod-ca.crt")
	b.refused("two files of one name", code, problems, "name: prod-ca.crt is the name of the cluster file")
	if err := os.Mkdir("cluster.yaml", 0o755); err != nil {
		t.Fatal(err)
	}

	if code, _, problems := b.run("init", "--force", "--answers",
		b.file()); code != 1 || !strings.Contains(problems, "cluster.yaml exists and is not a regular file") {
		t.Errorf("exit code %d: %s", code, problems)
	}
}

// process starts olvmctl as a separate process with its own terminal. end waits for the end of the process.
func (c *tty) process(environment []string, args ...string) (command *exec.Cmd, end func() int) {
	c.t.Helper()
	executable, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}

	command = exec.CommandContext(c.t.Context(), executable, args...)
	command.Env = append(append(os.Environ(), asOlvmctl+"=1"), environment...)
	command.Stdin, command.Stdout, command.Stderr = c.slave, c.slave, c.slave
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}

	return command, func() int {
		// The signal prints the stack of the process.
		late := time.AfterFunc(wait.Limit, func() { _ = command.Process.Signal(syscall.SIGQUIT) })
		defer late.Stop()
		var exit *exec.ExitError
		if err := command.Wait(); err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}

		return command.ProcessState.ExitCode()
	}
}

func TestInitIsInterrupted(t *testing.T) {
	eachMode(t, func(t *testing.T, lines bool) {
		for name, interrupt := range map[string]func(*tty, *os.Process){
			"Ctrl-C":  func(c *tty, _ *os.Process) { c.send("\x03") },
			"SIGTERM": func(c *tty, p *os.Process) { _ = p.Signal(syscall.SIGTERM) },
		} {
			b := newBench(t)
			c := newTTY(t)
			before := c.settings()
			command, wait := c.process([]string{"OLVM_PASSWORD="}, "init")
			c.answer(lines, b.steps("Password")...)
			c.answer(lines, step{prompt: "Password", answer: nothing})
			c.until("a password that is hidden", func() bool { return c.settings().Lflag&unix.ECHO == 0 })
			interrupt(c, command.Process)
			code := wait()
			c.expect("interrupted; no files were written")
			b.refused(name, code, c.text(), "interrupted")
			if c.settings() != before {
				t.Errorf("%s: the terminal was %+v, and is %+v", name, before, c.settings())
			}
		}
	})
	t.Run("the input ends", func(t *testing.T) {
		t.Setenv("TERM", "dumb")
		b := newBench(t)
		c := newTTY(t)
		wait := c.start("init")
		c.answer(true, b.steps(`Cluster in data center "Default"`)...)
		c.expect("Enter a number between")
		c.send("\x04")
		end := wait()
		b.refused("Ctrl-D", end.code, end.problems, "interrupted; no files were written")
	})
}

func TestASystemThatTrustsTheEngine(t *testing.T) {
	b := newBench(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, b.sim.CA(), 0o600); err != nil {
		t.Fatal(err)
	}

	c := newTTY(t)
	_, wait := c.process([]string{"SSL_CERT_FILE=" + ca, "TERM=dumb"}, "init", "--answers", b.file("caFingerprint", ""))
	if code := wait(); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.text())
	}

	if files := b.written(); len(files) != 2 || strings.Contains(files["cluster.yaml"], "CA") {
		t.Errorf("%q", files)
	}
}

// TestATerminalIsLeftAlone runs a command that asks nothing: libraries must neither write to the terminal nor wait for
// it.
func TestATerminalIsLeftAlone(t *testing.T) {
	c := newTTY(t)
	_, wait := c.process([]string{"TERM=xterm-256color"}, "--version")
	code := wait()
	c.expect("olvmctl version")
	c.mu.Lock()
	defer c.mu.Unlock()
	if code != 0 || strings.Contains(c.raw, "\x1b") {
		t.Errorf("exit code %d: %q", code, c.raw)
	}
}
