package inventory

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
)

// Pool is an inventory as the engine has it.
type Pool struct {
	DataCenter *engine.DataCenter
	// VMs are the VMs of the inventory, and Hosts all hosts of the engine, each by ID.
	VMs   map[engine.ID]engine.DescribedVM
	Hosts map[engine.ID]engine.DescribedHost
}

// FetchPool reads the VMs of an inventory and the hosts from the engine. The error is a *blocker.Error if the inventory
// names an object that the engine does not have.
func FetchPool(ctx context.Context, session *engine.Client, spec infrav1alpha1.OLVMInventorySpec) (*Pool, error) {
	if err := blocker.CheckTexts(infrav1.InventoryInvalidReason, "spec", spec); err != nil {
		return nil, err
	}

	center, err := session.FindDataCenter(ctx, spec.OLVMDatacenterName)
	if err != nil {
		return nil, blocker.WrapNotFound(err, infrav1.DataCenterNotFoundReason, "spec.olvmDatacenterName")
	}

	clusters, err := listClusters(ctx, session, center, spec.VirtualMachines.OLVMOvirtClusterName)
	if err != nil {
		return nil, err
	}

	var searched map[engine.ID]bool
	if spec.VirtualMachines.Search != "" {
		if searched, err = session.SearchVMs(ctx, spec.VirtualMachines.Search); err != nil {
			return nil, err
		}
	}

	out := &Pool{DataCenter: center, VMs: map[engine.ID]engine.DescribedVM{}}
	if out.Hosts, err = session.ListDescribedHosts(ctx); err != nil {
		return nil, err
	}

	tagged, err := listTaggedVMs(ctx, session, spec.VirtualMachines.Tag)
	if err != nil {
		return nil, err
	}

	for _, vm := range tagged {
		if clusters[engine.RefID(vm.Cluster)] && (searched == nil || searched[vm.ID]) {
			out.VMs[vm.ID] = vm
		}
	}

	return out, nil
}

// listTaggedVMs lists the VMs with a tag, including the claim marks on them.
func listTaggedVMs(ctx context.Context, session *engine.Client, tag string) ([]engine.DescribedVM, error) {
	out, err := session.ListTaggedVMs(ctx, tag)
	if err != nil {
		return nil, err
	}

	return out, describeTags(ctx, session, out)
}

// listClusters returns the engine's clusters whose VMs can belong to the inventory: the named one, or all of the data
// center.
func listClusters(
	ctx context.Context, session *engine.Client, center *engine.DataCenter, name string,
) (map[engine.ID]bool, error) {
	out := map[engine.ID]bool{}

	if name != "" {
		found, err := session.FindCluster(ctx, center, name)
		if err != nil {
			const field = "spec.virtualMachines.olvmOvirtClusterName"
			return nil, blocker.WrapNotFound(err, infrav1.OvirtClusterNotFoundReason, field)
		}

		out[found.ID] = true

		return out, nil
	}

	all, err := session.ListClusters(ctx, center)

	for i := range all {
		out[all[i].ID] = true
	}

	return out, err
}

// unfit matches characters that an object name must not contain.
var unfit = regexp.MustCompile(`[^a-z0-9.-]+`)

// maxName leaves room for the first part of a UUID.
const maxName = 200

// ChooseObjectName returns the name of the OLVMInventoryVM for a VM. It is the VM's name. If that name is invalid or
// taken, the first part of the VM's UUID follows.
func ChooseObjectName(vm engine.DescribedVM, taken map[string]bool) string {
	name := strings.Trim(unfit.ReplaceAllString(strings.ToLower(vm.Name), "-"), ".-")
	name = name[:min(len(name), maxName)]
	if name == vm.Name && !taken[name] && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}

	return strings.Trim(name+"-"+vm.ID.String()[:8], ".-")
}

// BuildClusterSpec returns a cluster spec for the inventory's VMs. They belong to no cluster, but need its data center.
func BuildClusterSpec(pool *infrav1alpha1.OLVMInventory) infrav1.OLVMClusterSpec {
	return infrav1.OLVMClusterSpec{OLVMDatacenterName: pool.Spec.OLVMDatacenterName}
}

// ListHostNames returns the sorted names of the hosts that VMs of a template can run on. These are the hosts in its
// placement, or all hosts of its engine cluster. The error is a *blocker.Error with the field of the template.
func (p *Pool) ListHostNames(
	ctx context.Context, session *engine.Client, pool *infrav1alpha1.OLVMInventory, template infrav1.OLVMMachineSpec,
) ([]string, error) {
	site := placement.Site{DataCenterName: pool.Spec.OLVMDatacenterName}
	where, err := placement.ResolveLocation(ctx, session, template, site, "")
	if err != nil {
		return nil, err
	}

	var out []string

	for id, host := range p.Hosts {
		allowed := len(where.HostIDs) == 0 && engine.RefID(host.Cluster) == where.Cluster.ID
		if allowed || slices.Contains(where.HostIDs, id) {
			out = append(out, host.Name)
		}
	}

	if len(out) == 0 { // an empty answer of the engine must not lead to deletions
		return nil, blocker.New(infrav1.HostNotFoundReason, "spec.olvmOvirtClusterName",
			"the engine's cluster %s has no host; add one, or set spec.provision.count in the OLVMInventory",
			where.Cluster.Name)
	}

	slices.Sort(out)

	return out, nil
}

// ExplainUnclaimable returns why a VM without a claim here cannot be claimed. Both texts are empty if it can.
func (p *Pool) ExplainUnclaimable(vm engine.DescribedVM) (reason, message string) {
	if mark, tagged := GetMark(vm); tagged {
		return ReasonClaimedThem, "The tag " + TagName(vm.ID) + " marks the VM as claimed by " + mark.String() +
			". If this is no longer true, delete the tag and clear the VM's comment in the engine"
	}

	return ExplainIneligible(vm, FindHost(vm, p.Hosts))
}

// ToCandidate returns a VM in the form that the scheduler needs.
func (p *Pool) ToCandidate(
	name string, labels map[string]string, vm engine.DescribedVM, claim *infrav1alpha1.InventoryClaim,
) VM {
	out := VM{Name: name, Labels: labels, Claim: claim}
	if out.Unfit, _ = p.ExplainUnclaimable(vm); claim != nil {
		out.Unfit, _ = ExplainBroken(vm, FindHost(vm, p.Hosts))
	}

	for _, network := range CollectNetworks(vm) {
		if len(network.IPAddresses) > 0 {
			out.Networks = append(out.Networks, network.Name)
		}
	}

	return out
}
