package tfprovider

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// owned is an engine with VMs, disks and affinity groups of several owners.
type owned struct {
	t       *testing.T
	client  *engine.Client
	cluster engine.ID
	domain  engine.ID
	server  *restricted
}

var (
	theOwner = ownermark.Owner{Namespace: "ns", Name: "m", UID: "u"}
	moved    = ownermark.Owner{Namespace: "ns", Name: "m", UID: "of-before-the-move"}
	sister   = ownermark.Owner{Namespace: "ns", Name: "other", UID: "v"}
	another  = ownermark.Owner{Namespace: "prod", Name: "m", UID: "u"}
)

func newOwned(t *testing.T, mark string) *owned {
	t.Helper()
	sim, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	client, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")
	dc, err := client.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	cluster, err := client.FindCluster(t.Context(), dc, "Default")
	check.Error(t, err, "")
	domain, err := client.FindStorageDomain(t.Context(), dc, "olvm-data")
	check.Error(t, err, "")

	served, ok := New(Options{Owner: mark}).(*ovirtProvider)
	check.Equal(t, "it is the provider", ok, true)
	served.session.Store(client)

	return &owned{
		t: t, client: client, cluster: cluster.ID, domain: domain.ID,
		server: newRestricted(providerserver.NewProtocol5(served)(), served, Options{Owner: mark}),
	}
}

func (o *owned) vm(name, comment string) engine.ID {
	o.t.Helper()
	vm, err := o.client.CreateVM(o.t.Context(), &engine.VM{
		Name:     name,
		Comment:  &comment,
		Cluster:  engine.NewRef(o.cluster),
		Template: engine.NewRef(engine.BlankTemplateID),
	}, nil)
	check.Error(o.t, err, "")

	return vm.ID
}

func (o *owned) disk(alias, owner string) engine.ID {
	o.t.Helper()
	disk, err := o.client.CreateDiskOnce(o.t.Context(), owner, &engine.Disk{
		Alias: &alias, Format: engine.FormatCow, ProvisionedSize: 1 << 30,
		StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: o.domain}}},
	}, nil, nil)
	check.Error(o.t, err, "")
	check.Error(o.t, o.client.WaitDisk(o.t.Context(), disk.ID, nil), "")

	return disk.ID
}

func (o *owned) group(name, description string) engine.ID {
	o.t.Helper()
	group, err := o.client.CreateAffinityGroup(o.t.Context(), o.cluster, &engine.AffinityGroup{
		Name: name, Description: &description,
	})
	check.Error(o.t, err, "")

	return group.ID
}

func (o *owned) attach(vm, disk engine.ID) {
	o.t.Helper()
	no := false
	_, err := o.client.AttachDisk(o.t.Context(), vm, &engine.DiskAttachment{
		Active: &no, Bootable: &no, Interface: "virtio_scsi", Disk: &engine.Disk{ID: disk},
	})
	check.Error(o.t, err, "")
}

// state returns a state of a resource with only these texts.
func (o *owned) state(typeName string, texts map[string]engine.ID) *tfprotov5.DynamicValue {
	o.t.Helper()
	schema, err := o.server.getSchema(o.t.Context(), typeName)
	check.Error(o.t, err, "")

	kind, ok := schema.ValueType().(tftypes.Object)
	check.Equal(o.t, "it is an object", ok, true)

	values := map[string]tftypes.Value{}

	for name, attribute := range kind.AttributeTypes {
		values[name] = tftypes.NewValue(attribute, nil)
		if id, given := texts[name]; given {
			values[name] = tftypes.NewValue(attribute, id.String())
		}
	}

	out, err := tfprotov5.NewDynamicValue(kind, tftypes.NewValue(kind, values))
	check.Error(o.t, err, "")

	return &out
}

// touch checks whether a run may access the objects in a state. If allowed is false, it tries to read and change them.
func (o *owned) touch(what, typeName string, ids map[string]engine.ID, allowed bool) {
	o.t.Helper()
	stored := o.state(typeName, ids)

	check.Equal(
		o.t, what+": it is refused", refused(o.server.checkOwnership(o.t.Context(), typeName, stored, nil)), !allowed,
	)

	if allowed {
		return
	}

	read, err := o.server.ReadResource(o.t.Context(), &tfprotov5.ReadResourceRequest{
		TypeName: typeName, CurrentState: stored,
	})
	check.Error(o.t, err, "")
	check.Equal(o.t, what+": the read is refused", refused(read.Diagnostics), true)

	changed, err := o.server.ApplyResourceChange(o.t.Context(), &tfprotov5.ApplyResourceChangeRequest{
		TypeName: typeName, PriorState: stored, PlannedState: o.state(typeName, nil),
	})
	check.Error(o.t, err, "")
	check.Equal(o.t, what+": the change is refused", refused(changed.Diagnostics), true)
}

func refused(problems []*tfprotov5.Diagnostic) bool {
	return slices.ContainsFunc(problems, func(problem *tfprotov5.Diagnostic) bool {
		return problem.Summary == "The run may not touch it" &&
			strings.Contains(problem.Detail, "does not have the mark of this run's owner")
	})
}

// TestARunTouchesOnlyWhatIsItsOwners has states with IDs of other owners. Anyone who can write a Secret can create such
// a state.
func TestARunTouchesOnlyWhatIsItsOwners(t *testing.T) {
	o := newOwned(t, theOwner.Comment())
	own, foreign := o.vm("own", theOwner.Comment()), o.vm("foreign", another.Comment())

	for what, test := range map[string]struct {
		vm      engine.ID
		allowed bool
	}{
		"a VM of its own":                      {own, true},
		"one from before a move":               {o.vm("moved", moved.Comment()), true},
		"one that is gone":                     {"6e0f7a4c-0000-4000-8000-000000000000", true},
		"another machine's":                    {o.vm("sister", sister.Comment()), false},
		"one of another namespace":             {foreign, false},
		"one without a mark":                   {o.vm("payroll", "the payroll database"), false},
		"one without a comment":                {o.vm("plain", ""), false},
		"one of a pool that nobody has":        {o.vm("pooled", theOwner.InventoryComment()), false},
		"one whose comment has more than that": {o.vm("more", theOwner.Comment()+" and more"), false},
	} {
		o.touch(what, "ovirt_vm", map[string]engine.ID{"id": test.vm}, test.allowed)
		o.touch(what+", by its NIC", "ovirt_nic", map[string]engine.ID{"id": test.vm, "vm_id": test.vm}, test.allowed)
		o.touch(what+", by its start", "ovirt_vm_start", map[string]engine.ID{"vm_id": test.vm}, test.allowed)
		o.touch(what+", taken over", "ovirt_adopted_vm", map[string]engine.ID{"vm_id": test.vm}, test.allowed)
	}

	attached, foreignAttached := o.disk("attached", ""), o.disk("another-attached", "")
	o.attach(own, attached)
	o.attach(foreign, foreignAttached)
	o.server.owner.stateVMs = []engine.ID{foreign, own}

	for what, test := range map[string]struct {
		disk    engine.ID
		allowed bool
	}{
		"a disk that was made for it":            {o.disk("made", theOwner.Comment()), true},
		"one from before a move":                 {o.disk("made-before", moved.Comment()), true},
		"one that is attached to its VM":         {attached, true},
		"one that is gone":                       {"6e0f7a4c-0000-4000-8000-000000000000", true},
		"one of others":                          {o.disk("another", another.Comment()), false},
		"one without a mark":                     {o.disk("loose", ""), false},
		"one that is attached to a VM of others": {foreignAttached, false},
	} {
		o.touch(what, "ovirt_disk", map[string]engine.ID{"id": test.disk}, test.allowed)
		o.touch(what+", attached", "ovirt_disk_attachment", map[string]engine.ID{"vm_id": own, "disk_id": test.disk},
			test.allowed)
	}

	for what, test := range map[string]struct {
		group   engine.ID
		allowed bool
	}{
		"a group of its own":     {o.group("own", theOwner.AppendTo("apart")), true},
		"one from before a move": {o.group("moved", moved.AppendTo("")), true},
		"one that is gone":       {"6e0f7a4c-0000-4000-8000-000000000000", true},
		"one of others":          {o.group("another", another.AppendTo("")), false},
		"one without a mark":     {o.group("by-hand", "made by hand"), false},
	} {
		o.touch(
			what, "ovirt_affinity_group", map[string]engine.ID{"id": test.group, "cluster_id": o.cluster}, test.allowed,
		)
	}
}

// TestAPlannedChangeIsCheckedToo plans to attach another owner's disk to the owner's VM.
func TestAPlannedChangeIsCheckedToo(t *testing.T) {
	o := newOwned(t, theOwner.Comment())
	own, foreign := o.vm("own", theOwner.Comment()), o.disk("another", another.Comment())
	planned := o.state("ovirt_disk_attachment", map[string]engine.ID{"vm_id": own, "disk_id": foreign})

	problem := o.server.checkOwnership(t.Context(), "ovirt_disk_attachment", nil, planned)
	check.Equal(t, "it is refused", refused(problem), true)

	// Objects the run itself has created belong to its owner without another request.
	o.server.owner.recordCreated(mustSchema(t, o, "ovirt_disk"), "ovirt_disk", o.state("ovirt_disk",
		map[string]engine.ID{"id": foreign}))
	problem = o.server.checkOwnership(t.Context(), "ovirt_disk_attachment", nil, planned)
	check.Equal(t, "it is refused although the run has made it", refused(problem), false)
}

// TestAPlannedMarkIsTheOwners plans objects with another owner's mark.
func TestAPlannedMarkIsTheOwners(t *testing.T) {
	o := newOwned(t, theOwner.Comment())

	for what, test := range map[string]struct {
		typeName, attribute, text string
		allowed                   bool
	}{
		"a VM of its own":        {"ovirt_vm", "comment", theOwner.Comment(), true},
		"a VM of another":        {"ovirt_vm", "comment", another.Comment(), false},
		"a VM of a pool":         {"ovirt_vm", "comment", theOwner.InventoryComment(), false},
		"a VM without a mark":    {"ovirt_vm", "comment", "", false},
		"a group of its own":     {"ovirt_affinity_group", "description", theOwner.AppendTo("apart"), true},
		"a group of another":     {"ovirt_affinity_group", "description", another.AppendTo("apart"), false},
		"a disk, which has none": {"ovirt_disk", "alias", "data", true},
		"a NIC, which has none":  {"ovirt_nic", "name", "nic1", true},
	} {
		planned := o.state(test.typeName, map[string]engine.ID{test.attribute: engine.ID(test.text)})
		problem := o.server.checkOwnership(t.Context(), test.typeName, nil, planned)
		check.Equal(t, what+" is allowed", problem == nil, test.allowed)
	}

	problem := o.server.checkOwnership(
		t.Context(), "ovirt_template", o.state("ovirt_template", map[string]engine.ID{"id": "x"}), nil,
	)
	check.Equal(t, "a stored template is refused", problem != nil, true)
}

func mustSchema(t *testing.T, o *owned, typeName string) *tfprotov5.Schema {
	t.Helper()
	schema, err := o.server.getSchema(t.Context(), typeName)
	check.Error(t, err, "")

	return schema
}

// TestAVMOfAPoolIsThePools has the run of an OLVMInventoryVM. A machine may have claimed the VM by now.
func TestAVMOfAPoolIsThePools(t *testing.T) {
	o := newOwned(t, theOwner.InventoryComment())

	for what, test := range map[string]struct {
		comment string
		allowed bool
	}{
		"its own":                             {theOwner.InventoryComment(), true},
		"claimed by a machine":                {sister.Comment(), true},
		"of another object of the pool":       {sister.InventoryComment(), false},
		"claimed in another namespace":        {another.Comment(), false},
		"of a pool of another namespace":      {another.InventoryComment(), false},
		"whose comment somebody else changed": {"mine", false},
	} {
		o.touch(what, "ovirt_vm", map[string]engine.ID{"id": o.vm(strings.ReplaceAll(what, " ", "-"), test.comment)},
			test.allowed)
	}
}

// TestAPersonMayTouchEverything has a run of a user with the user's own credentials.
func TestAPersonMayTouchEverything(t *testing.T) {
	for _, mark := range []string{"", "capolvm image 5f0c", "somebody"} {
		o := newOwned(t, mark)
		o.touch("a VM of others", "ovirt_vm", map[string]engine.ID{"id": o.vm("vm", another.Comment())}, true)
	}
}
