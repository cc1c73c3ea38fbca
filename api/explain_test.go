package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfchange"
)

// field is a field of a CRD as shown by kubectl explain.
type field struct {
	kind, path, name, text string
	// above are the texts of the enclosing fields, the nearest first.
	above    []string
	optional bool
}

// fields returns the fields of our own types in kubectl explain. Types of Kubernetes and Cluster API have their own
// texts.
func fields(t *testing.T) []field {
	t.Helper()

	var out []field

	for _, crd := range readCRDs(t) {
		for _, version := range crd.Spec.Versions {
			for _, part := range []string{"spec", "status"} {
				if schema, ok := version.Schema.OpenAPIV3Schema.Properties[part]; ok {
					out = appendFields(out, field{kind: crd.Spec.Names.Kind, path: part, name: part}, schema)
				}
			}
		}
	}

	if len(out) < 400 {
		t.Fatalf("only %d fields", len(out))
	}

	return out
}

// foreign matches fields with types of Kubernetes and Cluster API.
var foreign = regexp.MustCompile(`(^|\.)(conditions|metadata|addressesFromPools|capacity)$|` +
	`^status\.(addresses|failureDomains)$`)

func appendFields(out []field, f field, schema apiextensionsv1.JSONSchemaProps) []field {
	f.text = strings.Join(strings.Fields(schema.Description), " ")
	out = append(out, f)

	for schema.Items != nil {
		schema = *schema.Items.Schema
	}

	if foreign.MatchString(f.path) {
		return out
	}

	for name, inner := range schema.Properties {
		out = appendFields(out, field{
			kind: f.kind, path: f.path + "." + name, name: name,
			above:    append([]string{f.text}, f.above...),
			optional: !slices.Contains(schema.Required, name),
		}, inner)
	}

	return out
}

// isSpec reports whether the field is in a spec.
func (f field) isSpec() bool { return strings.HasPrefix(f.path, "spec.") }

// short returns the path of a field in the spec of a machine or a cluster, with or without a template.
func (f field) short() string {
	return strings.TrimPrefix(strings.TrimPrefix(f.path, "spec."), "template.spec.")
}

var (
	saysOmitted = regexp.MustCompile(`(?i)\bomit|\bempty means|\b0 means|\bwithout it\b`)
	isMeasured  = regexp.MustCompile(`(^s|S)ize$|[mM]emory$|Seconds$|^hugePages$`)
	saysUnit    = regexp.MustCompile(`\bbytes\b|[0-9][KMG]i?B\b|\bKiB\b|\bseconds\b`)
)

// TestEachFieldIsExplained checks kubectl explain's text of a field: its meaning, default and unit.
func TestEachFieldIsExplained(t *testing.T) {
	for _, f := range fields(t) {
		what := f.kind + " " + f.path

		switch {
		case f.text == "":
			t.Errorf("%s: has no description", what)
		case !strings.HasPrefix(f.text, f.name+" "):
			t.Errorf("%s: the description starts with something else than the field's name: %s", what, f.text)
		case !strings.HasSuffix(f.text, "."):
			t.Errorf("%s: the description does not end with a sentence: %s", what, f.text)
		case f.isSpec() && f.optional && !saysOmitted.MatchString(f.text):
			t.Errorf("%s: say what happens if it is omitted: %s", what, f.text)
		case f.isSpec() && isMeasured.MatchString(f.name) && f.text != "" && !saysUnit.MatchString(f.text):
			t.Errorf("%s: say the unit: %s", what, f.text)
		}
	}
}

// The sentences about changing a field of an existing object.
var (
	atOnce    = regexp.MustCompile(`Changes (to \S+ )?take effect at once|appears at once`)
	nextStart = regexp.MustCompile(`Changes take effect at the next start of the VM`)
	whileDown = regexp.MustCompile(`Changes are refused while the VM runs`)
	onNew     = regexp.MustCompile(`Changes take effect on new (machines|disks|VMs)|Another name is another \w+`)
	fixed     = regexp.MustCompile(`cannot be changed`)
)

// change returns the sentence of the field, or else of the nearest enclosing field; nil if there is none.
func (f field) change() *regexp.Regexp {
	for _, text := range append([]string{f.text}, f.above...) {
		for _, sentence := range []*regexp.Regexp{atOnce, nextStart, whileDown, onNew, fixed} {
			if sentence.MatchString(text) {
				return sentence
			}
		}
	}

	return nil
}

// TestEachFieldSaysHowItChanges checks the fields of every kind except templates, because their specs are immutable.
func TestEachFieldSaysHowItChanges(t *testing.T) {
	all := fields(t)

	for _, f := range all {
		if strings.HasSuffix(f.kind, "Template") || !f.isSpec() {
			continue
		}

		// A structure without a sentence has fields with one.
		inner := slices.ContainsFunc(all, func(below field) bool {
			return below.kind == f.kind && strings.HasPrefix(below.path, f.path+".") && below.change() != nil
		})
		if f.change() == nil && !inner {
			t.Errorf("%s %s: say how a change takes effect: %s", f.kind, f.path, f.text)
		}
	}
}

// attributes maps fields of a machine to attributes of the Terraform provider.
var attributes = map[string]string{
	"olvmOvirtClusterName":                                   "ovirt_vm.cluster_id",
	"vmTemplateName":                                         "ovirt_vm.template_id",
	"vmTemplateVersion":                                      "ovirt_vm.template_id",
	"olvmNetwork.networkName":                                "ovirt_nic.vnic_profile_id",
	"olvmNetwork.vnicProfileName":                            "ovirt_nic.vnic_profile_id",
	"olvmNetwork.vnicName":                                   "ovirt_nic.name",
	"olvmNetwork.macAddress":                                 "ovirt_nic.mac",
	"olvmNetwork.interfaceType":                              "ovirt_nic.interface",
	"virtualMachine.memory":                                  "ovirt_vm.memory",
	"virtualMachine.guaranteedMemory":                        "ovirt_vm.guaranteed_memory",
	"virtualMachine.maximumMemory":                           "ovirt_vm.maximum_memory",
	"virtualMachine.memoryBallooning":                        "ovirt_vm.memory_ballooning",
	"virtualMachine.hugePages":                               "ovirt_vm.huge_pages",
	"virtualMachine.instanceType":                            "ovirt_vm.instance_type_id",
	"virtualMachine.type":                                    "ovirt_vm.vm_type",
	"virtualMachine.osType":                                  "ovirt_vm.os_type",
	"virtualMachine.serialConsole":                           "ovirt_vm.serial_console",
	"virtualMachine.soundCard":                               "ovirt_vm.soundcard_enabled",
	"virtualMachine.description":                             "ovirt_vm.description",
	"virtualMachine.cpu.mode":                                "ovirt_vm.cpu_mode",
	"virtualMachine.cpu.topology.cores":                      "ovirt_vm.cpu_cores",
	"virtualMachine.cpu.topology.sockets":                    "ovirt_vm.cpu_sockets",
	"virtualMachine.cpu.topology.threads":                    "ovirt_vm.cpu_threads",
	"virtualMachine.cpu.autoPinningPolicy":                   "ovirt_vm_optimize_cpu_settings.vm_id",
	"virtualMachine.rootDisk.size":                           "ovirt_vm_disks_resize.size",
	"virtualMachine.rootDisk.clone":                          "ovirt_vm.clone",
	"virtualMachine.rootDisk.format":                         "ovirt_vm.template_disk_attachment_override",
	"virtualMachine.rootDisk.sparse":                         "ovirt_vm.template_disk_attachment_override",
	"virtualMachine.rootDisk.storageDomainName":              "ovirt_vm.template_disk_attachment_override",
	"virtualMachine.dataDisks.size":                          "ovirt_disk.size",
	"virtualMachine.dataDisks.format":                        "ovirt_disk.format",
	"virtualMachine.dataDisks.sparse":                        "ovirt_disk.sparse",
	"virtualMachine.dataDisks.storageDomainName":             "ovirt_disk.storage_domain_id",
	"virtualMachine.dataDisks.interfaceType":                 "ovirt_disk_attachment.disk_interface",
	"virtualMachine.highAvailability":                        "ovirt_vm.high_availability",
	"virtualMachine.highAvailability.priority":               "ovirt_vm.high_availability_priority",
	"virtualMachine.highAvailability.leaseStorageDomainName": "ovirt_vm.lease_storage_domain_id",
	"virtualMachine.highAvailability.storageErrorResume":     "ovirt_vm.storage_error_resume_behaviour",
	"virtualMachine.watchdog.action":                         "ovirt_vm_watchdog.action",
	"virtualMachine.firmware.biosType":                       "ovirt_vm.bios_type",
	"virtualMachine.firmware.tpm":                            "ovirt_vm.tpm_enabled",
	"virtualMachine.hostDevices":                             "ovirt_vm_host_device.name",
	"virtualMachine.mediatedDevices.type":                    "ovirt_vm_mediated_device.type",
	"virtualMachine.customProperties":                        "ovirt_vm.custom_properties",
	"virtualMachine.placement.hostNames":                     "ovirt_vm.placement_policy_host_ids",
	"virtualMachine.network.interface":                       "ovirt_vm.initialization_nic",
	"virtualMachine.network.ipv4.subnet":                     "ovirt_vm.initialization_nic",
	"virtualMachine.network.dnsServers":                      "ovirt_vm.initialization_dns_servers",
	"virtualMachine.network.searchDomains":                   "ovirt_vm.initialization_search_domains",
	"userData.extra.inline":                                  "ovirt_vm.initialization_custom_script",
}

// TestWhatAFieldSaysOfItsChangeIsWhatTheProviderDoes compares the sentences with the table of the provider's
// attributes, and with the attributes a configuration leaves unchanged on an existing VM.
func TestWhatAFieldSaysOfItsChangeIsWhatTheProviderDoes(t *testing.T) {
	known := map[string]field{}

	for _, f := range fields(t) {
		if f.kind == "OLVMMachine" && f.isSpec() {
			known[f.short()] = f
		}
	}

	kept := keptAttributes(t)
	sentences := map[tfchange.Effect]*regexp.Regexp{
		tfchange.AtOnce: atOnce, tfchange.NextStart: nextStart, tfchange.WhileDown: whileDown,
		tfchange.Replacement: onNew,
	}

	for path, address := range attributes {
		f, ok := known[path]
		if !ok {
			t.Errorf("OLVMMachine has no field %s", path)
			continue
		}

		resource, attribute, _ := strings.Cut(address, ".")
		change, ok := tfchange.FindChange(resource, attribute)
		if !ok {
			t.Errorf("the provider has no attribute %s", address)
			continue
		}

		want := sentences[change.Effect]
		if slices.Contains(kept, address) {
			want = onNew
		}

		if got := f.change(); got != want {
			t.Errorf("%s: a change of %s is %s (kept by VMs: %t), and the field says: %s", path, address, change.Effect,
				slices.Contains(kept, address), f.text)
		}
	}
}

// keptAttributes returns the attributes of existing objects that render makes Terraform ignore.
func keptAttributes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../render/machine.go", nil, 0)
	check.Error(t, err, "")

	resources := map[string]string{"ignoredAttributes": "ovirt_vm", "writeNICs": "ovirt_nic", "writeDisks": "ovirt_disk"}

	var (
		out   []string
		found int
	)

	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || resources[function.Name.Name] == "" {
			continue
		}

		found++

		ast.Inspect(function, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}

			text, err := strconv.Unquote(literal.Value)
			check.Error(t, err, "")
			if isKept(function.Name.Name, text) {
				out = append(out, resources[function.Name.Name]+"."+text)
			}

			return true
		})
	}

	check.Equal(t, "functions of render with ignored attributes", found, len(resources))

	return out
}

// isKept reports whether a literal of a function of render names an ignored attribute. Hosts are ignored, unless a
// placement names some.
func isKept(function, text string) bool {
	switch function {
	case "writeNICs":
		return text == "mac" || text == "interface"
	case "writeDisks":
		return slices.Contains([]string{"format", "sparse", "storage_domain_id"}, text)
	}

	return !strings.HasPrefix(text, "placement_policy")
}
