package bootstrapvm

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// apiServerPort is the port of the API server in the VM.
const apiServerPort = 6443

// Options describe the cluster that a bootstrap VM is for.
type Options struct {
	Namespace, Cluster string
	// Manifests are the manifests of the cluster.
	Manifests []*unstructured.Unstructured
	// Engine is the connection to the engine of the cluster. Its credentials are not saved.
	Engine engine.Config
}

// parts are the objects of the cluster needed for its bootstrap VM.
type parts struct {
	cluster     clusterv1.Cluster
	olvmCluster infrav1.OLVMCluster
	// services is nil if the manifests have none.
	services     *infrav1alpha1.OLVMSupportServices
	controlPlane controlplanev1.KubeadmControlPlane
	template     infrav1.OLVMMachineTemplate
}

// New returns the bootstrap VM for a cluster, with all settings decided. It saves nothing, and makes no requests to the
// engine. If the manifests lack objects, the error names these objects.
func New(o Options) (*VM, error) {
	found, err := partsOf(o)
	if err != nil {
		return nil, err
	}

	config := found.controlPlane.Spec.KubeadmConfigSpec
	v := &VM{dir: folderOf(o.Namespace, o.Cluster), record: record{
		Namespace:     o.Namespace,
		Cluster:       o.Cluster,
		UID:           uuid.NewString(),
		URL:           o.Engine.URL,
		CA:            o.Engine.CA,
		Insecure:      o.Engine.Insecure,
		Version:       found.controlPlane.Spec.Version,
		Machine:       machineOf(found.template),
		OLVMCluster:   clusterOf(found.olvmCluster.Spec),
		Network:       found.cluster.Spec.ClusterNetwork,
		FailureDomain: failureDomainOf(found.olvmCluster.Spec),
		Format:        cmp.Or(bootstrap.Format(config.Format), bootstrap.CloudConfig),
	}}

	if err := v.chooseAddresses(o, found); err != nil {
		return nil, err
	}

	if v.Extra, err = extraOf(o, v.Machine, v.OLVMCluster); err != nil {
		return nil, err
	}

	return v, v.buildUserData(o, found)
}

// partsOf finds the objects of the cluster.
func partsOf(o Options) (parts, error) {
	var out parts
	if err := findManifest(o, "Cluster", o.Cluster, &out.cluster); err != nil {
		return out, err
	}

	owner := out.cluster.Spec.ControlPlaneRef
	if owner.Kind != "KubeadmControlPlane" {
		return out, manifestError(
			"spec.controlPlaneRef of Cluster %s is not a KubeadmControlPlane, whose machines the VM is based on; "+
				"use another management cluster",
			o.Cluster,
		)
	}

	if err := findManifest(o, owner.Kind, owner.Name, &out.controlPlane); err != nil {
		return out, err
	}

	template := out.controlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.Name
	err := errors.Join(
		findManifest(o, "OLVMCluster", out.cluster.Spec.InfrastructureRef.Name, &out.olvmCluster),
		findManifest(o, "OLVMMachineTemplate", template, &out.template),
	)
	if err == nil && out.template.Spec.Template.Spec.FromInventory != nil {
		err = manifestError(
			"the control plane machines take their VMs from an inventory, which the bootstrap VM does not support; " +
				"use another management cluster",
		)
	}

	var services infrav1alpha1.OLVMSupportServices
	if findManifest(o, support.Kind, o.Cluster, &services) == nil {
		out.services = &services
	}

	return out, err
}

// findManifest decodes the manifest of an object.
func findManifest(o Options, kind, name string, into any) error {
	for _, object := range o.Manifests {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}

		err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
		if err != nil {
			return manifestError("failed to read %s %s in %s: %w", kind, name, object.GetAPIVersion(), err)
		}

		return nil
	}

	return manifestError("%s %s not found in the manifests", kind, name)
}

// machineOf returns the spec of a control plane machine. It omits what machines share, and what only pods need.
func machineOf(template infrav1.OLVMMachineTemplate) infrav1.OLVMMachineSpec {
	out := *template.Spec.Template.Spec.DeepCopy()
	out.AdditionalNetworks = nil
	out.VirtualMachine.DataDisks = nil
	inlineUserData(out.UserData)

	return out
}

// inlineUserData makes the engine deliver the user data, because there is no manager yet.
func inlineUserData(data *infrav1.UserData) {
	if data != nil {
		data.BootstrapDelivery = ""
	}
}

// failureDomainOf returns the first failure domain of the control plane, or "" if there is none.
func failureDomainOf(cluster infrav1.OLVMClusterSpec) string {
	for _, domain := range cluster.FailureDomains {
		if domain.IsForControlPlane() {
			return domain.Name
		}
	}

	return ""
}

// clusterOf returns the infrastructure of the VM's own cluster. It is that of the planned cluster without the
// endpoints, because no machine may have their addresses.
func clusterOf(of infrav1.OLVMClusterSpec) infrav1.OLVMClusterSpec {
	out := *of.DeepCopy()
	out.ControlPlaneEndpoint = infrav1.APIEndpoint{}
	out.ControlPlaneServices = nil
	inlineUserData(out.UserData)

	return out
}

// chooseAddresses chooses the last addresses in the ranges of the control plane, because managers assign the lowest
// first.
func (v *VM) chooseAddresses(o Options, found parts) error {
	nics, err := addressing.BuildNICs(v.Machine, found.olvmCluster.Spec)
	if err != nil {
		return manifestError("%w", err)
	}

	if nics[0].Guest == nil || len(nics[0].Guest.Pools) == 0 {
		return manifestError(
			"the first network of OLVMMachineTemplate %s has no address ranges (ipAddresses) with an address for "+
				"the VM; add one",
			found.template.Name,
		)
	}

	used, err := addressesOf(o)
	if err != nil {
		return err
	}

	for _, virtual := range slices.Concat(addressing.CollectVirtualAddresses(found.olvmCluster.Spec),
		addressing.CollectSupportAddresses(found.olvmCluster.Spec, found.services)) {
		used = append(used, virtual.Address)
	}

	v.NIC = nics[0].VNICName

	for _, pool := range nics[0].Guest.Pools {
		last, err := pool.HighestFree(used)
		if err != nil {
			return manifestError(
				"%s of OLVMMachineTemplate %s: not enough addresses for the machines and the VM; add one",
				nics[0].Guest.Field, found.template.Name,
			)
		}

		v.Addresses = append(v.Addresses, pool.ToAddress(last))
	}

	// The API server uses the first address, so this address must have the family of the cluster's endpoint.
	endpoint, err := netip.ParseAddr(found.olvmCluster.Spec.ControlPlaneEndpoint.Host)
	if err == nil && v.Addresses[0].Is4() != endpoint.Is4() {
		slices.Reverse(v.Addresses)
	}

	return nil
}

// addressesOf returns the addresses that the machines of the cluster will get.
func addressesOf(o Options) ([]netip.Addr, error) {
	input, err := planinput.LoadObjects(o.Manifests)
	if err != nil {
		return nil, err
	}

	manifests := preview.NewManifests(input)

	machines, err := manifests.Machines()
	if err != nil {
		return nil, err
	}

	var out []netip.Addr

	for _, result := range preview.DescribeOffline(manifests, machines) {
		if result.Refused != "" {
			return nil, errors.New(result.Refused)
		}

		out = append(out, addressrange.ParseAll(result.Addresses)...)
	}

	return out, nil
}

// extraOf returns the additional configurations of users. The manifests must include the objects with these
// configurations.
func extraOf(o Options, machine infrav1.OLVMMachineSpec, cluster infrav1.OLVMClusterSpec) ([]bootstrap.Extra, error) {
	var out []bootstrap.Extra

	for i, extra := range desired.CollectUserData(machine, cluster).Extra {
		source, data := fmt.Sprintf("userData.extra[%d]", i), []byte(extra.Inline)
		var err error

		switch {
		case extra.SecretKeyRef != nil:
			data, err = valueOf(o, "Secret", extra.SecretKeyRef.Name, extra.SecretKeyRef.Key)
		case extra.ConfigMapKeyRef != nil:
			data, err = valueOf(o, "ConfigMap", extra.ConfigMapKeyRef.Name, extra.ConfigMapKeyRef.Key)
		}

		if err != nil {
			return nil, manifestError("%s: %w", source, err)
		}

		out = append(out, bootstrap.Extra{Source: source, Data: data})
	}

	return out, nil
}
