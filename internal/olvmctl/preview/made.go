package preview

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// endings match the suffixes that Cluster API adds to an owner's name to name a machine.
var endings = map[string]*regexp.Regexp{
	"KubeadmControlPlane": regexp.MustCompile(`^-[a-z0-9]{5}$`),
	"MachineDeployment":   regexp.MustCompile(`^-[a-z0-9]+-[a-z0-9]{5}$`),
}

// FindVMOwners returns the owners of existing VMs whose names match the manifests' owners of machines. If the
// management cluster does not know such a machine, the VM belongs to another management cluster.
func FindVMOwners(
	ctx context.Context, objects []*unstructured.Unstructured, credentials Credentials,
) ([]ownermark.Owner, error) {
	input, err := planinput.LoadObjects(objects)
	if err != nil {
		return nil, err
	}

	manifests := NewManifests(input)

	machines, err := manifests.Machines()
	if err != nil {
		return nil, err
	}

	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	var out []ownermark.Owner
	var asked []string
	vms := map[*engine.Client][]engine.VM{}

	for i := range machines {
		machine := &machines[i]
		if slices.Contains(asked, machine.From) {
			continue
		}

		asked = append(asked, machine.From)
		config, err := manifests.engineConfig(machine.engine(), credentials)
		if err != nil {
			return nil, err
		}

		session, err := sessions.Get(config)
		if err != nil {
			return nil, err
		}

		if _, known := vms[session]; !known {
			if vms[session], err = session.ListVMs(ctx); err != nil {
				return nil, err
			}
		}

		for j := range vms[session] {
			owner, ok := ownermark.ParseOwner(vms[session][j].CommentText())
			if ok && owner.Namespace == machine.Namespace && isMachineOf(owner.Name, machine.From) {
				out = append(out, owner)
			}
		}
	}

	return out, nil
}

// isMachineOf reports whether Cluster API could give the name to a machine of an owner. from is the owner as Kind/name.
func isMachineOf(name, from string) bool {
	kind, owner, _ := strings.Cut(from, "/")
	ending, ok := strings.CutPrefix(name, owner)

	return ok && endings[kind] != nil && endings[kind].MatchString(ending)
}
