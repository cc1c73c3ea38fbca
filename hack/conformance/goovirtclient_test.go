package conformance

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	ovirtclientlog "github.com/ovirt/go-ovirt-client-log/v3"
	ovirt "github.com/ovirt/go-ovirt-client/v3"
)

const gib = 1 << 30

// connect logs in like the provider, with the documented slash at the end of the URL.
func connect(t *testing.T) ovirt.ClientWithLegacySupport {
	t.Helper()
	client, err := ovirt.New(sim.URL+"/api/", sim.Username, sim.Password, ovirt.TLS().CACertsFromMemory(sim.ca),
		ovirtclientlog.NewTestLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}

	return client
}

// once makes a call fail at once instead of after 17 minutes.
var once = []ovirt.RetryStrategy{ovirt.MaxTries(1), ovirt.AutoRetry()}

// must returns a function that fails the test on an error, so most calls need no branch.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}

		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site contains the IDs that every test needs.
type site struct {
	cluster  ovirt.ClusterID
	template ovirt.TemplateID
	domain   ovirt.StorageDomainID
	profile  ovirt.VNICProfileID
}

func find(t *testing.T, client ovirt.Client) site {
	t.Helper()

	return site{
		cluster:  must[[]ovirt.Cluster](t)(client.ListClusters())[0].ID(),
		template: must[ovirt.Template](t)(client.GetTemplateByName("ol9-k8s")).ID(),
		domain:   must[ovirt.StorageDomainList](t)(client.ListStorageDomains())[0].ID(),
		profile:  must[[]ovirt.VNICProfile](t)(client.ListVNICProfiles())[0].ID(),
	}
}

func newVM(t *testing.T, client ovirt.Client, name string, params ovirt.OptionalVMParameters) ovirt.VM {
	t.Helper()
	at := find(t, client)
	vm := must[ovirt.VM](t)(client.CreateVM(at.cluster, at.template, name, params))
	t.Cleanup(func() {
		_ = client.StopVM(vm.ID(), true, once...)
		_, _ = client.WaitForVMStatus(vm.ID(), ovirt.VMStatusDown)
		_ = client.RemoveVM(vm.ID(), once...)
	})
	must[ovirt.VM](t)(client.WaitForVMStatus(vm.ID(), ovirt.VMStatusDown))

	return vm
}

// conflicts verifies that the engine gave the answer that makes the client repeat a call. After the client gives up, it
// reports only this.
func conflicts(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "409 Conflict") || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, not a conflict because of %q", err, text)
	}
}

func wants(t *testing.T, err error, code ovirt.ErrorCode) {
	t.Helper()
	if err == nil || !ovirt.HasErrorCode(err, code) {
		t.Errorf("got %v, not the code %s", err, code)
	}
}

func TestLoginsOfTheClientSucceedAndFailAsWithAnEngine(t *testing.T) {
	t.Parallel()
	client := connect(t)
	check(t, client.Test())

	for _, feature := range []ovirt.Feature{ovirt.FeatureAutoPinning, ovirt.FeaturePlacementPolicy} {
		if !must[bool](t)(client.SupportsFeature(feature)) {
			t.Errorf("the engine lacks %s", feature)
		}
	}

	log := ovirtclientlog.NewTestLogger(t)
	_, err := ovirt.New(sim.URL+"/api", "nobody@internal", "wrong", ovirt.TLS().CACertsFromMemory(sim.ca), log, nil)
	wants(t, err, ovirt.EAccessDenied)
	_, err = ovirt.New(sim.URL+"/api", sim.Username, sim.Password, ovirt.TLS().CACertsFromSystem(), log, nil)
	wants(t, err, ovirt.ETLSError)
}

func TestEveryListOfTheClientIsFilled(t *testing.T) {
	t.Parallel()

	client := connect(t)
	for name, length := range map[string]int{
		"clusters":       len(must[[]ovirt.Cluster](t)(client.ListClusters())),
		"hosts":          len(must[[]ovirt.Host](t)(client.ListHosts())),
		"data centers":   len(must[[]ovirt.Datacenter](t)(client.ListDatacenters())),
		"networks":       len(must[[]ovirt.Network](t)(client.ListNetworks())),
		"vNIC profiles":  len(must[[]ovirt.VNICProfile](t)(client.ListVNICProfiles())),
		"domains":        len(must[ovirt.StorageDomainList](t)(client.ListStorageDomains())),
		"templates":      len(must[[]ovirt.Template](t)(client.ListTemplates())),
		"instance types": len(must[[]ovirt.InstanceType](t)(client.ListInstanceTypes())),
	} {
		if length == 0 {
			t.Errorf("there are no %s", name)
		}
	}

	if blank := must[ovirt.Template](t)(client.GetBlankTemplate()); blank.ID() != ovirt.DefaultBlankTemplateID {
		t.Errorf("the blank template has the ID %s", blank.ID())
	}
}

func TestAVMHasAllThatItWasMadeWith(t *testing.T) {
	t.Parallel()
	client := connect(t)
	host := must[[]ovirt.Host](t)(client.ListHosts())[0].ID()
	nic := ovirt.NewNicConfiguration("enp1s0", ovirt.IP{
		Version: ovirt.IPVERSION_V4,
		Address: "192.0.2.10",
		Gateway: "192.0.2.1",
		Netmask: "255.255.255.0",
	})
	script := "#cloud-config\nruncmd:\n- echo done\n"
	made := newVM(
		t, client, "all-options",
		ovirt.NewCreateVMParams().MustWithComment("a comment").MustWithDescription("a description").
			MustWithCPU(ovirt.NewVMCPUParams().MustWithMode(ovirt.CPUModeHostPassthrough).
				MustWithTopo(ovirt.NewVMCPUTopoParams().MustWithCores(2).MustWithThreads(1).MustWithSockets(2))).
			MustWithMemory(2*gib).
			WithMemoryPolicy(ovirt.NewMemoryPolicyParameters().MustWithGuaranteed(gib).MustWithMax(4*gib).
				MustWithBallooning(false)).
			MustWithHugePages(ovirt.VMHugePages2M).
			WithPlacementPolicy(ovirt.NewVMPlacementPolicyParameters().MustWithAffinity(ovirt.VMAffinityPinned).
				MustWithHostIDs([]ovirt.HostID{host})).
			MustWithVMType(ovirt.VMTypeHighPerformance).WithOS(ovirt.NewVMOSParameters().MustWithType("rhel_9x64")).
			WithSerialConsole(true).WithSoundcardEnabled(false).
			MustWithInitialization(ovirt.NewInitialization(script, "node-1").WithNicConfiguration(nic)),
	)
	vm := must[ovirt.VM](t)(client.GetVM(made.ID()))
	policy, _ := vm.PlacementPolicy()

	topology := vm.CPU().Topo()
	for what, good := range map[string]bool{
		"comment":     vm.Comment() == "a comment",
		"description": vm.Description() == "a description",
		"topology":    topology.Cores() == 2 && topology.Threads() == 1 && topology.Sockets() == 2,
		"CPU mode":    *vm.CPU().Mode() == ovirt.CPUModeHostPassthrough,
		"memory": vm.Memory() == 2*gib && *vm.MemoryPolicy().Guaranteed() == gib &&
			*vm.MemoryPolicy().Max() == 4*gib && !vm.MemoryPolicy().Ballooning(),
		"huge pages": *vm.HugePages() == ovirt.VMHugePages2M,
		"placement": *policy.Affinity() == ovirt.VMAffinityPinned && len(policy.HostIDs()) == 1 &&
			policy.HostIDs()[0] == host,
		"type":           vm.VMType() == ovirt.VMTypeHighPerformance,
		"OS":             vm.OS().Type() == "rhel_9x64",
		"initialization": vm.Initialization().CustomScript() == script && vm.Initialization().HostName() == "node-1",
		"NIC": vm.Initialization().NicConfiguration().Name() == "enp1s0" &&
			vm.Initialization().NicConfiguration().IP().Address == "192.0.2.10",
		"template": vm.TemplateID() != ovirt.DefaultBlankTemplateID,
	} {
		if !good {
			t.Errorf("the VM has another %s", what)
		}
	}

	check(t, client.AutoOptimizeVMCPUPinningSettings(vm.ID(), true))
	err := client.AutoOptimizeVMCPUPinningSettings(vm.ID(), false, once...)
	if err == nil || !strings.Contains(err.Error(), "CPU Pinning policy is not supported") {
		t.Errorf("turning the pinning off, which no action of the engine can: %v", err)
	}

	for _, console := range must[[]ovirt.VMGraphicsConsole](t)(client.ListVMGraphicsConsoles(vm.ID())) {
		check(t, client.RemoveVMGraphicsConsole(vm.ID(), console.ID()))
	}

	if left := must[[]ovirt.VMGraphicsConsole](t)(client.ListVMGraphicsConsoles(vm.ID())); len(left) > 0 {
		t.Errorf("%d consoles are left", len(left))
	}

	updated := must[ovirt.VM](
		t,
	)(
		client.UpdateVM(vm.ID(), ovirt.UpdateVMParams().MustWithName("all-options-2").MustWithComment("another")),
	)
	if updated.Name() != "all-options-2" || updated.Comment() != "another" || updated.Memory() != 2*gib {
		t.Error("the update changed the wrong things")
	}
}

func TestAVMStartsIsFoundAndEnds(t *testing.T) {
	t.Parallel()
	client := connect(t)
	vm := newVM(t, client, "runs", nil)
	tag := must[ovirt.Tag](t)(client.CreateTag("runs-tag", ovirt.NewCreateTagParams().MustWithDescription("of a test")))
	check(t, client.AddTagToVM(vm.ID(), tag.ID()))
	nic := must[ovirt.NIC](t)(client.CreateNIC(vm.ID(), find(t, client).profile, "nic1", nil))
	check(t, client.StartVM(vm.ID()))
	must[ovirt.VM](t)(client.WaitForVMStatus(vm.ID(), ovirt.VMStatusUp))
	conflicts(t, client.StartVM(vm.ID(), once...), "because the VM is in Up status")
	conflicts(t, client.RemoveVM(vm.ID(), once...), "VM is running")

	for what, search := range map[string]ovirt.VMSearchParameters{
		"name": ovirt.VMSearchParams().WithName("runs"),
		"tag":  ovirt.VMSearchParams().WithTag("runs-tag"),
	} {
		if found := must[[]ovirt.VM](t)(client.SearchVMs(search)); len(found) != 1 || found[0].ID() != vm.ID() {
			t.Errorf("the search by %s found %v", what, found)
		}
	}

	// The client puts statuses into parentheses. With them, an engine finds nothing.
	found := must[[]ovirt.VM](
		t,
	)(
		client.SearchVMs(ovirt.VMSearchParams().WithName("runs").WithStatuses(ovirt.VMStatusList{ovirt.VMStatusUp})),
	)
	if len(found) > 0 {
		t.Error("a search with parentheses found a VM")
	}

	// No guest runs here, so no guest reports addresses. Without a limit, the client would ask again and again.
	ips, err := client.GetVMNonLocalIPAddresses(vm.ID(), once...)
	if len(ips) > 0 || err != nil && !strings.Contains(err.Error(), "maximum retries") {
		t.Errorf("a VM without an agent reports %v, %v", ips, err)
	}

	check(t, client.ShutdownVM(vm.ID(), false))
	must[ovirt.VM](t)(client.WaitForVMStatus(vm.ID(), ovirt.VMStatusDown))
	check(t, client.StopVM(vm.ID(), true)) // the VM is already down
	if got := must[ovirt.NIC](t)(client.GetNIC(vm.ID(), nic.ID())); got.Mac() == "" || got.VMID() != vm.ID() {
		t.Errorf("the network interface is %v", got)
	}

	check(t, client.RemoveNIC(vm.ID(), nic.ID()))
	if tags := must[[]ovirt.Tag](t)(client.ListVMTags(vm.ID())); len(tags) != 1 || tags[0].ID() != tag.ID() {
		t.Errorf("the tags are %v", tags)
	}

	check(t, client.RemoveTagFromVM(vm.ID(), tag.ID()))
	check(t, client.RemoveTag(tag.ID()))
	_, err = client.GetTag(tag.ID(), once...)
	wants(t, err, ovirt.ENotFound)
}

func TestErrorsOfTheEngineAreUnderstood(t *testing.T) {
	t.Parallel()
	client := connect(t)
	at := find(t, client)
	vm := newVM(t, client, "only-one", nil)
	_, err := client.CreateVM(at.cluster, at.template, "only-one", nil, once...)
	conflicts(t, err, "name is already in use")
	const none = "00000000-1111-2222-3333-444444444444"
	_, err = client.GetVM(none, once...)
	wants(t, err, ovirt.ENotFound)
	_, err = client.GetDisk(none, once...)
	wants(t, err, ovirt.ENotFound)
	wants(t, client.RemoveNIC(vm.ID(), none, once...), ovirt.ENotFound)
	_, err = client.CreateVM(at.cluster, at.template, "greedy", ovirt.NewCreateVMParams().MustWithMemory(gib).
		WithMemoryPolicy(ovirt.NewMemoryPolicyParameters().MustWithGuaranteed(2*gib)), once...)
	wants(t, err, ovirt.EBadArgument)
	empty := must[ovirt.VM](t)(client.CreateVM(at.cluster, ovirt.DefaultBlankTemplateID, "no-disk", nil))
	wants(t, client.StartVM(empty.ID(), once...), ovirt.ECannotRunVM)
	check(t, client.RemoveVM(empty.ID()))
}

func TestDisksGrowAndAreAttached(t *testing.T) {
	t.Parallel()
	client := connect(t)
	at := find(t, client)
	vm := must[ovirt.VM](t)(client.CreateVM(at.cluster, ovirt.DefaultBlankTemplateID, "with-disks", nil))
	disk := must[ovirt.Disk](
		t,
	)(
		client.CreateDisk(
			at.domain, ovirt.ImageFormatRaw, gib,
			ovirt.CreateDiskParams().MustWithAlias("data").MustWithSparse(true),
		),
	)
	disk = must[ovirt.Disk](
		t,
	)(
		client.UpdateDisk(disk.ID(), ovirt.UpdateDiskParams().MustWithAlias("data-2").MustWithProvisionedSize(2*gib)),
	)
	if disk.Alias() != "data-2" || disk.ProvisionedSize() != 2*gib || !disk.Sparse() {
		t.Errorf("the disk is %v", disk)
	}

	attached := must[ovirt.DiskAttachment](
		t,
	)(
		client.CreateDiskAttachment(vm.ID(), disk.ID(), ovirt.DiskInterfaceVirtIOSCSI,
			ovirt.CreateDiskAttachmentParams().MustWithBootable(true).MustWithActive(true)),
	)
	if !attached.Bootable() || !attached.Active() || attached.DiskInterface() != ovirt.DiskInterfaceVirtIOSCSI {
		t.Errorf("the attachment is %v", attached)
	}

	second := must[ovirt.Disk](t)(client.CreateDisk(at.domain, ovirt.ImageFormatCow, gib, nil))
	bare := must[ovirt.DiskAttachment](
		t,
	)(
		client.CreateDiskAttachment(vm.ID(), second.ID(), ovirt.DiskInterfaceVirtIO, nil),
	)
	if bare.Bootable() || bare.Active() {
		t.Error("a disk that was attached without saying more is plugged or boots")
	}

	if all := must[[]ovirt.DiskAttachment](t)(client.ListDiskAttachments(vm.ID())); len(all) != 2 {
		t.Errorf("%d disks are attached", len(all))
	}

	check(t, client.RemoveDiskAttachment(vm.ID(), bare.ID()))
	check(t, client.RemoveDisk(second.ID()))
	check(t, client.RemoveVM(vm.ID()))
	eventually(t, "the disk of the VM is gone", func() bool {
		_, err := client.GetDisk(disk.ID(), once...)
		return err != nil && ovirt.HasErrorCode(err, ovirt.ENotFound)
	})
}

// qcow2 returns the smallest image with all parts: header, first level table, reference counts.
func qcow2(size uint64) []byte {
	const cluster = 1 << 16
	image := make([]byte, 4*cluster)
	copy(image, "QFI\xfb")
	order := binary.BigEndian
	order.PutUint32(image[4:], 2) // version
	order.PutUint32(image[20:], 16)
	order.PutUint64(image[24:], size)
	order.PutUint32(image[36:], uint32((size+cluster*cluster/8-1)/(cluster*cluster/8)))
	order.PutUint64(image[40:], 3*cluster)
	order.PutUint64(image[48:], cluster)
	order.PutUint32(image[56:], 1)
	order.PutUint64(image[cluster:], 2*cluster)

	for i := range 4 {
		order.PutUint16(image[2*cluster+2*i:], 1)
	}

	return image
}

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

func TestImagesGoUpAndComeDownUnchanged(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte("raw image "), 1<<17)

	raw = raw[:1<<20]
	for name, test := range map[string]struct {
		format  ovirt.ImageFormat
		content []byte
	}{"qcow2": {ovirt.ImageFormatCow, qcow2(gib)}, "raw": {ovirt.ImageFormatRaw, raw}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t)
			domain := find(t, client).domain
			result := must[ovirt.UploadImageResult](
				t,
			)(
				client.UploadToNewDisk(domain, test.format, uint64(len(test.content)),
					ovirt.CreateDiskParams().MustWithAlias("image-"+name).
						MustWithSparse(true), file{bytes.NewReader(test.content)}),
			)
			disk := must[ovirt.Disk](t)(client.WaitForDiskOK(result.Disk().ID()))
			want := map[string]uint64{"qcow2": gib, "raw": uint64(len(raw))}[name]
			if disk.ProvisionedSize() != want || disk.Format() != test.format {
				t.Errorf("the disk has %d bytes in %s", disk.ProvisionedSize(), disk.Format())
			}

			download := must[ovirt.ImageDownloadReader](t)(client.DownloadDisk(disk.ID(), test.format))
			got := must[[]byte](t)(io.ReadAll(download))
			check(t, download.Close())
			if !bytes.Equal(got, test.content) {
				t.Errorf("%d bytes came back for %d", len(got), len(test.content))
			}

			check(t, client.RemoveDisk(disk.ID()))
		})
	}
}

func TestAnUploadThatIsNoImageFails(t *testing.T) {
	t.Parallel()
	client := connect(t)
	disk := must[ovirt.Disk](t)(client.CreateDisk(find(t, client).domain, ovirt.ImageFormatCow, gib, nil))
	if err := client.UploadToDisk(disk.ID(), 1<<20, file{bytes.NewReader(make([]byte, 1<<20))}, once...); err == nil {
		t.Error("zeros were taken for a qcow2 image")
	}
}

func TestAffinityGroupsHoldVMs(t *testing.T) {
	t.Parallel()
	client := connect(t)
	cluster := find(t, client).cluster
	vm := newVM(t, client, "apart", nil)
	group := must[ovirt.AffinityGroup](
		t,
	)(
		client.CreateAffinityGroup(
			cluster,
			"apart-group",
			ovirt.CreateAffinityGroupParams().MustWithDescription("kept apart").
				MustWithVMsRuleParameters(true, ovirt.AffinityNegative, false).
				MustWithHostsRuleParameters(false, ovirt.AffinityPositive, false),
		),
	)
	check(t, client.AddVMToAffinityGroup(cluster, vm.ID(), group.ID()))
	got := must[ovirt.AffinityGroup](t)(client.GetAffinityGroupByName(cluster, "apart-group"))
	rule := got.VMsRule()
	if len(got.VMIDs()) != 1 || got.VMIDs()[0] != vm.ID() || !rule.Enabled() ||
		rule.Affinity() != ovirt.AffinityNegative || rule.Enforcing() || got.HostsRule().Enabled() {
		t.Errorf("the group is %v", got)
	}

	_, err := client.CreateAffinityGroup(cluster, "apart-group", nil, once...)
	if err == nil || !strings.Contains(err.Error(), "400 Bad Request") ||
		!strings.Contains(err.Error(), "already exists") {
		t.Errorf("a second group of one name: %v", err)
	}

	check(t, client.RemoveVMFromAffinityGroup(cluster, vm.ID(), group.ID()))
	check(t, client.RemoveAffinityGroup(cluster, group.ID()))
	_, err = client.GetAffinityGroup(cluster, group.ID(), once...)
	if err == nil || !strings.Contains(err.Error(), "400 Bad Request") {
		t.Errorf("a group that is gone: %v", err) // no client can distinguish a missing group from a refusal
	}
}

func TestATemplateIsMadeUsedAndRemoved(t *testing.T) {
	t.Parallel()
	client := connect(t)
	at := find(t, client)
	source := newVM(t, client, "golden", nil)
	template := must[ovirt.Template](t)(client.CreateTemplate(source.ID(), "golden-image", nil))
	must[ovirt.Template](t)(client.WaitForTemplateStatus(template.ID(), ovirt.TemplateStatusOK))
	disks := must[[]ovirt.TemplateDiskAttachment](t)(client.ListTemplateDiskAttachments(template.ID()))
	if len(disks) != 1 {
		t.Fatalf("the template has %d disks", len(disks))
	}

	override := ovirt.MustNewBuildableVMDiskParameters(disks[0].DiskID()).MustWithSparse(true).
		MustWithFormat(ovirt.ImageFormatCow).MustWithStorageDomainID(at.domain)
	vm := must[ovirt.VM](
		t,
	)(
		client.CreateVM(
			at.cluster, template.ID(), "from-golden",
			ovirt.NewCreateVMParams().MustWithClone(true).MustWithDisks([]ovirt.OptionalVMDiskParameters{override}),
		),
	)
	must[ovirt.VM](t)(client.WaitForVMStatus(vm.ID(), ovirt.VMStatusDown))
	attached := must[[]ovirt.DiskAttachment](t)(client.ListDiskAttachments(vm.ID()))
	if disk := must[ovirt.Disk](t)(attached[0].Disk()); !disk.Sparse() || disk.StorageDomainIDs()[0] != at.domain {
		t.Errorf("the override of the disk had no effect: %v", disk)
	}

	check(t, client.RemoveTemplate(template.ID())) // a clone does not depend on its template
	check(t, client.RemoveVM(vm.ID()))
}
