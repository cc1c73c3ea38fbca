package tfprovider_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// This file tests features of Terraform 1.14 by direct calls, so that each run of the tests has them, whatever the
// executor. executors_acceptance_test.go tests them with an executor that has them.

// client is the client side of the protocol.
type client struct {
	tfprotov5.ProviderServer
	schemas *tfprotov5.GetProviderSchemaResponse
}

// configured returns a client of a provider that is configured for an engine.
func configured(t *testing.T, s *site) client {
	t.Helper()
	server := providerserver.NewProtocol5(tfprovider.New(tfprovider.Options{}))()
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	must(t, err)
	c := client{server, schemas}

	got, err := server.ConfigureProvider(t.Context(), &tfprotov5.ConfigureProviderRequest{
		Config: c.config(t, schemas.Provider, map[string]any{
			"url": s.sim.URL() + "/api", "username": s.sim.Username(), "password": s.sim.Password(),
			"tls_ca_bundle": string(s.sim.CA()),
		}),
	})
	must(t, err)
	check.Length(t, "the problems", got.Diagnostics, 0)

	return c
}

// config returns a configuration with these attributes. All others are null.
func (c client) config(t *testing.T, schema *tfprotov5.Schema, set map[string]any) *tfprotov5.DynamicValue {
	t.Helper()
	object, isObject := schema.ValueType().(tftypes.Object)
	check.Equal(t, "the schema is an object", isObject, true)

	values := map[string]tftypes.Value{}
	for name, kind := range object.AttributeTypes {
		values[name] = tftypes.NewValue(kind, set[name])
	}

	out, err := tfprotov5.NewDynamicValue(object, tftypes.NewValue(object, values))
	must(t, err)

	return &out
}

// invoke invokes an action, and returns the problems.
func (c client) invoke(t *testing.T, action string, set map[string]any) []*tfprotov5.Diagnostic {
	t.Helper()
	server, ok := c.ProviderServer.(tfprotov5.ActionServer)
	check.Equal(t, "there are actions", ok, true)
	config := c.config(t, c.schemas.ActionSchemas[action].Schema, set)

	valid, err := server.ValidateActionConfig(t.Context(),
		&tfprotov5.ValidateActionConfigRequest{ActionType: action, Config: config})
	must(t, err)
	if len(valid.Diagnostics) > 0 {
		return valid.Diagnostics
	}

	stream, err := server.InvokeAction(t.Context(), &tfprotov5.InvokeActionRequest{ActionType: action, Config: config})
	must(t, err)

	for event := range stream.Events {
		if done, ok := event.Type.(tfprotov5.CompletedInvokeActionEventType); ok {
			return done.Diagnostics
		}
	}

	t.Fatalf("%s did not complete", action)

	return nil
}

func TestActionsOfVMs(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM)
	w.apply()
	vm := s.vm(t, "a").ID
	c := configured(t, s)
	does := func(action string, set map[string]any) {
		t.Helper()
		set["vm_id"] = vm.String()
		check.Length(t, "the problems of "+action, c.invoke(t, action, set), 0)
	}

	does("ovirt_vm_start", map[string]any{})
	check.Equal(t, "the status", s.vm(t, "a").Status, engine.VMUp)
	does("ovirt_vm_start", map[string]any{}) // a running VM stays as it is
	does("ovirt_vm_reboot", map[string]any{})
	wait.Until(t, "the VM is up again", func() bool { return s.vm(t, "a").Status == engine.VMUp })

	from := engine.RefID(s.vm(t, "a").Host)
	does("ovirt_vm_migrate", map[string]any{})
	check.Equal(t, "it is on another host", engine.RefID(s.vm(t, "a").Host) != from, true)
	does("ovirt_vm_migrate", map[string]any{"host_id": from.String()})
	check.Equal(t, "the host", engine.RefID(s.vm(t, "a").Host), from)
	does("ovirt_vm_migrate", map[string]any{"host_id": from.String()}) // the VM is already there

	must(t, s.sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/snapshots$", Action: "cut-after", Count: 1}))
	does("ovirt_vm_snapshot", map[string]any{"description": "nightly", "memory": true})
	all, err := s.client.ListSnapshots(t.Context(), vm)
	must(t, err)
	check.Length(t, "the snapshots", all, 1)
	check.Equal(t, "its memory", *all[0].Memory, true)

	does("ovirt_vm_stop", map[string]any{"power_off": true})
	check.Equal(t, "the status", s.vm(t, "a").Status, engine.VMDown)
	does("ovirt_vm_stop", map[string]any{})
}

// migratesUntil migrates a VM, calls interrupt during the migration, and returns the problems of the action.
func migratesUntil(t *testing.T, interrupt func(s *site, vm engine.ID)) []*tfprotov5.Diagnostic {
	t.Helper()
	slow := quick
	slow.Migrate = time.Minute
	s := newSite(t, slow)
	w := newWorkspace(t, s)
	vm := startPlainVM(t, s, w)
	wait.Until(t, "the VM is up", func() bool { return s.vm(t, "a").Status == engine.VMUp })

	c, problems := configured(t, s), make(chan []*tfprotov5.Diagnostic, 1)
	go func() { problems <- c.invoke(t, "ovirt_vm_migrate", map[string]any{"vm_id": vm.String()}) }()

	wait.Until(t, "the VM migrates", func() bool { return s.vm(t, "a").Status == engine.VMMigrating })
	interrupt(s, vm)

	return <-problems
}

func TestAMigrationOfAVMThatGoesDownFails(t *testing.T) {
	t.Parallel()
	problems := migratesUntil(t, func(s *site, vm engine.ID) { must(t, s.client.StopVM(t.Context(), vm, false)) })
	check.Length(t, "the problems", problems, 1)
	check.Contains(t, "the problem", problems[0].Detail, "is down")
}

// TestAMigrationThatTheEngineSendsBackFails cancels a migration after the action has seen it.
func TestAMigrationThatTheEngineSendsBackFails(t *testing.T) {
	t.Parallel()
	problems := migratesUntil(t, func(s *site, vm engine.ID) {
		asked := s.count(http.MethodGet, "/vms/"+vm.String())
		wait.Until(t, "the action has seen it", func() bool {
			return s.count(http.MethodGet, "/vms/"+vm.String()) > asked
		})
		s.request(t, http.MethodPost, "/vms/"+vm.String()+"/cancelmigration", "<action/>")
	})
	check.Length(t, "the problems", problems, 1)
	check.Contains(t, "the problem", problems[0].Detail, "was on its way, and is up on host")
}

func TestAVMThatIsDownDoesNotMigrate(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	newWorkspace(t, s).config(plainVM).apply()
	wait.Until(t, "the disks are copied", func() bool { return s.vm(t, "a").Status == engine.VMDown })

	problems := configured(t, s).invoke(t, "ovirt_vm_migrate", map[string]any{"vm_id": s.vm(t, "a").ID.String()})
	check.Length(t, "the problems", problems, 1)
	check.Contains(t, "the problem", problems[0].Detail, "is down")
	check.Equal(t, "the requests to migrate", s.count(http.MethodPost, "/migrate"), 0)
}

func TestAnActionEndsAfterItsTimeout(t *testing.T) {
	t.Parallel()
	slow := quick
	slow.PowerUp = time.Minute
	s := newSite(t, slow)
	newWorkspace(t, s).config(plainVM).apply()
	c, vm := configured(t, s), s.vm(t, "a").ID.String()

	problems := c.invoke(t, "ovirt_vm_start", map[string]any{"vm_id": vm, "timeout": "2s"})
	check.Length(t, "the problems", problems, 1)
	check.Contains(t, "the problem", problems[0].Detail, "gave up waiting")

	problems = c.invoke(t, "ovirt_vm_start", map[string]any{"vm_id": vm, "timeout": "soon"})
	check.Length(t, "the problems", problems, 1)
	check.Equal(t, "the path", problems[0].Attribute.String(), `AttributeName("timeout")`)
}

func TestASnapshotThatIsNotReadyInTimeIsAWarning(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	newWorkspace(t, s).config(plainVM).apply()
	wait.Until(t, "the disks are copied", func() bool { return s.vm(t, "a").Status == engine.VMDown })
	must(t, s.sim.Inject(ovirtsim.Fault{
		Method: http.MethodGet, Path: "/snapshots/[^/]+$", Status: http.StatusServiceUnavailable,
	}))

	problems := configured(t, s).invoke(t, "ovirt_vm_snapshot", map[string]any{
		"vm_id": s.vm(t, "a").ID.String(), "description": "nightly", "timeout": "3s",
	})
	check.Length(t, "the problems", problems, 1)
	check.Equal(t, "the problem is a warning", problems[0].Severity, tfprotov5.DiagnosticSeverityWarning)
}

func TestAnActionOfAVMThatIsGoneFails(t *testing.T) {
	t.Parallel()
	c := configured(t, newSite(t, quick))
	gone := "00000000-0000-4000-8000-000000000001"

	for name := range c.schemas.ActionSchemas {
		problems := c.invoke(t, name, map[string]any{"vm_id": gone, "description": map[string]any{
			"ovirt_vm_snapshot": "x",
		}[name]})
		check.Length(t, "the problems of "+name, problems, 1)
	}

	problems := c.invoke(t, "ovirt_vm_stop", map[string]any{"vm_id": "a"})
	check.Length(t, "the problems", problems, 1)
	check.Equal(t, "the path", problems[0].Attribute.String(), `AttributeName("vm_id")`)
}

// list lists the objects of a resource: their names and, if requested, the whole resources.
func (c client) list(
	t *testing.T, typeName string, set map[string]any, limit int64,
) map[string]map[string]tftypes.Value {
	t.Helper()
	server, ok := c.ProviderServer.(tfprotov5.ListResourceServer)
	check.Equal(t, "there are lists", ok, true)
	stream, err := server.ListResource(t.Context(), &tfprotov5.ListResourceRequest{
		TypeName: typeName, Config: c.config(t, c.schemas.ListResourceSchemas[typeName], set),
		IncludeResource: true, Limit: limit,
	})
	must(t, err)
	out := map[string]map[string]tftypes.Value{}

	for result := range stream.Results {
		check.Length(t, "the problems with "+result.DisplayName, result.Diagnostics, 0)
		resource, err := result.Resource.Unmarshal(c.schemas.ResourceSchemas[typeName].ValueType())
		must(t, err)

		attributes := map[string]tftypes.Value{}
		must(t, resource.As(&attributes))
		check.Equal(t, "there is an identity", result.Identity != nil, true)
		out[result.DisplayName] = attributes
	}

	return out
}

func TestListsHaveWhatAnImportWouldRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM + disk + "resource \"ovirt_tag\" \"t\" { name = \"blue\" }\n")
	w.apply()
	c := configured(t, s)

	vms := c.list(t, "ovirt_vm", nil, 0)
	var template string
	must(t, vms["a"]["template_id"].As(&template))
	check.Equal(t, "the template of the VM", template, s.ids["$template"])

	check.Equal(t, "the disks", slices.Sorted(maps.Keys(c.list(t, "ovirt_disk", nil, 0)))[0], "data <1> & more")
	check.Equal(t, "how many", len(c.list(t, "ovirt_disk", nil, 0)), 1) // without the disks of templates and their VMs
	check.Equal(t, "the tags", len(c.list(t, "ovirt_tag", nil, 0)), 1)  // without the root of all tags

	templates := c.list(t, "ovirt_template", nil, 0)
	_, hasBlank := templates["Blank"]
	check.Equal(t, "Blank is a template", hasBlank, false)
	check.Equal(t, "there are templates", len(templates) > 0, true)

	check.Equal(t, "one by its name", len(c.list(t, "ovirt_vm", map[string]any{"name": "a"}, 0)), 1)
	check.Equal(t, "none of that name", len(c.list(t, "ovirt_vm", map[string]any{"name": "b"}, 0)), 0)
	check.Equal(t, "no more than the limit", len(c.list(t, "ovirt_template", nil, 1)), 1)
}
