package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

var update = flag.Bool("update", false, "write the golden files anew")

func example() Machine {
	return Machine{
		Engine: Engine{
			URL:      "https://engine.example.com/ovirt-engine/api",
			CA:       "-----BEGIN CERTIFICATE-----\n",
			Username: "admin@internal",
			Password: `p"a$${ss}`,
		},
		Name: "demo-md-0-x7k2p", HostName: "demo-md-0-x7k2p", Comment: "capolvm owner default/demo-md-0-x7k2p 5f0c",
		ClusterID: "11111111-1111-4111-8111-111111111111", TemplateID: "22222222-2222-4222-8222-222222222222",
		Cores: 2, Sockets: 1, Threads: 1, Memory: 16 << 30,
		NICs: []NIC{{Name: "nic1", VNICProfileID: "33333333-3333-4333-8333-333333333333"}},
		Guests: []GuestNIC{
			{Name: "enp1s0", IPv4: static("10.20.30.161/24", "10.20.30.1")},
		},
		UserData: "#cloud-config\nruncmd:\n- echo \"a && b\" > /tmp/${x} <in\n",
	}
}

// static returns a static address. An empty gateway means none.
func static(prefix, gateway string) IP {
	out := IP{Method: Static, Address: netip.MustParsePrefix(prefix)}
	if gateway != "" {
		out.Gateway = netip.MustParseAddr(gateway)
	}

	return out
}

func TestMachinesMatchTheGoldenFiles(t *testing.T) {
	adopt := map[Address]string{
		VMAddress:     "44444444-4444-4444-8444-444444444444",
		NICAddress(0): "44444444-4444-4444-8444-444444444444/5",
	}
	insecure := example()
	insecure.Engine.Insecure, insecure.Guests = true, nil
	system := example()
	system.Engine.CA = ""
	yes, no := true, false
	rich := example()
	rich.GuaranteedMemory, rich.MaximumMemory, rich.MemoryBallooning, rich.HugePages = 8<<30, 32<<30, &no, 2048
	rich.CPUMode = "host_passthrough"
	rich.VMType = "high_performance"
	rich.OSType = "ol_9x64"
	rich.SerialConsole = &yes
	rich.SoundCard = &no
	rich.RemoveGraphicsConsoles, rich.RemoveTemplateNICs = true, true
	rich.Description, rich.TagIDs = "made \"by\" ${us} <&&>", []string{"55555555-5555-4555-8555-555555555555"}
	rich.Clone = &yes
	rich.TemplateDisks = []TemplateDisk{
		{
			ID:              "66666666-6666-4666-8666-666666666666",
			Format:          "raw",
			Provisioning:    "non-sparse",
			StorageDomainID: "77777777-7777-4777-8777-777777777777",
		},
	}
	rich.HighAvailability = &HighAvailability{
		Priority:             50,
		LeaseStorageDomainID: "77777777-7777-4777-8777-777777777777",
		StorageError:         "kill",
	}
	rich.BIOSType, rich.TPM, rich.WatchdogAction = "q35_secure_boot", &yes, "reset"
	rich.CustomProperties = map[string]string{"for": "1", "viodiskcache": "writeback"}
	rich.HostDevices = []string{"pci_0000_3b_00_0"}
	rich.MediatedDevices = []string{"nvidia-63", "nvidia-63"}
	rich.RootDiskSize = 100 << 30
	rich.DataDisks = []DataDisk{
		{
			Name:            "etcd",
			Size:            10 << 30,
			Format:          "raw",
			StorageDomainID: "77777777-7777-4777-8777-777777777777",
			Interface:       "virtio",
		},
	}
	rich.NICs = append(rich.NICs, NIC{
		Name:          "storage",
		VNICProfileID: "33333333-3333-4333-8333-333333333333",
		MAC:           "56:6f:1a:00:00:01",
		Interface:     "e1000e",
	})
	sized := example()
	sized.Memory = 0
	sized.Cores = 0
	sized.Sockets = 0
	sized.Threads = 0
	sized.InstanceTypeID = "88888888-8888-4888-8888-888888888888"
	placed := example()
	placed.Placement = &Placement{
		Affinity: "migratable",
		HostIDs:  []string{"55555555-5555-4555-8555-555555555551", "55555555-5555-4555-8555-555555555552"},
	}
	placed.OptimizeCPU, placed.Cores, placed.Sockets, placed.Threads = true, 0, 0, 0
	placed.AffinityGroups = map[string]string{
		"control-plane": "66666666-6666-4666-8666-666666666666",
		"etcd":          "77777777-7777-4777-8777-777777777777",
	}
	dual := example()
	dual.Guests[0].IPv6 = static("fd00::5/64", "")
	networks := example()
	networks.NICs = append(networks.NICs, NIC{
		Name:          "nic2",
		VNICProfileID: "33333333-3333-4333-8333-333333333333",
	}, NIC{Name: "nic3", VNICProfileID: "33333333-3333-4333-8333-333333333333"})
	networks.Guests = []GuestNIC{
		{Name: "enp1s0", IPv4: IP{Method: DHCP}, IPv6: IP{Method: DHCP}},
		{Name: "enp2s0", IPv6: static("fd00::5/64", "fe80::1")},
		{Name: "enp3s0", IPv6: IP{Method: AutoConf}}, // the engine does not pass it
	}

	networks.DNSServers, networks.SearchDomains = []string{"10.0.0.53", "fd00::53"}, []string{"example.com"}

	claimed := example()
	claimed.ClaimedVMID = "44444444-4444-4444-8444-444444444444"
	pooled := rich
	pooled.Pooled, pooled.HostName, pooled.UserData = true, "", ""
	pooled.Placement = &Placement{Affinity: "pinned", HostIDs: []string{"55555555-5555-4555-8555-555555555551"}}

	for name, machine := range map[string]Machine{
		"claimed":       claimed,
		"pooled":        pooled,
		"dual-stack":    dual,
		"networks":      networks,
		"rich":          rich,
		"instance-type": sized,
		"machine":       example(),
		"adopting":      example(),
		"insecure":      insecure,
		"system-trust":  system,
		"placed":        placed,
	} {
		t.Run(name, func(t *testing.T) {
			configuration, err := MachineConfiguration(machine)
			if err != nil {
				t.Fatal(err)
			}

			if name == "adopting" {
				configuration = configuration.WithImports(adopt)
			}

			matchesGolden(t, name, configuration.Files)
			declares(t, configuration)
		})
	}
}

func TestClustersMatchTheGoldenFiles(t *testing.T) {
	configuration, err := ClusterConfiguration(exampleCluster())
	if err != nil {
		t.Fatal(err)
	}

	matchesGolden(t, "cluster", configuration.Files)
	configuration = configuration.WithImports(map[Address]string{
		GroupAddress("workers/11111111-1111-4111-8111-111111111111"): "11111111-1111-4111-8111-111111111111/5",
	})
	matchesGolden(t, "cluster-adopting", configuration.Files)
	none, err := ClusterConfiguration(Cluster{Engine: example().Engine})
	if err != nil {
		t.Fatal(err)
	}

	matchesGolden(t, "cluster-empty", none.Files)
}

func exampleCluster() Cluster {
	const id = "11111111-1111-4111-8111-111111111111"

	return Cluster{Engine: example().Engine, Groups: []AffinityGroup{
		{
			Key:         "control-plane/" + id,
			Name:        "default_demo_control-plane",
			Description: "apart [capolvm owner=default/demo uid=5f0c]",
			ClusterID:   id,
			Priority:    5,
			Enforcing:   true,
		},
		{
			Key:         "together/" + id,
			Name:        "default_demo_together",
			Description: `"${x}" [capolvm owner=default/demo uid=5f0c]`,
			ClusterID:   id,
			Priority:    1,
			Positive:    true,
		},
		{
			Key:         "workers/" + id,
			Name:        "default_demo_workers",
			Description: "[capolvm owner=default/demo uid=5f0c]",
			ClusterID:   id,
			Priority:    1,
			Off:         true,
		},
	}}
}

func TestIncompleteGroupsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Cluster){
		"no key":             func(c *Cluster) { c.Groups[0].Key = "" },
		"no name":            func(c *Cluster) { c.Groups[0].Name = "" },
		"cluster unresolved": func(c *Cluster) { c.Groups[0].ClusterID = "" },
		"the same key twice": func(c *Cluster) { c.Groups[1].Key = c.Groups[0].Key },
	} {
		cluster := exampleCluster()
		change(&cluster)
		if _, err := ClusterConfiguration(cluster); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// matchesGolden compares the files with the golden ones, except the modules.
func matchesGolden(t *testing.T, name string, files Files) {
	t.Helper()
	dir := filepath.Join("testdata", name)
	if *update {
		_ = os.RemoveAll(dir)
	}

	for file, content := range files {
		if filepath.Dir(file) != "." {
			continue // the module is a file in this repository
		}

		golden := filepath.Join(dir, file)
		if *update {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}

			if err := os.WriteFile(golden, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}

		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}

		if !bytes.Equal(content, want) {
			t.Errorf("%s differs from %s (run with -update and look at the difference):\n%s", file, golden, content)
		}
	}

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		if files[entry.Name()] == nil {
			t.Errorf("%s is not rendered any more", entry.Name())
		}
	}
}

func TestDigestFollowsTheMachineAndNothingElse(t *testing.T) {
	digest := func(change func(*Machine)) string {
		machine := example()
		change(&machine)
		configuration, err := MachineConfiguration(machine)
		if err != nil {
			t.Fatal(err)
		}

		alone, err := MachineDigest(machine)
		check.Error(t, err, "")
		check.Equal(t, "the digest without the files", alone, configuration.Files.Digest())

		return alone
	}

	base := digest(func(*Machine) {})
	for name, test := range map[string]struct {
		change func(*Machine)
		same   bool
	}{
		"a rotated password plans nothing": {func(m *Machine) {
			m.Engine.Password = "new"
		}, true},
		"a rotated CA plans nothing": {func(m *Machine) {
			m.Engine.CA = "other"
		}, true},
		"a rotated token plans nothing": {func(m *Machine) {
			m.UserData = "other"
		}, true},
		"another gateway is too late": {func(m *Machine) {
			m.Guests[0].IPv4.Gateway = netip.MustParseAddr("10.20.30.254")
		}, true},
		"other DNS servers plan no change of hardware, but of the module": {func(m *Machine) {
			m.DNSServers = []string{"10.20.30.53"}
		}, false},
		"more memory is a change": {func(m *Machine) { m.Memory *= 2 }, false},
		"another cluster is a change": {func(m *Machine) {
			m.ClusterID = "x"
		}, false},
	} {
		if got := digest(test.change) == base; got != test.same {
			t.Errorf("%s: same digest is %t", name, got)
		}
	}
}

func TestIncompleteMachinesAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Machine){
		"no name":              func(m *Machine) { m.Name = "" },
		"cluster unresolved":   func(m *Machine) { m.ClusterID = "" },
		"template unresolved":  func(m *Machine) { m.TemplateID = "" },
		"no network interface": func(m *Machine) { m.NICs = nil },
		"too many of them":     func(m *Machine) { m.NICs = make([]NIC, 9) },
	} {
		machine := example()
		change(&machine)
		if _, err := MachineConfiguration(machine); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAdoptionIsNoChangeOfTheMachine(t *testing.T) {
	alone, err := MachineConfiguration(example())
	if err != nil {
		t.Fatal(err)
	}

	adopting := alone.WithImports(map[Address]string{VMAddress: "x"})
	if adopting.Files.Digest() != alone.Files.Digest() || alone.Files[ImportsFile] != nil {
		t.Errorf("digests %s and %s", adopting.Files.Digest(), alone.Files.Digest())
	}
}

// everyOption returns a machine that has the same text in all its texts.
func everyOption(text string) Machine {
	yes, ip := true, IP{Method: Static, Placeholder: text}

	return Machine{
		Engine:           Engine{URL: "https://engine.example.com/ovirt-engine/api", Username: text, Password: text},
		Name:             "n" + text,
		Comment:          text,
		ClusterID:        "c" + text,
		TemplateID:       "t" + text,
		Cores:            1,
		Sockets:          2,
		Threads:          3,
		Memory:           4,
		InstanceTypeID:   text,
		GuaranteedMemory: 5,
		MaximumMemory:    6,
		HugePages:        7,
		CPUMode:          text,
		OSType:           text,
		VMType:           text,
		MemoryBallooning: &yes,
		SerialConsole:    &yes,
		SoundCard:        &yes,
		HighAvailability: &HighAvailability{Priority: 10, LeaseStorageDomainID: text, StorageError: text},
		BIOSType:         text,
		TPM:              &yes,
		WatchdogAction:   text,
		HostDevices:      []string{text},
		MediatedDevices:  []string{text},
		CustomProperties: map[string]string{text: text},
		OptimizeCPU:      true, RemoveGraphicsConsoles: true, RemoveTemplateNICs: true, Description: text, Clone: &yes, RootDiskSize: 8,
		TemplateDisks: []TemplateDisk{{ID: text, Format: text, Provisioning: text, StorageDomainID: text}},
		DataDisks: []DataDisk{
			{Name: text, Size: 9, Format: text, Sparse: true, StorageDomainID: text, Interface: text},
		},
		TagIDs: []string{text}, NICs: []NIC{{Name: text, VNICProfileID: text, MAC: text, Interface: text}},
		Guests:         []GuestNIC{{Name: text, IPv4: ip, IPv6: ip}},
		DNSServers:     []string{text},
		SearchDomains:  []string{text},
		UserData:       text,
		Placement:      &Placement{Affinity: text, HostIDs: []string{text}},
		AffinityGroups: map[string]string{text: text},
	}
}

// FuzzNothingBecomesConfiguration renders hostile text in every input of the package, and parses the result. Every
// value must return unchanged, under its own name. Blocks, attributes, comments and declarations must equal those of a
// configuration with plain text.
func FuzzNothingBecomesConfiguration(f *testing.F) {
	for _, seed := range []string{"plain", "${file(\"/etc/passwd\")}", "%{ if true }", "a\"b\\c", "x\ny", "</vm>&&",
		"\x00\u2028", "EOF\n", "$${x}", "", "for", "a.b", "10"} {
		f.Add(seed)
	}

	structured := structures(f, "plain")

	f.Fuzz(func(t *testing.T, text string) {
		configuration, err := MachineConfiguration(everyOption(text))
		if err != nil {
			t.Fatal(err)
		}

		files := configuration.Files
		sameStructure(t, text, structured)

		if bytes.Contains([]byte(text), []byte("\xff")) || string([]rune(text)) != text {
			return // not UTF-8: JSON and HCL replace invalid bytes
		}

		want, err := MachineConfiguration(everyOption("plain"))
		if err != nil {
			t.Fatal(err)
		}

		got, shape := arguments(t, files), arguments(t, want.Files)
		for name, value := range shape {
			if text == "" {
				continue // an empty text lets the engine decide
			}

			if !reflect.DeepEqual(got[name], replaced(value, "plain", normalized(text))) {
				t.Errorf("%s became %#v", name, got[name])
			}
		}

		if text != "" && len(got) != len(shape) {
			t.Errorf("%d arguments, want %d:\n%s", len(got), len(shape), files[MainFile])
		}

		var secrets map[string]string
		literalAdoptions(t, text)
		literalModules(t, text)
		err = json.Unmarshal(files[SecretsFile], &secrets)
		check.Error(t, err, "")
		check.Equal(t, `secrets["user_data"]`, secrets["user_data"], text)
		check.Equal(t, `secrets["ovirt_password"]`, secrets["ovirt_password"], text)
		check.Equal(t, `secrets["ovirt_username"]`, secrets["ovirt_username"], text)
	})
}

// literalAdoptions renders an import for every address that can have a key. Terraform must read the key and the ID
// unchanged. The key must be a step of a traversal in which Terraform evaluates nothing.
func literalAdoptions(t *testing.T, text string) {
	t.Helper()
	keyed := []func(string) Address{
		TagAddress,
		DataDiskAddress,
		DataDiskAttachmentAddress,
		MembershipAddress,
		GroupAddress,
	}

	adopt := map[Address]string{
		VMAddress:          text,
		StartAddress:       text,
		OptimizeCPUAddress: text,
		NICAddress(0):      text,
		TemplateAddress:    text,
	}
	for _, address := range keyed {
		adopt[address(text)] = text
	}

	imports := parse(t, Configuration{Files: Files{}}.WithImports(adopt).Files[ImportsFile]).Blocks
	keys := 0

	for _, block := range imports {
		to, diags := hcl.AbsTraversalForExpr(block.Body.Attributes["to"].Expr)
		if diags.HasErrors() {
			t.Fatalf("an address is more than steps: %v", diags)
		}

		if step, ok := to[len(to)-1].(hcl.TraverseIndex); ok {
			keys++
			if got := step.Key.AsString(); got != normalized(text) {
				t.Errorf("the key %q became %q", text, got)
			}
		}

		id, diags := block.Body.Attributes["id"].Expr.Value(nil)
		if diags.HasErrors() || id.AsString() != normalized(text) {
			t.Errorf("the ID %q became %#v, %v", text, id, diags)
		}
	}

	if len(imports) != len(adopt) || keys != len(keyed) {
		t.Errorf("%d imports with %d keys, want %d with %d", len(imports), keys, len(adopt), len(keyed))
	}
}

// literalModules renders the configurations that call modules. The arguments must be values.
func literalModules(t *testing.T, text string) {
	t.Helper()
	cluster, err := ClusterConfiguration(Cluster{
		Groups: []AffinityGroup{{Key: "k" + text, Name: "n" + text, Description: text, ClusterID: "c" + text}},
	})
	if err != nil {
		t.Fatal(err)
	}

	image, err := ImageConfiguration(Image{
		Name:        "n" + text,
		Description: text,
		VMName:      "v" + text,
		Comment:     text,
		ClusterID:   "c" + text,
		DiskID:      "d" + text,
		OSType:      text,
	})
	if err != nil {
		t.Fatal(err)
	}

	groups := moduleArguments(t, cluster.Files)["affinity_groups"].(map[string]any)
	group, _ := groups[normalized("k"+text)].(map[string]any)
	if group["name"] != normalized("n"+text) || group["description"] != normalized(text) {
		t.Errorf("the group became %#v", groups)
	}

	template := moduleArguments(t, image.Files)
	for name, want := range map[string]string{
		"name":        "n" + text,
		"vm_name":     "v" + text,
		"disk_id":     "d" + text,
		"description": text,
		"comment":     text,
		"os_type":     text,
	} {
		if template[name] != normalized(want) {
			t.Errorf("%s became %#v", name, template[name])
		}
	}
}

// moduleArguments returns the arguments of the only module block, evaluated without variables and functions.
func moduleArguments(t *testing.T, files Files) map[string]any {
	t.Helper()
	out := map[string]any{}

	for name, attribute := range parse(t, files[MainFile]).Blocks[0].Body.Attributes {
		value, diags := attribute.Expr.Value(nil)
		if diags.HasErrors() {
			t.Fatalf("%s: %v", name, diags)
		}

		out[name] = plain(value)
	}

	return out
}

// arguments returns the arguments of all blocks as plain values, by their paths. It omits references.
func arguments(t *testing.T, files Files) map[string]any {
	t.Helper()
	out := map[string]any{}
	functions := &hcl.EvalContext{Functions: map[string]function.Function{"toset": function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
		Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0], nil },
	}), "timestamp": function.New(&function.Spec{
		Type: function.StaticReturnType(cty.String),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.StringVal("not known yet"), nil },
	})}}
	var walk func(path string, body *hclsyntax.Body)

	walk = func(path string, body *hclsyntax.Body) {
		for name, attribute := range body.Attributes {
			if len(attribute.Expr.Variables()) > 0 {
				// Names of resources and attributes come from this package. Their number must not change either.
				out[path+name] = len(attribute.Expr.Variables())
				continue
			}

			value, diags := attribute.Expr.Value(functions)
			if diags.HasErrors() {
				t.Fatalf("%s: %v", name, diags)
			}

			out[path+name] = plain(value)
		}

		for i, block := range body.Blocks {
			walk(fmt.Sprintf("%s%s %s %d.", path, block.Type, strings.Join(block.Labels, "."), i), block.Body)
		}
	}
	for _, file := range []string{MainFile, GuestFile} {
		walk(file+" ", parse(t, files[file]))
	}

	return out
}

func parse(t testing.TB, content []byte) *hclsyntax.Body {
	t.Helper()
	file, diags := hclsyntax.ParseConfig(content, MainFile, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%v\n%s", diags, content)
	}

	return file.Body.(*hclsyntax.Body)
}

// plain converts a cty value to Go types.
func plain(value cty.Value) any {
	switch kind := value.Type(); {
	case kind == cty.String:
		return value.AsString()
	case kind.IsObjectType() || kind.IsMapType():
		out := map[string]any{}
		for name, inner := range value.AsValueMap() {
			out[name] = plain(inner)
		}

		return out
	case kind.IsTupleType():
		out := []any{}
		for _, inner := range value.AsValueSlice() {
			out = append(out, plain(inner))
		}

		return out
	default:
		return value.GoString()
	}
}

// replaced replaces one text in a plain value with another. It keeps prefixes of one letter.
func replaced(value any, old, text string) any {
	switch v := value.(type) {
	case string:
		if before, ok := strings.CutSuffix(v, old+"_"+old); ok { // the alias of a disk
			return normalized(before + text + "_" + text)
		}

		if before, ok := strings.CutSuffix(v, old); ok {
			return normalized(before + text)
		}

		return v
	case map[string]any:
		out := map[string]any{}

		for name, inner := range v {
			if name == old {
				name = text
			}

			out[name] = replaced(inner, old, text)
		}

		return out
	case []any:
		out := []any{}
		for _, inner := range v {
			out = append(out, replaced(inner, old, text))
		}

		return out
	}

	return value
}

// normalized normalizes text like cty: composed Unicode.
func normalized(text string) string { return cty.NormalizeString(text) }
