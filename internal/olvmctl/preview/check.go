package preview

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
)

// CheckEngine checks that the engine has everything named by the manifests, and that the machines' addresses are free.
// It checks one machine of each owner, and returns the errors of all owners.
func CheckEngine(ctx context.Context, objects []*unstructured.Unstructured, credentials Credentials) []error {
	input, err := planinput.LoadObjects(objects)
	if err != nil {
		return []error{err}
	}

	manifests := NewManifests(input)

	machines, err := manifests.Machines()
	if err != nil {
		return []error{err}
	}

	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	if errs := CheckNames(ctx, manifests, machines, credentials, sessions); len(errs) > 0 {
		return errs
	}

	return FindTakenAddresses(ctx, manifests, machines, credentials, sessions)
}

// CheckNames checks that the engine has everything needed by the machines. It returns at most one error for each owner,
// because all machines of an owner need the same.
func CheckNames(
	ctx context.Context, m *Manifests, machines []Machine, credentials Credentials, sessions *engine.Sessions,
) []error {
	var errs []error
	var failed []string

	for _, machine := range machines {
		if slices.Contains(failed, machine.From) {
			continue
		}

		one := []Machine{machine}
		_, refused, err := m.renderAll(ctx, one, nil, m.collectHeld(one), credentials, sessions)
		if err != nil { // the error affects all machines
			return append(errs, err)
		}

		if len(refused) > 0 {
			failed = append(failed, machine.From)
			errs = append(errs, refused[0].Err)
		}
	}

	return errs
}
