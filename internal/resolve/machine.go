package resolve

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// The defaults of fields that are zero.
const (
	DefaultCores   = 2
	DefaultSockets = 2
	DefaultThreads = 1
)

// versionVariable stands for the Machine's version in the name of a template.
const versionVariable = "${KUBERNETES_VERSION}"

// Owner of a VM; its marker is in the VM's comment.
type Owner struct{ Namespace, Name, UID string }

// marker is how a comment names the owner.
var marker = regexp.MustCompile(`^capolvm owner=([^/ ]+)/([^ ]+) uid=([^ ]+)$`)

// Comment is the owner's marker.
func (o Owner) Comment() string {
	return fmt.Sprintf("capolvm owner=%s/%s uid=%s", o.Namespace, o.Name, o.UID)
}

// OwnerOf reads the marker in a VM's comment; false where the VM is not ours.
func OwnerOf(comment string) (Owner, bool) {
	match := marker.FindStringSubmatch(strings.TrimSpace(comment))
	if match == nil {
		return Owner{}, false
	}

	return Owner{Namespace: match[1], Name: match[2], UID: match[3]}, true
}

// Input is all that decides one VM.
type Input struct {
	// Spec of the OLVMMachine, and the OLVMCluster's.
	Spec    infrav1.OLVMMachineSpec
	Cluster infrav1.OLVMClusterSpec
	// KubernetesVersion is the Machine's version, such as v1.36.1; empty where it has none.
	KubernetesVersion string
	// VMName is the name of the VM and the host name of its guest.
	VMName string
	// Owner of the VM.
	Owner Owner
	// NICs of the machine, as NICs reads them.
	NICs []NIC
	// Addresses that were allocated for the machine, by the names of its network interfaces in the engine.
	Addresses map[string][]ipam.Address
	// NamePools puts the names of IPAM providers' pools in the place of addresses: for a preview, which claims none.
	NamePools bool
	// ControlPlane says whether the machine is of the control plane, and ControlPlaneNodes are the addresses of its
	// machines that are known. RouterIDs are those of the cluster.
	ControlPlane      bool
	ControlPlaneNodes []netip.Addr
	RouterIDs         RouterIDs
	// Bootstrap is what the user data is made of; nil for none.
	Bootstrap *Bootstrap
	// Config is the way to the engine.
	Config engine.Config
	// FailureDomain of the Machine; empty for none.
	FailureDomain string
	// AffinityGroups are the UUIDs of the VM's affinity groups, by the groups' names.
	AffinityGroups map[string]string
}

// Machine resolves the names of a machine and returns what to render, and the names with their UUIDs for the status.
func Machine(ctx context.Context, client *engine.Client, in Input) (render.Machine, *infrav1.OLVMStatus, error) {
	fail := func(err error) (render.Machine, *infrav1.OLVMStatus, error) { return render.Machine{}, nil, err }
	machine := render.Machine{Engine: RenderEngine(client, in.Config), Name: in.VMName, Comment: in.Owner.Comment()}
	if length := utf8.RuneCountInString(in.VMName); length > engine.MaxVMName {
		return fail(&Error{Reason: infrav1.InvalidHardwareReason, Field: "metadata.name", Message: fmt.Sprintf(
			"the VM has the name of its machine, which has %d characters; the engine takes %d: give the machine, or "+
				"what makes it, a shorter name",
			length,
			engine.MaxVMName,
		)})
	}

	if err := options(in.Spec.VirtualMachine, &machine); err != nil {
		return fail(err)
	}

	if err := operatingSystem(ctx, client, in.Spec.VirtualMachine); err != nil {
		return fail(err)
	}

	if err := sizes(ctx, client, in.Spec.VirtualMachine, &machine); err != nil {
		return fail(err)
	}

	if err := guests(in, &machine); err != nil {
		return fail(err)
	}

	dc, err := client.DataCenter(ctx, in.Cluster.OLVMDatacenterName)
	if err != nil {
		return fail(nameError(err, infrav1.DataCenterNotFoundReason, "OLVMCluster spec.olvmDatacenterName"))
	}

	placement, err := Place(ctx, client, in.Spec, in.Cluster, in.FailureDomain)
	if err != nil {
		return fail(err)
	}

	if err := autoPinning(ctx, client, in.Spec.VirtualMachine, placement, &machine); err != nil {
		return fail(err)
	}

	cluster := placement.Cluster
	templateName := in.Spec.VMTemplateName
	if strings.Contains(templateName, versionVariable) {
		if in.KubernetesVersion == "" {
			return fail(
				&Error{
					infrav1.TemplateNotFoundReason,
					"spec.vmTemplateName",
					fmt.Sprintf(
						"it contains %s and the Machine has no version; set the Machine's spec.version",
						versionVariable,
					),
				},
			)
		}

		templateName = strings.ReplaceAll(templateName, versionVariable, in.KubernetesVersion)
	}

	template, err := client.TemplateVersion(ctx, dc, templateName, int(in.Spec.VMTemplateVersion))
	if err != nil {
		return fail(nameError(err, infrav1.TemplateNotFoundReason, "spec.vmTemplateName"))
	}

	if !usesIgnition(in, template) {
		machine.HostName = in.VMName // Ignition gets it as a file: the engine would add the same
	}

	if machine.UserData, err = userData(in, template, machine); err != nil {
		return fail(err)
	}

	network, profile, err := networks(ctx, client, dc, template, in.NICs, &machine)
	if err != nil {
		return fail(err)
	}

	if err := disks(ctx, client, dc, template, placement.stored(in.Spec.VirtualMachine), &machine); err != nil {
		return fail(err)
	}

	if err := tags(ctx, client, in.Spec.VirtualMachine.Tags, &machine); err != nil {
		return fail(err)
	}

	machine.ClusterID, machine.TemplateID = cluster.ID.String(), template.ID.String()
	machine.Placement, machine.AffinityGroups = placement.policy(), in.AffinityGroups
	status := &infrav1.OLVMStatus{
		ClusterID:       cluster.ID.String(),
		ClusterName:     cluster.Name,
		NetworkID:       network.ID.String(),
		NetworkName:     network.Name,
		VMTemplateID:    template.ID.String(),
		VMTemplateName:  template.Name,
		VNICName:        in.NICs[0].VNICName,
		VNICProfileID:   profile.ID.String(),
		VNICProfileName: profile.Name,
	}

	return machine, status, nil
}

// RenderEngine is the way to the engine for a configuration.
func RenderEngine(client *engine.Client, config engine.Config) render.Engine {
	return render.Engine{
		URL:      client.APIURL(),
		CA:       string(config.CA),
		Insecure: config.Insecure,
		Username: config.Username,
		Password: config.Password,
	}
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}

	return value
}

var memoryPattern = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(?:[iI]?[bB])?$`)

// ParseMemory reads a size such as 16GB, 16GiB, 16G or 7680MB; units are powers of 1024, as Oracle's provider has them.
// A bare number is bytes. The engine counts in MiB, so the result must be a multiple of it.
func ParseMemory(text string) (int64, error) {
	match := memoryPattern.FindStringSubmatch(strings.TrimSpace(text))
	if match == nil {
		return 0, fmt.Errorf("%q is not a size; write a number with the unit MB, GB or TB, such as 16GB", text)
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
		return 0, fmt.Errorf("%q is more than 12TB, the most that an engine gives to a VM", text)
	case int64(bytes)%mib != 0:
		return 0, fmt.Errorf("%q is not a whole number of MB", text)
	}

	return int64(bytes), nil
}
