package terraform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/redact"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	// stopGrace is the time between the interrupt of an executor and its kill. The longest operation that ignores the
	// interrupt is one request to the engine.
	stopGrace = 45 * time.Second
)

// Provider serves a Terraform provider for one run.
type Provider interface {
	// Serve starts an endpoint for a run. It returns the configuration to attach to it, and a function that ends it.
	// The function waits for all current calls.
	Serve(ctx context.Context, use Use) (*plugin.ReattachConfig, func(), error)
	// Address returns the provider's address in configurations.
	Address() string
}

// Use describes what a run may do with its provider. The provider refuses everything else, regardless of the executor's
// requests.
type Use struct {
	// Owner is the owner of the run's resources. It may be empty.
	Owner string
	// Types are the types of the resources and data sources in the run's configuration and state.
	Types []string
	// StateVMs are the IDs of the VMs in the run's state.
	StateVMs []string
	// Engine is the only engine that the run may use.
	Engine render.Engine
	// Approved waits for the decision about the run's plan, and returns an error if the plan is refused. The provider
	// changes nothing before the decision.
	Approved func(ctx context.Context) error
}

// Executor performs runs, each in its own working directory.
type Executor struct {
	// StopGrace is the time between the interrupt of a run and its kill. 0 means 45 s.
	StopGrace time.Duration

	executable Executable
	provider   Provider
	scratch    string
	confines   bool // whether runs are confined

	mu      sync.Mutex
	modules map[string][]byte // modules.json by the digest of the modules' files
	slots   int
	free    []*slot
}

// slot is an executor whose version is already known. Its folder is a link to the working directory of the current run.
// terraform-exec asks each new executor for its version, and an executor belongs to one folder. To ask again for each
// run would cost half as much as a plan.
type slot struct {
	tf   *tfexec.Terraform
	link string
}

// NewExecutor returns an executor. It prepares its own files in the folder scratch.
func NewExecutor(executable Executable, provider Provider, scratch string) *Executor {
	return &Executor{
		executable: executable,
		provider:   provider,
		scratch:    scratch,
		confines:   confine.Version() > 0 && isBinary(executable.Path),
		modules:    map[string][]byte{},
	}
}

// Request describes one run.
type Request struct {
	// Configuration is the configuration to apply. The executor refuses a run that would touch an undeclared resource.
	render.Configuration

	// Dir is the working directory. No other run may use it at the same time.
	Dir string
	// Owner is the owner of the run's resources. The provider records it. Owner may be empty.
	Owner string
	// Secrets are redacted from all output. Names are not, even if a name contains a secret.
	Secrets, Names []string
	// State is the state before the run, or nil.
	State []byte
	// Destroy requests that the run deletes everything in the state.
	Destroy bool
	// Fresh reports that none of the wanted resources exists and that there is no state. The plan can then only create
	// resources, so one process plans and applies, without asking the guard. This halves the cost of a machine. A
	// destruction works in the same way.
	Fresh bool
	// Guard checks each planned change. An answer other than "" refuses the plan.
	Guard func(Change) (refusal string)
	// Confirm is called after the plan is accepted, and before anything is applied. An error ends the run. A nil
	// Confirm allows every run.
	Confirm func(ctx context.Context) error
	// Applied is called with the address and ID of each new resource as soon as it exists.
	Applied func(ctx context.Context, address, id string)
	// SaveState is called with the new state at the end. With Terraform, it is also called as soon as a resource
	// accepted by Keeps exists. OpenTofu writes its local state only at the end. done reports whether the run has
	// succeeded. SaveState must make the state durable. Its error does not stop the run, because the VM exists all the
	// same. The run returns the error.
	SaveState func(ctx context.Context, state []byte, done bool) error
	// Keeps reports whether to save the state as soon as the resource at this address exists. A nil Keeps saves it
	// after each resource.
	Keeps func(address string) bool
}

// Plan is the plan of a run.
type Plan struct {
	// Changes are the planned changes, without unchanged resources.
	Changes []Change
	// Outside are the changes made in the engine since the state was written.
	Outside []Drift
	// Text is the plan in the form for users.
	Text string
	// JSON is the plan in the form for programs.
	JSON *tfjson.Plan
}

// Summary counts the changes of a run.
type Summary struct {
	Added, Changed, Destroyed, Imported int
	// Planned are the changes of the plan, even if the plan was refused or not completely applied.
	Planned []Change
	// Drift is the result of a check.
	Drift []Drift
}

// Empty reports whether the run changed nothing.
func (s Summary) Empty() bool { return s.Added+s.Changed+s.Destroyed+s.Imported == 0 }

// Plan creates a plan, and leaves the working directory ready for manual use. It removes the secrets and the plan file.
func (x *Executor) Plan(ctx context.Context, request Request) (*Plan, error) {
	run, err := x.openRun(ctx, request)
	if err != nil {
		return nil, err
	}
	defer run.cleanUp()
	events, err := run.executePlan(ctx)
	if err != nil {
		return nil, err
	}

	out := &Plan{Changes: filterEffective(events.planned)}
	if out.JSON, err = run.readPlan(ctx); err != nil {
		return nil, err
	}

	var text string
	err = run.confined(func() error {
		text, err = run.tf.ShowPlanFileRaw(ctx, planFile, run.reattach)

		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to read the plan: %s", run.redact(err.Error()))
	}

	out.Text, out.Outside = run.redact(text), collectDrift(out.JSON, false)

	return out, nil
}

// Check creates a plan, and returns the differences between the engine and the state or configuration.
func (x *Executor) Check(ctx context.Context, request Request) ([]Drift, error) {
	run, err := x.openRun(ctx, request)
	if err != nil {
		return nil, err
	}
	defer run.cleanUp()

	run.operation = Check
	if _, err := run.executePlan(ctx); err != nil {
		return nil, err
	}

	plan, err := run.readPlan(ctx)
	if err != nil {
		return nil, err
	}

	return collectDrift(plan, true), nil
}

// readPlan returns the plan.
func (r *run) readPlan(ctx context.Context) (plan *tfjson.Plan, err error) {
	err = r.confined(func() error {
		plan, err = r.tf.ShowPlanFile(ctx, planFile, r.reattach)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to read the plan: %s", r.redact(err.Error()))
	}

	return plan, nil
}

// Apply creates a plan, asks the guard, and applies exactly this plan. Even if it fails, it returns the changes it has
// made.
func (x *Executor) Apply(ctx context.Context, request Request) (Summary, error) {
	run, err := x.openRun(ctx, request)
	if err != nil {
		return Summary{}, err
	}
	defer run.cleanUp()
	var what tfexec.ApplyOption = tfexec.Destroy(request.Destroy)
	var planned []Change
	plans := !request.Destroy && (!request.Fresh || run.resumed)
	if plans {
		if planned, err = run.planGuarded(ctx); err != nil {
			return Summary{Planned: planned}, err
		}

		what = tfexec.DirOrPlan(planFile)
	}

	if request.Confirm != nil {
		if err := request.Confirm(ctx); err != nil {
			return Summary{Planned: planned}, err
		}
	}

	if plans {
		run.approval.recordDecision(nil)
	}

	summary, err := run.executeApply(ctx, what)
	if plans { // the executor does not report a plan applied from a file again
		summary.Planned = planned
	}

	return summary, err
}

// filterEffective returns the changes that have an effect.
func filterEffective(planned []Change) []Change {
	return slices.DeleteFunc(slices.Clone(planned), func(c Change) bool {
		return c.Action == "noop" ||
			c.Action == "read" || c.Action == "move"
	})
}

// run is one use of a working directory.
type run struct {
	Request
	// operation is the operation of the run, for metrics.
	operation Operation
	// expected are the changes the plan may have. approval is the decision about the plan.
	expected expectations
	approval *approval
	// writesAtOnce reports whether the executor writes its state after each resource. resumed reports whether an
	// earlier run has left a state.
	writesAtOnce, resumed bool

	// confined calls its argument. An executor that the argument starts can access only the working directory.
	confined func(func() error) error
	tf       *tfexec.Terraform
	reattach *tfexec.ReattachOption
	stop     func() // ends the provider's endpoint
	leave    func() // returns the slot
	redact   func(string) string
}

// holder is a Provider that may have its own credentials.
type holder interface {
	// HoldsCredentials reports whether runs can do without credentials in the configuration.
	HoldsCredentials() bool
}

// openRun prepares the working directory and the provider.
func (x *Executor) openRun(ctx context.Context, request Request) (*run, error) {
	credentials := request.Engine
	if own, ok := x.provider.(holder); ok && own.HoldsCredentials() {
		request.Configuration = request.WithoutCredentials()
	}

	if err := checkSpace(x.scratch); err != nil {
		return nil, err
	}

	modules, err := x.loadModuleManifest(ctx, request.Files)
	if err != nil {
		return nil, err
	}

	state, resumed, err := x.prepareDir(request)
	if err != nil {
		return nil, err
	}

	opened, err := x.openPrepared(ctx, request, credentials, state, modules)
	if err != nil {
		return nil, errors.Join(err, removeSecrets(request.Dir, resumed))
	}

	opened.resumed = resumed

	return opened, nil
}

// openPrepared sets up the executor and the provider for a working directory that already has all its files. modules is
// the manifest of the modules, or nil.
func (x *Executor) openPrepared(
	ctx context.Context, request Request, credentials render.Engine, state, modules []byte,
) (*run, error) {
	types, vms, err := collectContents(request.Configuration, state)
	if err != nil {
		return nil, err
	}

	if err := recordOrigin(request.Dir, request.State); err != nil {
		return nil, err
	}

	if modules != nil {
		if err := writeFile(request.Dir, ".terraform/modules/modules.json", modules); err != nil {
			return nil, err
		}
	}

	tf, leave, err := x.setUpTerraform(request.Dir)
	if err != nil {
		return nil, err
	}

	accepted := newApproval()
	reattach, stop, err := x.attachProvider(ctx, Use{
		Owner:    request.Owner,
		Types:    types,
		StateVMs: vms,
		Engine:   credentials,
		Approved: accepted.awaitDecision,
	})
	if err != nil {
		leave()
		return nil, err
	}

	return &run{
		Request:      request,
		expected:     newExpectations(request),
		approval:     accepted,
		writesAtOnce: x.executable.Product == terraformProduct,
		tf:           tf,
		reattach:     reattach,
		stop:         stop,
		leave:        leave,
		redact:       redact.New(request.Secrets, request.Names...).RemoveSecrets,
		confined:     func(do func() error) error { return x.runConfined(request.Dir, do) },
	}, nil
}

// setUpTerraform sets up an executor for a folder. The caller returns its slot with leave.
func (x *Executor) setUpTerraform(dir string) (tf *tfexec.Terraform, leave func(), err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, fmt.Errorf("failed to find the working directory: %w", err)
	}

	s := x.acquireSlot()
	defer func() {
		if err != nil {
			x.releaseSlot(s)
		}
	}()

	if err := errors.Join(os.RemoveAll(s.link), os.Symlink(dir, s.link)); err != nil {
		return nil, nil, wrapDiskError(dir, fmt.Errorf("failed to link the working directory: %w", err))
	}

	if s.tf == nil {
		if s.tf, err = tfexec.NewTerraform(s.link, x.executable.Path); err != nil {
			return nil, nil, fmt.Errorf("failed to set up %s: %w", x.executable.Product, err)
		}

		if err := s.tf.SetWaitDelay(cmp.Or(x.StopGrace, stopGrace)); err != nil {
			return nil, nil, fmt.Errorf("failed to set the grace period: %w", err)
		}
	}

	if err := s.tf.SetEnv(buildEnvironment(dir)); err != nil {
		return nil, nil, errors.New("failed to set the environment of the executor") // err would show the environment
	}

	return s.tf, func() { x.releaseSlot(s) }, nil
}

// WarmUp sets up executors in advance. It asks each for its version, so that runs need not wait for the answer.
func (x *Executor) WarmUp(ctx context.Context, concurrency int) error {
	if err := makeDir(x.scratch); err != nil {
		return err
	}

	dir, err := os.MkdirTemp(x.scratch, "warm-")
	if err != nil {
		return wrapDiskError(x.scratch, fmt.Errorf("failed to make a working directory: %w", err))
	}
	defer os.RemoveAll(dir)

	for range concurrency {
		tf, leave, err := x.setUpTerraform(dir)
		if err != nil {
			return err
		}
		defer leave() // at the end of WarmUp, so that each iteration gets another slot
		asked := x.runConfined(dir, func() error {
			_, _, err := tf.Version(ctx, false)
			return err
		})
		if asked != nil {
			return fmt.Errorf("failed to ask %s for its version: %w", x.executable, asked)
		}
	}

	return nil
}

func (x *Executor) acquireSlot() *slot {
	x.mu.Lock()
	defer x.mu.Unlock()
	if last := len(x.free) - 1; last >= 0 {
		s := x.free[last]
		x.free = x.free[:last]
		return s
	}

	x.slots++

	return &slot{link: filepath.Join(x.scratch, fmt.Sprintf("slot-%d", x.slots))}
}

func (x *Executor) releaseSlot(s *slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.free = append(x.free, s)
}

func (x *Executor) attachProvider(ctx context.Context, use Use) (*tfexec.ReattachOption, func(), error) {
	// The endpoint outlives the cancellation of the run, because an interrupted executor still sends it a request to
	// stop.
	config, stop, err := x.provider.Serve(context.WithoutCancel(ctx), use)
	if err != nil {
		return nil, nil, err
	}

	return tfexec.Reattach(tfexec.ReattachInfo{x.provider.Address(): tfexec.ReattachConfig{
		Protocol: string(config.Protocol), ProtocolVersion: config.ProtocolVersion, Pid: config.Pid, Test: config.Test,
		Addr: tfexec.ReattachConfigAddr{Network: config.Addr.Network(), String: config.Addr.String()},
	}}), stop, nil
}

func (r *run) executePlan(ctx context.Context) (*eventWriter, error) {
	ctx, cancel := r.limitOutput(ctx)
	defer cancel(nil)
	events := &eventWriter{redact: r.redact, check: r.expected.checkChange}
	err := r.executePhase(ctx, "plan", func(ctx context.Context) error {
		_, err := r.tf.PlanJSON(ctx, events, tfexec.Out(planFile), tfexec.Lock(false), tfexec.Destroy(r.Destroy),
			r.reattach)
		return err
	})

	if events.refused != nil {
		return events, events.refused
	}

	return events, r.toRunError(ctx, "plan", events, err)
}

// planGuarded creates a plan, and asks the guard about each change. It returns the changes even if the guard refuses
// them.
func (r *run) planGuarded(ctx context.Context) ([]Change, error) {
	events, err := r.executePlan(ctx)
	planned := filterEffective(events.planned)
	if err != nil || r.Guard == nil {
		return planned, err
	}

	for _, change := range planned {
		if refusal := r.Guard(change); refusal != "" {
			return planned, r.newGuardError(ctx, change, refusal)
		}
	}

	return planned, nil
}

func (r *run) executeApply(ctx context.Context, what tfexec.ApplyOption) (Summary, error) {
	keeper := &stateKeeper{run: r, ctx: context.WithoutCancel(ctx)}
	ctx, cancel := r.limitOutput(ctx)
	defer cancel(nil)
	events := &eventWriter{redact: r.redact, onApply: keeper.recordApplied, check: r.expected.checkChange}
	events.onPlanned = func(err error) {
		r.approval.recordDecision(err)
		if err != nil {
			cancel(err)
		}
	}
	err := r.executePhase(ctx, "apply", func(ctx context.Context) error {
		return r.tf.ApplyJSON(ctx, events, what, tfexec.Lock(false), r.reattach)
	})
	if err = r.toRunError(ctx, "apply", events, err); events.refused != nil {
		err = events.refused
	}

	err = errors.Join(err, keeper.saveFinal(err == nil))
	s := events.summary

	return Summary{
		Added:     s.add,
		Changed:   s.change,
		Destroyed: s.remove,
		Imported:  s.imported,
		Planned:   filterEffective(events.planned),
	}, err
}

// limitOutput interrupts the executor if it writes too much to its standard error, because terraform-exec keeps all of
// it in memory. terraform-exec does not keep the JSON on the standard output.
func (r *run) limitOutput(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.tf.SetStderr(&limitedWriter{left: maxStderr, full: func() { cancel(errTalkative) }})
	return ctx, cancel
}

// toRunError returns the error of a run, based on the executor's output and exit status.
func (r *run) toRunError(ctx context.Context, phase string, events *eventWriter, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return newInterruptedError(phase, events, context.Cause(ctx))
	case len(events.diagnostics) > 0:
		return &DiagnosticError{Phase: phase, Diagnostics: events.diagnostics}
	}

	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return &KilledError{Phase: phase, Signal: status.Signal()}
		}
	}

	return fmt.Errorf("terraform %s failed: %s", phase, r.redact(err.Error()))
}

// newInterruptedError returns the error of an interrupted run. After a timeout, it includes the diagnostics, because
// they show what the resources waited for.
func newInterruptedError(phase string, events *eventWriter, cause error) error {
	var timeout *TimeoutError
	if !errors.As(cause, &timeout) || len(events.diagnostics) == 0 {
		return fmt.Errorf("terraform %s was interrupted: %w", phase, cause)
	}

	waits := &DiagnosticError{Phase: phase, Diagnostics: events.diagnostics}

	return fmt.Errorf("terraform %s was interrupted: %w (%s)", phase, cause, waits.Error())
}

// newGuardError returns a GuardError with the attributes that force the replacement.
func (r *run) newGuardError(ctx context.Context, change Change, action string) error {
	refusal := &GuardError{Address: change.Address, Action: action}

	plan, err := r.readPlan(ctx)
	if err != nil {
		return refusal // the refusal is valid even without the reason
	}

	for _, planned := range plan.ResourceChanges {
		if planned.Address != change.Address || planned.Change == nil {
			continue
		}

		for _, path := range planned.Change.ReplacePaths {
			var steps []string
			for _, step := range toSlice(path) {
				steps = append(steps, fmt.Sprint(step))
			}

			refusal.Attributes = append(refusal.Attributes, strings.Join(steps, "."))
		}
	}

	slices.Sort(refusal.Attributes)

	return refusal
}

func toSlice(value any) []any {
	if list, ok := value.([]any); ok {
		return list
	}

	return []any{value}
}

// cleanUp ends the provider's endpoint, and cleans the working directory.
func (r *run) cleanUp() {
	r.approval.recordDecision(errRunEnded)
	r.stop()
	r.leave()
	if err := removeSecretFiles(r.Dir); err != nil {
		removeAllButUnsaved(r.Dir) // it is better to lose the configuration than to leave a secret behind
	}
}
