package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// HostsAge is the maximum age of a cached list of hosts or affinity labels.
const HostsAge = 5 * time.Second

// Placement is the place at which a VM is created.
type Placement struct {
	Cluster engine.Cluster
	// Domain is the name of the failure domain, or "" if the machine has none.
	Domain string
	// StorageDomainName is the storage domain of the failure domain, or "" if it has none.
	StorageDomainName string
	// HostIDs are the hosts on which the VM may run, sorted; empty means all hosts of the cluster.
	HostIDs []engine.ID
}

// Policy returns the placement policy for the configuration. If the VM can run on only one host, the policy pins it.
// The engine could not migrate such a VM anyway, and must not try.
func (p Placement) Policy() *render.Placement {
	if len(p.HostIDs) == 0 {
		return nil
	}

	affinity := "migratable"
	if len(p.HostIDs) == 1 {
		affinity = "pinned"
	}

	hosts := make([]string, 0, len(p.HostIDs))
	for _, id := range p.HostIDs {
		hosts = append(hosts, id.String())
	}

	return &render.Placement{Affinity: affinity, HostIDs: hosts}
}

// Site is a data center and its failure domains. It has the fields of an OLVMCluster or OLVMInventory that
// ResolveLocation needs.
type Site struct {
	DataCenterName string
	FailureDomains []infrav1.OLVMFailureDomain
}

// SiteOf returns the site of a cluster.
func SiteOf(cluster infrav1.OLVMClusterSpec) Site {
	return Site{DataCenterName: cluster.OLVMDatacenterName, FailureDomains: cluster.FailureDomains}
}

// findDomain returns the failure domain with this name. For an empty name, it returns an empty failure domain.
func findDomain(domains []infrav1.OLVMFailureDomain, name string) (infrav1.OLVMFailureDomain, error) {
	if name == "" {
		return infrav1.OLVMFailureDomain{}, nil
	}

	at := slices.IndexFunc(domains, func(d infrav1.OLVMFailureDomain) bool { return d.Name == name })
	if at >= 0 {
		return domains[at], nil
	}

	return infrav1.OLVMFailureDomain{}, &blocker.Error{
		Reason: infrav1.FailureDomainNotFoundReason,
		Field:  "Machine spec.failureDomain",
		Message: fmt.Sprintf("OLVMCluster spec.failureDomains has no domain %q; %s; correct the name or add the domain",
			name, formatKnown(domainNames(domains))),
	}
}

// ResolveLocation determines where the VM of a machine is created. The Machine's failureDomain takes precedence over
// the machine's own spec.
func ResolveLocation(
	ctx context.Context,
	client *engine.Client,
	spec infrav1.OLVMMachineSpec,
	site Site,
	failureDomain string,
) (Placement, error) {
	domain, err := findDomain(site.FailureDomains, failureDomain)
	if err != nil {
		return Placement{}, err
	}

	name, clusterField := spec.OLVMOvirtClusterName, "spec.olvmOvirtClusterName"
	if domain.OLVMOvirtClusterName != "" {
		name, clusterField = domain.OLVMOvirtClusterName, domainField(domain)+".olvmOvirtClusterName"
	}

	dc, err := client.FindDataCenter(ctx, site.DataCenterName)
	if err != nil {
		return Placement{}, blocker.WrapNotFound(err, infrav1.DataCenterNotFoundReason,
			"OLVMCluster spec.olvmDatacenterName")
	}

	if name == "" {
		return Placement{}, &blocker.Error{
			Reason:  infrav1.OvirtClusterNotFoundReason,
			Field:   clusterField,
			Message: "it is empty; name a cluster of the data center",
		}
	}

	found, err := client.FindCluster(ctx, dc, name)
	if err != nil {
		return Placement{}, blocker.WrapNotFound(err, infrav1.OvirtClusterNotFoundReason, clusterField)
	}

	out := Placement{Cluster: *found, Domain: failureDomain, StorageDomainName: domain.StorageDomainName}
	if err := checkStorage(ctx, client, dc, domain); err != nil {
		return Placement{}, err
	}

	in, own := hostScope{dc, found}, spec.VirtualMachine.Placement.HostNames

	inDomain := len(domain.Hosts.Names) > 0 || domain.Hosts.AffinityLabel != ""
	switch {
	case inDomain && len(own) > 0:
		return Placement{}, &blocker.Error{
			Reason: infrav1.PlacementInvalidReason,
			Field:  "spec.virtualMachine.placement.hostNames",
			Message: fmt.Sprintf(
				"failure domain %q names hosts too; take the hosts out of one of them", failureDomain),
		}
	case inDomain:
		out.HostIDs, err = listDomainHosts(ctx, client, domain, in)
	case len(own) > 0:
		out.HostIDs, err = findHostsByName(ctx, client, own, in, "spec.virtualMachine.placement.hostNames",
			infrav1.HostNotFoundReason)
		if err == nil && len(out.HostIDs) < len(own) {
			err = checkHostsExist(ctx, client, own, in)
		}
	}

	return out, err
}

func domainField(d infrav1.OLVMFailureDomain) string {
	return fmt.Sprintf("OLVMCluster spec.failureDomains[%s]", d.Name)
}

func domainNames(domains []infrav1.OLVMFailureDomain) []string {
	var out []string
	for _, d := range domains {
		out = append(out, d.Name)
	}

	return out
}

// formatKnown lists the existing names for an error.
func formatKnown(names []string) string {
	if len(names) == 0 {
		return "it has none"
	}

	slices.Sort(names)

	return "it has " + strings.Join(names, ", ")
}

// checkStorage returns an error if the storage domain of a failure domain does not exist.
func checkStorage(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter, d infrav1.OLVMFailureDomain,
) error {
	if d.StorageDomainName == "" {
		return nil
	}

	_, err := client.FindStorageDomain(ctx, dc, d.StorageDomainName)

	return blocker.WrapNotFound(err, infrav1.FailureDomainInvalidReason, domainField(d)+".storageDomainName")
}

// ApplyStorage returns a VM whose disks are on the storage domain of its failure domain. The machine's own choice of a
// storage domain takes precedence.
func (p Placement) ApplyStorage(vm infrav1.VirtualMachine) infrav1.VirtualMachine {
	if p.StorageDomainName == "" {
		return vm
	}

	root := infrav1.RootDisk{}
	if vm.RootDisk != nil {
		root = *vm.RootDisk
	}

	root.StorageDomainName = cmp.Or(root.StorageDomainName, p.StorageDomainName)

	vm.RootDisk, vm.DataDisks = &root, slices.Clone(vm.DataDisks)
	for i := range vm.DataDisks {
		vm.DataDisks[i].StorageDomainName = cmp.Or(vm.DataDisks[i].StorageDomainName, p.StorageDomainName)
	}

	return vm
}

// hostScope limits the hosts of a machine to a cluster, or to a data center if the cluster is nil.
type hostScope struct {
	dc      *engine.DataCenter
	cluster *engine.Cluster
}

func (s hostScope) String() string {
	if s.cluster == nil {
		return engine.DescribeScope(s.dc)
	}

	return fmt.Sprintf("cluster %q", s.cluster.Name)
}

// listHosts returns the hosts in the scope.
func (s hostScope) listHosts(ctx context.Context, client *engine.Client) ([]engine.Host, error) {
	return client.ListHostsIn(ctx, s.dc, s.cluster, HostsAge)
}

// listDomainHosts returns the existing hosts of a failure domain. It returns an error if none exists.
func listDomainHosts(
	ctx context.Context, client *engine.Client, domain infrav1.OLVMFailureDomain, in hostScope,
) ([]engine.ID, error) {
	field := domainField(domain) + ".hosts"
	if domain.Hosts.AffinityLabel == "" {
		return findHostsByName(ctx, client, domain.Hosts.Names, in, field+".names", infrav1.FailureDomainInvalidReason)
	}

	label, err := client.FindAffinityLabel(ctx, domain.Hosts.AffinityLabel, HostsAge)
	if err != nil {
		return nil, blocker.WrapNotFound(err, infrav1.FailureDomainInvalidReason, field+".affinityLabel")
	}

	hosts, err := in.listHosts(ctx, client)
	if err != nil {
		return nil, err
	}

	var ids []engine.ID

	for _, h := range hosts {
		if slices.ContainsFunc(label.Hosts.Items, func(r engine.Ref) bool { return r.ID == h.ID }) {
			ids = append(ids, h.ID)
		}
	}

	if len(ids) == 0 {
		return nil, &blocker.Error{
			Reason: infrav1.FailureDomainInvalidReason,
			Field:  field + ".affinityLabel",
			Message: fmt.Sprintf(
				"no host of %s has the affinity label %q; give it to a host", in, label.Name),
		}
	}

	slices.Sort(ids)

	return ids, nil
}

// findHostsByName returns the existing hosts with the given names. It returns an error if none exists.
func findHostsByName(
	ctx context.Context, client *engine.Client, names []string, in hostScope, field, reason string,
) ([]engine.ID, error) {
	hosts, err := in.listHosts(ctx, client)
	if err != nil {
		return nil, err
	}

	var ids []engine.ID
	var there []string

	for _, h := range hosts {
		there = append(there, h.Name)
		if slices.Contains(names, h.Name) {
			ids = append(ids, h.ID)
		}
	}

	if len(ids) == 0 {
		return nil, &blocker.Error{
			Reason: reason,
			Field:  field,
			Message: fmt.Sprintf(
				"%s has none of the hosts %s; %s; correct the names",
				in,
				strings.Join(names, ", "),
				formatKnown(there),
			),
		}
	}

	slices.Sort(ids)

	return ids, nil
}

// checkHostsExist returns an error with the names of missing hosts. A failure domain may lose hosts, but hosts that a
// machine names itself must exist.
func checkHostsExist(ctx context.Context, client *engine.Client, names []string, in hostScope) error {
	hosts, err := in.listHosts(ctx, client)
	if err != nil {
		return err
	}

	var missing, there []string

	for _, h := range hosts {
		there = append(there, h.Name)
	}

	for _, name := range names {
		if !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}

	return &blocker.Error{
		Reason: infrav1.HostNotFoundReason,
		Field:  "spec.virtualMachine.placement.hostNames",
		Message: fmt.Sprintf(
			"%s has no host %s; %s; correct the names", in, strings.Join(missing, ", "), formatKnown(there)),
	}
}

// CheckFailureDomains checks the failure domains of an OLVMCluster. It returns the usable ones in Cluster API's form,
// and the problems of the others. If the engine does not answer, it returns an error instead, because nothing is then
// known about the failure domains.
func CheckFailureDomains(
	ctx context.Context, client *engine.Client, cluster infrav1.OLVMClusterSpec,
) (usable []clusterv1.FailureDomain, wrong []error, err error) {
	for _, d := range cluster.FailureDomains {
		dc, err := client.FindDataCenter(ctx, cluster.OLVMDatacenterName)
		if err != nil {
			return nil, nil, err
		}

		err = checkDomain(ctx, client, dc, d)

		var field *blocker.Error
		switch {
		case err == nil:
			usable = append(usable, clusterv1.FailureDomain{
				Name:         d.Name,
				ControlPlane: new(d.IsForControlPlane()),
				Attributes:   buildDomainAttributes(d),
			})
		case errors.As(err, &field):
			wrong = append(wrong, field)
		default:
			return nil, nil, err
		}
	}

	return usable, wrong, nil
}

func checkDomain(ctx context.Context, client *engine.Client, dc *engine.DataCenter, d infrav1.OLVMFailureDomain) error {
	var cluster *engine.Cluster
	if d.OLVMOvirtClusterName != "" {
		var err error
		if cluster, err = client.FindCluster(ctx, dc, d.OLVMOvirtClusterName); err != nil {
			return blocker.WrapNotFound(err, infrav1.FailureDomainInvalidReason, domainField(d)+".olvmOvirtClusterName")
		}
	}

	if err := checkStorage(ctx, client, dc, d); err != nil {
		return err
	}

	if len(d.Hosts.Names) == 0 && d.Hosts.AffinityLabel == "" {
		return nil
	}

	_, err := listDomainHosts(ctx, client, d, hostScope{dc, cluster})

	return err
}

func buildDomainAttributes(d infrav1.OLVMFailureDomain) map[string]string {
	out := map[string]string{}
	if d.OLVMOvirtClusterName != "" {
		out["olvmOvirtClusterName"] = d.OLVMOvirtClusterName
	}

	if d.StorageDomainName != "" {
		out["storageDomainName"] = d.StorageDomainName
	}

	if d.Hosts.AffinityLabel != "" {
		out["affinityLabel"] = d.Hosts.AffinityLabel
	}

	if len(d.Hosts.Names) > 0 {
		out["hostNames"] = strings.Join(d.Hosts.Names, ",")
	}

	if len(out) == 0 {
		return nil
	}

	return out
}
