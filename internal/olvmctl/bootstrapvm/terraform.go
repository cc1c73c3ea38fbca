package bootstrapvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localroot"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// CreateOrResume creates the VM with Terraform, or continues an interrupted creation. It first saves the settings of
// the VM.
func (v *VM) CreateOrResume(ctx context.Context, config engine.Config) error {
	return v.runTerraform(ctx, config, func(root *workspace.Root, s *subject) error {
		if err := v.checkOnly(); err != nil {
			return err
		}

		if err := v.saveFiles(); err != nil {
			return err
		}

		if err := s.resolveNames(ctx); err != nil {
			return err
		}

		_, err := root.Apply(ctx, s, v.UID)

		return err
	})
}

// checkOnly returns an error if another command has meanwhile decided the settings of the VM.
func (v *VM) checkOnly() error {
	kept, err := Find(v.Namespace, v.Cluster)
	if err == nil && kept != nil && kept.UID != v.UID {
		err = fmt.Errorf(
			"another olvmctl has started to create the bootstrap VM %s; run the command again to continue", v.Name())
	}

	return err
}

// Remove destroys the VM with Terraform, and removes its saved files. If it fails, the error names what is left.
func (v *VM) Remove(ctx context.Context, config engine.Config) error {
	destroyed := false
	err := v.runTerraform(ctx, config, func(root *workspace.Root, s *subject) error {
		if err := v.checkOnly(); err != nil {
			return err
		}

		if _, err := root.Destroy(ctx, s); err != nil {
			return err
		}

		destroyed = true

		return v.removeFiles() // no other command can start to create a VM now
	})
	if err != nil && !destroyed {
		return fmt.Errorf("failed to remove the bootstrap VM %s: %w", v.Name(), err)
	}

	return err
}

// runTerraform calls do with everything needed to run Terraform. Only one process at a time runs it.
func (v *VM) runTerraform(ctx context.Context, config engine.Config, do func(*workspace.Root, *subject) error) error {
	return v.withLock(func() error {
		return localroot.AtEngine(ctx, config, func(session *engine.Client, local *localroot.Runner) error {
			root := &workspace.Root{
				Executor: local.Executor, Keeper: keeper{v}, Dir: filepath.Join(local.Dir, "vm"),
			}

			return do(root, &subject{vm: v, session: session, config: config})
		})
	})
}

// withLock calls do while no other process creates or removes the VM.
func (v *VM) withLock(do func() error) error {
	release, err := filelock.TakeFile(v.lockFile())
	if errors.Is(err, filelock.ErrHeld) {
		return errors.New("another olvmctl is creating or removing the bootstrap VM; wait until it is complete")
	}

	if err != nil {
		return fmt.Errorf("failed to lock the bootstrap VM: %w (set XDG_STATE_HOME)", err)
	}

	defer func() {
		release()

		_ = os.Remove(filepath.Dir(v.dir)) // the folder of the namespace, if it is empty
	}()

	return do()
}

// subject is the VM for a run of Terraform.
type subject struct {
	vm      *VM
	session *engine.Client
	config  engine.Config
	built   *desired.Built
}

// resolveNames resolves the names of the VM in the engine.
func (s *subject) resolveNames(ctx context.Context) error {
	v := s.vm
	nics, err := addressing.BuildNICs(v.Machine, v.OLVMCluster)
	if err != nil {
		return err
	}

	s.built, err = desired.Build(ctx, s.session, desired.Input{
		Spec:              v.Machine,
		Cluster:           v.OLVMCluster,
		KubernetesVersion: v.Version,
		VMName:            v.Name(),
		Owner:             v.ownerMark(),
		NICs:              nics,
		Addresses:         map[string][]addressrange.Address{v.NIC: v.Addresses},
		Role:              infrav1.ControlPlaneRole,
		FailureDomain:     v.FailureDomain,
		Config:            s.config,
		Bootstrap: &desired.Bootstrap{
			Source:  "the bootstrap VM",
			Data:    v.Data,
			Format:  v.Format,
			Extra:   v.Extra,
			Network: v.Network,
		},
	})

	return err
}

// Render renders the VM. It adopts objects created by an interrupted run.
func (s *subject) Render(ctx context.Context, state *tfstate.State) (workspace.Configuration, error) {
	out := workspace.Configuration{
		Owner:   s.vm.ownerMark().Comment(),
		Secrets: []string{s.config.Password, s.built.Machine.UserData, string(s.vm.Data)},
		Names:   []string{s.vm.Name()},
		Guard:   s.refuseReplacement,
	}

	var found *desired.Existing

	if !state.IsComplete() {
		existing, err := desired.FindExisting(ctx, s.session, s.vm.OLVMCluster.OLVMDatacenterName, s.vm.Name(),
			s.vm.Machine)
		if err != nil {
			return out, err
		}

		if found, err = existing.FilterOwned(s.vm.ownerMark().Comment(), engine.ID(state.VMID())); err != nil {
			return out, err
		}

		found = found.WithState(state)
	}

	out.Fresh = state == nil && found == nil
	var err error
	out.Configuration, err = s.built.RenderConfiguration(ctx, s.session, found)

	return out, err
}

// refuseReplacement rejects the replacement of a VM that may know machines of the cluster.
func (s *subject) refuseReplacement(change terraform.Change) string {
	switch {
	case !s.vm.Asked:
		return ""
	case change.Action == "delete" || change.Action == "replace":
		return change.Action
	case change.Action == "create" && change.Type == "ovirt_vm":
		return "create again"
	}

	return ""
}

// RenderDestroy renders only the provider.
func (s *subject) RenderDestroy(context.Context) (workspace.Configuration, error) {
	configuration, err := render.DestroyConfiguration(connection.RenderEngine(s.session, s.config), render.OwnVM)

	return workspace.Configuration{
		Configuration: configuration,
		Owner:         s.vm.ownerMark().Comment(),
		Secrets:       []string{s.config.Password, string(s.vm.Data)},
	}, err
}

// Outdated returns false, because the settings of the VM are final.
func (s *subject) Outdated(client.Object) bool { return false }

// RemoveOrphans removes a VM that a killed run has created, but not recorded in the state.
func (s *subject) RemoveOrphans(
	ctx context.Context, operation terraform.Operation, before *tfstate.State, _ workspace.LoadFunc,
) error {
	if operation != terraform.Destroy || !before.Empty() {
		return nil
	}

	return desired.Orphan{
		DataCenter: s.vm.OLVMCluster.OLVMDatacenterName,
		Name:       s.vm.Name(),
		Comment:    s.vm.ownerMark().Comment(),
	}.Remove(ctx, s.session)
}

// keeper stores the Terraform state in a file.
type keeper struct{ vm *VM }

// Load reads the state. It returns nil if there is none.
func (k keeper) Load(context.Context) (*tfstate.State, error) {
	raw, err := os.ReadFile(k.vm.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("failed to read the state of the bootstrap VM: %w", err)
	}

	state, err := tfstate.Parse(raw)
	if err == nil && k.vm.Made {
		state.AppliedDigest = k.vm.UID
	}

	return state, err
}

// Save writes the state.
func (k keeper) Save(_ context.Context, raw []byte, _ string) error {
	if err := writeFile(k.vm.stateFile(), raw); err != nil {
		return fmt.Errorf("failed to save the state of the bootstrap VM: %w", err)
	}

	return nil
}

// MarkApplied records that the VM is complete.
func (k keeper) MarkApplied(context.Context, string) error {
	k.vm.Made = true
	return k.vm.saveFiles()
}

// MarkChanging records that the VM may have objects missing from the state.
func (k keeper) MarkChanging(context.Context, string, string) error {
	k.vm.Made = false
	return k.vm.saveFiles()
}
