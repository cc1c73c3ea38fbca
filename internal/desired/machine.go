package desired

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// These are the defaults for fields that are zero.
const (
	DefaultCores   = 2
	DefaultSockets = 2
	DefaultThreads = 1
)

// versionVariable stands for the Machine's version in the name of a template.
const versionVariable = "${KUBERNETES_VERSION}"

// TemplateName returns the name of a VM template for a machine's version. Without a version, the variable stays.
func TemplateName(name, kubernetesVersion string) string {
	if kubernetesVersion == "" {
		return name
	}

	return strings.ReplaceAll(name, versionVariable, kubernetesVersion)
}

// Input is the complete input for one VM.
type Input struct {
	// Spec is the spec of the OLVMMachine, and Cluster that of the OLVMCluster.
	Spec    infrav1.OLVMMachineSpec
	Cluster infrav1.OLVMClusterSpec
	// KubernetesVersion is the Machine's version, such as v1.36.1, or "".
	KubernetesVersion string
	// VMName is the name of the VM and the host name of its guest.
	VMName string
	// Owner is the owner of the VM.
	Owner ownermark.Owner
	// ClaimedVM is the VM that a machine with spec.fromInventory has claimed. It is nil before the claim, and for other
	// machines.
	ClaimedVM *engine.VM
	// Pooled creates a VM for an inventory. The VM stays powered off, and its guest gets only the network
	// configuration.
	Pooled bool
	// NICs of the machine, as read by addressing.BuildNICs.
	NICs []addressing.NIC
	// Addresses maps the names of network interfaces in the engine to the addresses allocated to the machine.
	Addresses map[string][]addressrange.Address
	// NamePools replaces addresses from IPAM providers with the names of their pools. It is for previews, because they
	// claim no addresses.
	NamePools bool
	// Role is the role of the machine, or "" for a VM of a support service. Such a VM is not a node, and Service is the
	// name of the service. SupportServices are the support services of the cluster, or nil. ControlPlaneNodes are the
	// known addresses of the control plane machines. RouterIDs are the IDs of the cluster's virtual routers.
	Role              infrav1.MachineRole
	Service           string
	SupportServices   *infrav1alpha1.OLVMSupportServices
	ControlPlaneNodes []netip.Addr
	RouterIDs         RouterIDs
	// Bootstrap is the input for the user data, or nil.
	Bootstrap *Bootstrap
	// Announced is the expected format of bootstrap data that do not exist yet, or "" if it is unknown. AnnouncedBy is
	// the object that determines the format, for errors.
	Announced   bootstrap.Format
	AnnouncedBy string
	// Config is the connection to the engine.
	Config engine.Config
	// FailureDomain is the failure domain of the Machine, or "".
	FailureDomain string
	// FindGroups returns the UUIDs of the machine's affinity groups by name. It is called only for a machine in groups.
	// If it is nil, the machine joins no group.
	FindGroups func(ctx context.Context, self placement.Member) (map[string]string, error)
}

// Built is the machine as it should be in the engine.
type Built struct {
	// Machine is rendered only when a run begins, because a thousand runs may wait in the queue.
	Machine render.Machine
	// Names are the resolved names with their UUIDs, for the status.
	Names *infrav1.OLVMStatus
}

// Build resolves the names of a machine, and returns the machine as it should be in the engine. It sends requests only
// to the engine. If a user can correct the error, it is a *blocker.Error.
func Build(ctx context.Context, client *engine.Client, in Input) (*Built, error) {
	r := &machineResolver{
		client: client,
		in:     in,
		out: render.Machine{
			Engine:  connection.RenderEngine(client, in.Config),
			Name:    in.VMName,
			Pooled:  in.Pooled,
			Comment: in.Owner.Comment(),
		},
	}

	// The checks that need no engine come first, so that they report bad input even if the engine is down.
	steps := []func(context.Context) error{
		r.checkTexts,
		r.checkName,
		r.resolveHardware,
		r.resolvePlace,
		r.resolveGroups,
		r.resolveTemplate,
		r.resolveUserData,
		r.resolveDevices,
	}

	switch {
	case in.Spec.FromInventory != nil:
		steps = []func(context.Context) error{r.checkTexts, r.adoptClaimed, r.resolveUserData}
	case in.Pooled:
		r.out.Comment = in.Owner.InventoryComment()
		steps = []func(context.Context) error{
			r.checkTexts,
			r.checkName,
			r.resolveHardware,
			r.resolvePlace,
			r.resolveTemplate,
			r.resolveDevices,
		}
	}

	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}

	return &Built{Machine: r.out, Names: r.names}, nil
}

// RenderConfiguration renders the machine, with imports of the parts that already exist in the engine. existing is nil
// if there are none.
func (b *Built) RenderConfiguration(
	ctx context.Context, client *engine.Client, existing *Existing,
) (render.Configuration, error) {
	configuration, err := render.MachineConfiguration(b.Machine)
	if err != nil || existing == nil {
		return configuration, err
	}

	return existing.addImports(ctx, client, configuration, b.Machine)
}

// machineResolver resolves one machine, step by step.
type machineResolver struct {
	client *engine.Client
	in     Input
	out    render.Machine
	names  *infrav1.OLVMStatus
	// resolvePlace sets dc and placement, and resolveTemplate sets from.
	dc        *engine.DataCenter
	placement placement.Placement
	from      *engine.Template
}

// checkTexts refuses texts that would change on their way to the engine.
func (r *machineResolver) checkTexts(context.Context) error {
	if err := blocker.CheckTexts(infrav1.InvalidHardwareReason, "spec", r.in.Spec); err != nil {
		return err
	}

	return blocker.CheckTexts(infrav1.InvalidHardwareReason, "OLVMCluster spec", r.in.Cluster)
}

// checkName refuses a name that the engine would refuse.
func (r *machineResolver) checkName(context.Context) error {
	length := utf8.RuneCountInString(r.in.VMName)
	if length <= engine.MaxVMName {
		return nil
	}

	return &blocker.Error{Reason: infrav1.InvalidHardwareReason, Field: "metadata.name", Message: fmt.Sprintf(
		"the VM has the machine's name with %d characters, but the engine allows %d; shorten the name of the "+
			"machine, or of the object that creates it", length, engine.MaxVMName)}
}

// resolveHardware resolves options, the operating system, sizes, and the network configuration of the guest.
func (r *machineResolver) resolveHardware(ctx context.Context) error {
	vm := r.in.Spec.VirtualMachine
	if err := copyOptions(vm, &r.out); err != nil {
		return err
	}

	if err := checkDevices(vm, &r.out); err != nil {
		return err
	}

	if err := checkOperatingSystem(ctx, r.client, vm); err != nil {
		return err
	}

	if err := resolveSizes(ctx, r.client, vm, &r.out); err != nil {
		return err
	}

	return resolveGuests(r.in, &r.out)
}

// resolvePlace resolves the location of the VM.
func (r *machineResolver) resolvePlace(ctx context.Context) error {
	var err error
	r.dc, err = r.client.FindDataCenter(ctx, r.in.Cluster.OLVMDatacenterName)
	if err != nil {
		return blocker.WrapNotFound(err, infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName")
	}

	r.placement, err = placement.ResolveLocation(
		ctx, r.client, r.in.Spec, placement.SiteOf(r.in.Cluster), r.in.FailureDomain,
	)
	if err != nil {
		return err
	}

	r.out.ClusterID = r.placement.Cluster.ID.String()
	r.out.Placement = r.placement.Policy()

	vm := r.in.Spec.VirtualMachine
	if err := checkHostDevices(ctx, r.client, vm, r.placement.HostIDs, &r.out); err != nil {
		return err
	}

	if err := resolveAvailability(ctx, r.client, r.dc, vm, &r.out); err != nil {
		return err
	}

	return checkAutoPinning(ctx, r.client, vm, r.placement, &r.out)
}

// resolveGroups resolves the machine's affinity groups.
func (r *machineResolver) resolveGroups(ctx context.Context) error {
	names, err := placement.CollectGroupNames(
		placement.CollectAffinityGroups(r.in.Cluster, r.in.SupportServices), r.in.Spec, r.in.Role, r.in.Service,
	)
	if err != nil || len(names) == 0 || r.in.FindGroups == nil {
		return err
	}

	r.out.AffinityGroups, err = r.in.FindGroups(ctx, placement.Member{
		Name:      r.in.Owner.Name,
		Groups:    names,
		ClusterID: r.placement.Cluster.ID,
		HostIDs:   r.placement.HostIDs,
	})

	return err
}

// resolveTemplate resolves the template. The name of the template may contain the Kubernetes version.
func (r *machineResolver) resolveTemplate(ctx context.Context) error {
	const field = "spec.vmTemplateName"
	name := r.in.Spec.VMTemplateName
	if strings.Contains(name, versionVariable) && r.in.KubernetesVersion == "" {
		return &blocker.Error{
			Reason: infrav1.VMTemplateNotFoundReason,
			Field:  field,
			Message: fmt.Sprintf(
				"it contains %s, but the Machine has no version; set the Machine's spec.version", versionVariable),
		}
	}

	name = TemplateName(name, r.in.KubernetesVersion)
	found, err := r.client.FindTemplateVersion(ctx, r.dc, name, int(r.in.Spec.VMTemplateVersion))
	if err != nil {
		return blocker.WrapNotFound(err, infrav1.VMTemplateNotFoundReason, field)
	}

	r.from = found
	r.out.TemplateID = found.ID.String()

	if tpm := r.out.TPM; tpm != nil && *tpm {
		err := r.client.CheckTPM(ctx, cmp.Or(r.out.OSType, found.OS.Type))
		return blocker.WrapNotFound(err, infrav1.InvalidHardwareReason, vmPath+"firmware.tpm")
	}

	return nil
}

// resolveUserData merges the user data for the first boot of the guest.
func (r *machineResolver) resolveUserData(context.Context) error {
	if !usesIgnition(r.in, r.from) {
		r.out.HostName = r.in.VMName // Ignition gets the name as a file, and the engine would add the same file
	}

	var err error
	r.out.UserData, err = mergeUserData(r.in, r.from, r.out)

	return err
}

// resolveDevices resolves network interfaces, disks and tags.
func (r *machineResolver) resolveDevices(ctx context.Context) error {
	r.out.RemoveTemplateNICs = ptr.Deref(r.in.Spec.RemoveTemplateInterfaces, false)

	network, profile, err := resolveNetworks(ctx, r.client, r.dc, r.from, r.in.NICs, &r.out)
	if err != nil {
		return err
	}

	vm := r.in.Spec.VirtualMachine
	if err := resolveDisks(ctx, r.client, r.dc, r.from, r.placement.ApplyStorage(vm), &r.out); err != nil {
		return err
	}

	if err := resolveTags(ctx, r.client, vm.Tags, &r.out); err != nil {
		return err
	}

	r.names = &infrav1.OLVMStatus{
		ClusterID:       r.placement.Cluster.ID.String(),
		ClusterName:     r.placement.Cluster.Name,
		NetworkID:       network.ID.String(),
		NetworkName:     network.Name,
		VMTemplateID:    r.from.ID.String(),
		VMTemplateName:  r.from.Name,
		VNICName:        r.in.NICs[0].VNICName,
		VNICProfileID:   profile.ID.String(),
		VNICProfileName: profile.Name,
	}

	return nil
}

var memoryPattern = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*(?:([kKmMgGtT])[iI]?)?[bB]?$`)

// ParseMemory parses a size, such as 16GB, 16GiB, 16G, 16Gi or 7680MB, and returns it in bytes. All units are powers of
// 1024, as in Oracle's provider, even units that are decimal in Kubernetes quantities. A bare number is in bytes. The
// engine counts in MiB, so the result must be a multiple of 1 MiB. The API server checks the same rule for
// infrav1.Size.
func ParseMemory(text string) (int64, error) {
	match := memoryPattern.FindStringSubmatch(strings.TrimSpace(text))
	if match == nil {
		return 0, fmt.Errorf("%q is not a size; use a number with the unit MB, GB or TB, such as 16GB or 16Gi", text)
	}

	number, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: %w", text, err)
	}

	exponent := 10 * (strings.Index(" kmgt", strings.ToLower(match[2] + " ")[:1]))
	bytes := number * math.Pow(2, float64(exponent))

	const mib = 1 << 20
	switch {
	case bytes < 256*mib:
		return 0, fmt.Errorf("%q is less than 256MB, with which no node boots", text)
	case bytes > 12<<40:
		return 0, fmt.Errorf("%q is more than 12TB, the engine's maximum for a VM", text)
	case math.Mod(bytes, mib) != 0:
		return 0, fmt.Errorf("%q is not a whole number of MB", text)
	}

	return int64(bytes), nil
}
