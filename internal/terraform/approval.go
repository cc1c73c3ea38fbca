package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// approval is the decision about a run's plan. The provider waits for it before each change, because Terraform does not
// pause between the plan and the apply.
type approval struct {
	once    sync.Once
	decided chan struct{}
	err     error // the reason for a refusal; read only after decided is closed
}

func newApproval() *approval { return &approval{decided: make(chan struct{})} }

// recordDecision accepts the plan, or refuses it with an error. The first decision counts.
func (a *approval) recordDecision(err error) {
	a.once.Do(func() {
		a.err = err
		close(a.decided)
	})
}

// awaitDecision blocks until the decision. It returns nil if the plan is accepted, or else the reason for the refusal.
func (a *approval) awaitDecision(ctx context.Context) error {
	select {
	case <-a.decided:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errRunEnded refuses changes that the provider requests after the end of a run.
var errRunEnded = errors.New("the run has ended")

// UndeclaredError reports that a plan changes a resource the configuration does not declare. Nothing was applied.
type UndeclaredError struct {
	// Change is the planned change.
	Change Change
}

func (e *UndeclaredError) Error() string {
	return fmt.Sprintf(
		"the plan would %s %s, which the configuration does not declare; nothing was applied. This is a bug of "+
			"Cluster API Provider OLVM: please report it, with the configuration",
		e.Change.Action, e.Change.Address,
	)
}

// UnknownTypeError reports that a state has a resource of a type no configuration of this kind uses. Terraform was not
// started.
type UnknownTypeError struct {
	// Type is the type of the resource.
	Type string
}

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf(
		"the state contains a resource of type %q, which Cluster API Provider OLVM does not use here; the state was "+
			"edited. Remove the resource from the state, or restore the state from a backup",
		e.Type,
	)
}

// collectContents returns the types of all resources in a configuration and a state, and the IDs of the VMs in the
// state. Both lists are sorted. Anyone with access to the Secret can edit a state, so collectContents refuses types
// that configurations of this kind do not use. For example, nothing in the state of a claimed VM can delete the VM.
func collectContents(configuration render.Configuration, state []byte) (types, vms []string, err error) {
	for _, address := range configuration.Resources {
		types = append(types, address.Type())
	}

	var stored struct {
		Resources []struct {
			Type      string `json:"type"`
			Instances []struct {
				Attributes struct {
					ID   string `json:"id"`
					VMID string `json:"vm_id"`
				} `json:"attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}

	_ = json.Unmarshal(state, &stored) // the loader of the state reports invalid JSON
	known := configuration.Kind.Types()

	for _, resource := range stored.Resources {
		if !slices.Contains(known, resource.Type) {
			return nil, nil, &UnknownTypeError{Type: resource.Type}
		}

		types = append(types, resource.Type)

		for _, instance := range resource.Instances {
			id := instance.Attributes.VMID
			if resource.Type == render.VMAddress.Type() {
				id = instance.Attributes.ID
			}

			if id != "" {
				vms = append(vms, id)
			}
		}
	}

	slices.Sort(types)
	slices.Sort(vms)

	return slices.Compact(types), slices.Compact(vms), nil
}

// resourceJSON identifies a resource in the executor's JSON output.
type resourceJSON struct {
	Addr   string `json:"addr"`
	Module string `json:"module"`
	// Resource is the address within the module.
	Resource string `json:"resource"`
	Type     string `json:"resource_type"`
	Name     string `json:"resource_name"`
	// Key is a string or a number. It is nil if the resource has only one instance.
	Key any `json:"resource_key"`
}

// toAddress returns the resource's address in the form of package render. It returns false if package render never
// writes such an address.
func (r resourceJSON) toAddress() (render.Address, bool) {
	out := render.NewAddress(r.Type, r.Name)
	if strings.HasPrefix(r.Resource, "data.") {
		out = out.AsData()
	}

	if module, found := strings.CutPrefix(r.Module, "module."); found {
		out = out.InModule(module)
	} else if r.Module != "" {
		return render.Address{}, false
	}

	if r.Key == nil {
		return out, true
	}

	key, ok := r.Key.(string)

	return out.WithKey(key), ok
}

// expectations are the changes that a plan may have.
type expectations struct {
	declared map[render.Address]bool
	destroy  bool
}

func newExpectations(request Request) expectations {
	out := expectations{declared: map[render.Address]bool{}, destroy: request.Destroy}
	for _, address := range request.Resources {
		out.declared[address] = true
	}

	return out
}

// checkChange returns an error if the configuration does not declare the resource of a planned change. It accepts
// deletions, because Request.Guard decides about them.
func (e expectations) checkChange(resource resourceJSON, change Change) error {
	if change.Action == "delete" {
		return nil
	}

	address, ok := resource.toAddress()
	if e.destroy || !ok || !e.declared[address] {
		return &UndeclaredError{Change: change}
	}

	return nil
}
