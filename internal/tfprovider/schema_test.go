package tfprovider

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// released is the schema of ovirt/ovirt 2.2.0, reduced to the parts that matter for configurations and states: names,
// types, modes, and the nesting and number of blocks.
type released map[string]entry

type entry struct {
	Type      any      `json:"type,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	Sensitive bool     `json:"sensitive,omitempty"`
	Nesting   string   `json:"nesting,omitempty"`
	Min       int      `json:"min,omitempty"`
	Max       int      `json:"max,omitempty"`
	Block     released `json:"block,omitempty"`
}

// deliberate lists the differences from the released schema, and the reasons. The test also fails for a listed path
// without a difference, so the list is exact.
var deliberate = map[string]string{
	"resource ovirt_vm.initialization_custom_script": "the user data holds the keys of " +
		"clusters: a plan must not show it",

	"provider.filter": more,

	"resource ovirt_vm.guaranteed_memory": more,
	"resource ovirt_vm.description":       more,

	"resource ovirt_vm.high_availability":              more,
	"resource ovirt_vm.high_availability_priority":     more,
	"resource ovirt_vm.lease_storage_domain_id":        more,
	"resource ovirt_vm.storage_error_resume_behaviour": more,
	"resource ovirt_vm.bios_type":                      more,
	"resource ovirt_vm.tpm_enabled":                    more,
	"resource ovirt_vm.custom_properties":              more,
	"resource ovirt_vm_watchdog":                       more,
	"resource ovirt_vm_host_device":                    more,
	"resource ovirt_vm_mediated_device":                more,
	"resource ovirt_affinity_label":                    more,
	"resource ovirt_host_affinity_label":               more,
	"resource ovirt_vm_affinity_label":                 more,
	"resource ovirt_permission":                        more,
	"resource ovirt_vm_cdrom":                          more,
	"resource ovirt_vm_snapshot":                       more,
	"resource ovirt_vm_template_nics":                  more,

	"resource ovirt_vm.initialization_custom_script_wo":         more,
	"resource ovirt_vm.initialization_custom_script_wo_version": more,
	"resource ovirt_nic.linked":                                 more,
	"resource ovirt_nic.plugged":                                more,

	"data ovirt_cluster":        more,
	"data ovirt_disk":           more,
	"data ovirt_host":           more,
	"data ovirt_storage_domain": more,
	"data ovirt_template":       more,
	"data ovirt_vm":             more,
	"data ovirt_vnic_profile":   more,

	"resource ovirt_nic.mac": more,

	"resource ovirt_vm.initialization_dns_servers":            more,
	"resource ovirt_vm.initialization_search_domains":         more,
	"resource ovirt_vm.initialization_nic":                    more,
	"resource ovirt_vm.initialization_nic.ipv4":               more,
	"resource ovirt_vm.initialization_nic.ipv4.boot_protocol": more,
	"resource ovirt_vm.initialization_nic.ipv6.boot_protocol": more,
	"resource ovirt_nic.interface":                            more,
	"resource ovirt_vm_start.use_initialization":              more,
	"resource ovirt_adopted_vm":                               more,

	"resource ovirt_vm.clone":                     leftToTheEngine,
	"resource ovirt_vm.cpu_cores":                 leftToTheEngine,
	"resource ovirt_vm.cpu_mode":                  leftToTheEngine,
	"resource ovirt_vm.cpu_sockets":               leftToTheEngine,
	"resource ovirt_vm.cpu_threads":               leftToTheEngine,
	"resource ovirt_vm.huge_pages":                leftToTheEngine,
	"resource ovirt_vm.instance_type_id":          leftToTheEngine,
	"resource ovirt_vm.maximum_memory":            leftToTheEngine,
	"resource ovirt_vm.memory":                    leftToTheEngine,
	"resource ovirt_vm.memory_ballooning":         leftToTheEngine,
	"resource ovirt_vm.os_type":                   leftToTheEngine,
	"resource ovirt_vm.placement_policy_affinity": leftToTheEngine,
	"resource ovirt_vm.placement_policy_host_ids": leftToTheEngine,
	"resource ovirt_vm.serial_console":            leftToTheEngine,
	"resource ovirt_vm.soundcard_enabled":         leftToTheEngine,
	"resource ovirt_vm.vm_type":                   leftToTheEngine,
	"resource ovirt_disk.alias":                   leftToTheEngine,
	"resource ovirt_disk.sparse":                  leftToTheEngine,
	"resource ovirt_disk_from_image.alias":        leftToTheEngine,
	"resource ovirt_disk_from_image.sparse":       leftToTheEngine,
	"resource ovirt_affinity_group.priority":      leftToTheEngine,

	"resource ovirt_vm_start.status":                      hasDefault,
	"resource ovirt_vm_start.stop_behavior":               hasDefault,
	"resource ovirt_vm_start.force_stop":                  hasDefault,
	"resource ovirt_disk_attachment.active":               hasDefault,
	"resource ovirt_disk_attachment.bootable":             hasDefault,
	"resource ovirt_disk_attachments.detach_unmanaged":    hasDefault,
	"resource ovirt_disk_attachments.remove_unmanaged":    hasDefault,
	"resource ovirt_disk_attachments.attachment.active":   hasDefault,
	"resource ovirt_disk_attachments.attachment.bootable": hasDefault,
	"resource ovirt_affinity_group.enforcing":             hasDefault,
	"resource ovirt_affinity_group.hosts_rule.affinity":   hasDefault,
	"resource ovirt_affinity_group.hosts_rule.enforcing":  hasDefault,
	"resource ovirt_affinity_group.vms_rule.affinity":     hasDefault,
	"resource ovirt_affinity_group.vms_rule.enforcing":    hasDefault,

	"resource ovirt_vm_graphics_consoles.console": "a block that can be written but does nothing is " +
		"a trap: none is accepted",
}

const (
	leftToTheEngine = "computed as well: what the configuration leaves out is recorded, so that an import and a " +
		"state of the released provider plan nothing"
	more       = "not in the released provider: configurations that run on it leave it out"
	hasDefault = "computed as well: the released provider has a default that its schema does not show, and " +
		"this is how the framework says it"
)

// ours returns the schema of this provider in the form of the released one.
func ours(t *testing.T) map[string]released {
	t.Helper()
	server := providerserver.NewProtocol5(New(Options{}))()
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	if err != nil || len(schemas.Diagnostics) > 0 {
		t.Fatalf("%v, %v", err, schemas.Diagnostics)
	}

	got := map[string]released{"provider": entries(t, schemas.Provider.Block, nil)}

	numbers := blockNumbers(t)
	for name, schema := range schemas.ResourceSchemas {
		got["resource "+name] = entries(t, schema.Block, numbers["resource "+name])
	}

	for name, schema := range schemas.DataSourceSchemas {
		got["data "+name] = entries(t, schema.Block, numbers["data "+name])
	}

	return got
}

func entries(t *testing.T, block *tfprotov5.SchemaBlock, numbers released) released {
	t.Helper()
	out := released{}

	for _, a := range block.Attributes {
		encoded, err := a.Type.MarshalJSON() //nolint:staticcheck // no other function returns the wire format
		if err != nil {
			t.Fatal(err)
		}

		var kind any
		if err := json.Unmarshal(encoded, &kind); err != nil {
			t.Fatal(err)
		}

		out[a.Name] = entry{Type: kind, Mode: mode(a.Required, a.Optional, a.Computed), Sensitive: a.Sensitive}
	}

	for _, b := range block.BlockTypes {
		nesting := map[tfprotov5.SchemaNestedBlockNestingMode]string{
			tfprotov5.SchemaNestedBlockNestingModeList: "list", tfprotov5.SchemaNestedBlockNestingModeSet: "set",
			tfprotov5.SchemaNestedBlockNestingModeSingle: "single",
		}[b.Nesting]
		n := numbers[b.TypeName]
		out[b.TypeName] = entry{Nesting: nesting, Min: n.Min, Max: n.Max, Block: entries(t, b.Block, n.Block)}
	}

	return out
}

func mode(required, optional, computed bool) string {
	var out []string

	for _, m := range []struct {
		set  bool
		name string
	}{{required, "required"}, {optional, "optional"}, {computed, "computed"}} {
		if m.set {
			out = append(out, m.name)
		}
	}

	return strings.Join(out, ", ")
}

// blockNumbers reads the allowed numbers of blocks from the validators, because the framework does not send them.
func blockNumbers(t *testing.T) map[string]released {
	t.Helper()
	out := map[string]released{}

	provider := &ovirtProvider{}
	for _, make := range provider.Resources(t.Context()) {
		var name resource.MetadataResponse
		var made resource.SchemaResponse
		r := make()
		r.Metadata(t.Context(), resource.MetadataRequest{}, &name)
		r.Schema(t.Context(), resource.SchemaRequest{}, &made)
		out["resource "+name.TypeName] = numbersOf(t.Context(), made.Schema.Blocks)
	}

	for _, make := range provider.DataSources(t.Context()) {
		var made datasource.SchemaResponse
		make().Schema(t.Context(), datasource.SchemaRequest{}, &made)
		if delete(made.Schema.Blocks, timeoutsBlock); len(made.Schema.Blocks) > 0 {
			t.Error("a data source has blocks, which this test does not look at")
		}
	}

	return out
}

var (
	atLeast = regexp.MustCompile(`at least (\d+) elements`)
	atMost  = regexp.MustCompile(`at most (\d+) elements`)
)

func numbersOf(ctx context.Context, blocks map[string]schema.Block) released {
	out := released{}

	for name, block := range blocks {
		var descriptions []string
		var nested schema.NestedBlockObject

		switch b := block.(type) {
		case schema.ListNestedBlock:
			nested = b.NestedObject
			for _, v := range b.Validators {
				descriptions = append(descriptions, v.Description(ctx))
			}
		case schema.SetNestedBlock:
			nested = b.NestedObject
			for _, v := range b.Validators {
				descriptions = append(descriptions, v.Description(ctx))
			}
		}

		number := entry{Block: numbersOf(ctx, nested.Blocks)}

		for _, description := range descriptions {
			if match := atLeast.FindStringSubmatch(description); match != nil {
				number.Min, _ = strconv.Atoi(match[1])
			}

			if match := atMost.FindStringSubmatch(description); match != nil {
				number.Max, _ = strconv.Atoi(match[1])
				if number.Max == 0 {
					number.Max = -1 // 0 would mean any number
				}
			}
		}

		out[name] = number
	}

	return out
}

func TestTheSchemaIsThatOfTheReleasedProvider(t *testing.T) {
	content, err := os.ReadFile("testdata/released-2.2.0.json")
	if err != nil {
		t.Fatal(err)
	}

	var want map[string]released
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}

	compare(t, want, ours(t))

	t.Run("also as the released provider itself tells it", func(t *testing.T) {
		file := os.Getenv("CAPOLVM_RELEASED_SCHEMA")
		if file == "" {
			t.Skip(
				"CAPOLVM_RELEASED_SCHEMA does not name the output of `terraform providers schema " +
					"-json` for ovirt/ovirt 2.2.0",
			)
		}

		compare(t, dump(t, file), ours(t))
	})
}

// compare reports differences that are not listed, and listed paths without a difference.
func compare(t *testing.T, want, got map[string]released) {
	t.Helper()
	differences := map[string]string{}
	differ("", toEntries(want), toEntries(got), differences)

	for path, difference := range differences {
		if deliberate[path] == "" && !strings.HasSuffix(path, "."+timeoutsBlock) { // all resources have this block
			t.Errorf("%s: %s", path, difference)
		}
	}

	for path := range deliberate {
		if differences[path] == "" {
			t.Errorf("%s is listed as a deliberate difference, and does not differ", path)
		}
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestTheDocumentListsEachDifferenceOfTheSchema looks for each deliberate difference in the document. An attribute may
// be named with or without its resource, and by a pattern such as cpu_*. For defaults, the document has the resources.
func TestTheDocumentListsEachDifferenceOfTheSchema(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/develop/terraform-provider.md")
	check.Error(t, err, "")
	_, section, _ := strings.Cut(string(content), "\n## Differences from the released provider\n")
	section, _, _ = strings.Cut(section, "\nBehaviour:\n")

	var names []string
	for _, found := range quoted.FindAllStringSubmatch(section, -1) {
		names = append(names, strings.TrimSuffix(found[1], "(s)"), strings.ReplaceAll(found[1], "(s)", "s"))
	}

	for path, why := range deliberate {
		name := path[strings.Index(path, " ")+1:]
		if why == hasDefault {
			name, _, _ = strings.Cut(name, ".")
		}

		wanted := name[strings.LastIndex(name, ".")+1:]
		isListed := slices.ContainsFunc(names, func(listed string) bool {
			fits, _ := filepath.Match(listed[strings.LastIndex(listed, ".")+1:], wanted)
			return fits
		})
		check.Equal(t, path+" is in the document", isListed, true)
	}
}

func toEntries(sets map[string]released) released {
	out := released{}
	for name, set := range sets {
		out[name] = entry{Block: set}
	}

	return out
}

func differ(path string, want, got released, differences map[string]string) {
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			differences[path+name] = "is missing"
			continue
		case w.Block != nil:
			differ(path+name+".", w.Block, g.Block, differences)
		}

		w.Block, g.Block = nil, nil
		if !reflect.DeepEqual(w, g) {
			differences[path+name] = fmt.Sprintf("is %+v, and %+v in the released provider", g, w)
		}
	}

	for name := range got {
		if _, ok := want[name]; !ok {
			differences[path+name] = "is not in the released provider"
		}
	}
}

// dump reads the output of `terraform providers schema -json`.
func dump(t *testing.T, file string) map[string]released {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	type object struct {
		Block dumpedBlock `json:"block"`
	}
	var all struct {
		Providers map[string]struct {
			Provider    object            `json:"provider"`
			Resources   map[string]object `json:"resource_schemas"`
			DataSources map[string]object `json:"data_source_schemas"`
		} `json:"provider_schemas"`
	}
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}

	out := map[string]released{}

	for name, provider := range all.Providers {
		if !strings.HasSuffix(name, "/ovirt/ovirt") {
			continue
		}

		out["provider"] = provider.Provider.Block.entries()
		for name, resource := range provider.Resources {
			out["resource "+name] = resource.Block.entries()
		}

		for name, data := range provider.DataSources {
			out["data "+name] = data.Block.entries()
		}
	}

	if len(out) == 0 {
		t.Fatalf("%s does not describe ovirt/ovirt", file)
	}

	return out
}

type dumpedBlock struct {
	Attributes map[string]struct {
		Type                                    any
		Required, Optional, Computed, Sensitive bool
	} `json:"attributes"`
	Blocks map[string]struct {
		Nesting string      `json:"nesting_mode"`
		Min     int         `json:"min_items"`
		Max     int         `json:"max_items"`
		Block   dumpedBlock `json:"block"`
	} `json:"block_types"`
}

func (b dumpedBlock) entries() released {
	out := released{}
	for name, a := range b.Attributes {
		out[name] = entry{Type: a.Type, Mode: mode(a.Required, a.Optional, a.Computed), Sensitive: a.Sensitive}
	}

	for name, block := range b.Blocks {
		out[name] = entry{Nesting: block.Nesting, Min: block.Min, Max: block.Max, Block: block.Block.entries()}
	}

	return out
}

func TestEveryAttributeIsDescribed(t *testing.T) {
	provider := &ovirtProvider{}
	var names []string

	for _, make := range provider.Resources(t.Context()) {
		var name resource.MetadataResponse
		var made resource.SchemaResponse
		r := make()
		r.Metadata(t.Context(), resource.MetadataRequest{}, &name)
		r.Schema(t.Context(), resource.SchemaRequest{}, &made)
		if diags := made.Schema.ValidateImplementation(t.Context()); diags.HasError() {
			t.Errorf("%s: %v", name.TypeName, diags)
		}

		for attribute, a := range made.Schema.Attributes {
			if a.GetMarkdownDescription() == "" {
				t.Errorf("%s.%s has no description", name.TypeName, attribute)
			}
		}

		names = append(names, name.TypeName)
	}

	if slices.Sort(names); len(names) != 27 || len(slices.Compact(names)) != 27 {
		t.Errorf("there are %d resources: %q", len(names), names)
	}
}
