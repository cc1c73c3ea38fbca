package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	// memory is the memory in bytes of machines that do not set it. Machines of this project always set it.
	memory = 2 << 30
	// cleanupLimit bounds the cleanup after a failure.
	cleanupLimit = 10 * time.Minute
)

// Template defines a VM template to create.
type Template struct {
	// Name and Description are those of the template.
	Name, Description string
	// DataCenter is the data center of the template. ClusterID and DiskID are UUIDs in the engine.
	DataCenter        *engine.DataCenter
	ClusterID, DiskID string
	// OSType is the operating system, as the engine spells it.
	OSType string
	// Run is the UUID that marks intermediate objects.
	Run string
}

// ExistsError reports an existing template with the same name.
type ExistsError struct{ Name, DataCenter, ID string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("template %q already exists in data center %q (%s); use another name, or delete it",
		e.Name, e.DataCenter, e.ID)
}

// checkFree returns an ExistsError if the data center already has a template with this name.
func checkFree(ctx context.Context, session *engine.Client, dc *engine.DataCenter, name string) error {
	there, err := session.FindTemplates(ctx, dc, name)
	if err != nil || len(there) == 0 {
		return err
	}

	return &ExistsError{name, dc.Name, there[0].ID.String()}
}

// MakeTemplate creates a template, and returns its UUID. If it fails, it leaves nothing behind, or the error names what
// is left. It never changes the disk. dir is a working directory for the run.
func MakeTemplate(
	ctx context.Context,
	session *engine.Client,
	executor workspace.Executor,
	at render.Engine,
	template Template,
	dir string,
) (string, error) {
	if err := checkFree(ctx, session, template.DataCenter, template.Name); err != nil {
		return "", err
	}

	s := &subject{engine: at, template: template}
	state := &inMemory{}
	root := &workspace.Root{Executor: executor, Keeper: state, Dir: dir}
	_, failed := root.Apply(ctx, s, "")
	if failed == nil && s.made == "" {
		failed = errors.New("the run succeeded, but the template is missing")
	}

	// Keep the template, and remove its source VM.
	if failed == nil {
		if failed = state.dropResources("ovirt_template"); failed != nil {
			return "", failed
		}
	}

	// The cleanup must always run, even if the context has ended.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	_, err := root.Destroy(cleanup, s)
	if err != nil {
		err = fmt.Errorf("failed to delete the temporary objects with the comment %q: %w", s.ownerComment(), err)
	}

	if failed != nil {
		return "", errors.Join(failed, err)
	}

	return s.made, err
}

// subject is a template together with its source VM.
type subject struct {
	engine   render.Engine
	template Template
	// made is the UUID of the template after its creation.
	made string
}

// ownerComment returns the comment that marks the objects of the run.
func (s *subject) ownerComment() string {
	return ownerMark + s.template.Run + ofTemplate + s.template.Name
}

// Render renders the template. The name of the VM is unique to the run.
func (s *subject) Render(context.Context, *tfstate.State) (workspace.Configuration, error) {
	configuration, err := render.ImageConfiguration(render.Image{
		Engine:      s.engine,
		Name:        s.template.Name,
		Description: s.template.Description,
		VMName:      "image-" + s.template.Run[:8],
		Comment:     s.ownerComment(),
		ClusterID:   s.template.ClusterID,
		DiskID:      s.template.DiskID,
		OSType:      s.template.OSType,
		Memory:      memory,
	})
	if err != nil {
		return workspace.Configuration{}, err
	}

	return workspace.Configuration{
		Configuration: configuration,
		Owner:         s.ownerComment(),
		Secrets:       []string{s.engine.Password},
		Fresh:         true,
		Applied: func(_ context.Context, address, id string) {
			if address == render.TemplateAddress.String() {
				s.made = id
			}
		},
	}, nil
}

// RenderDestroy renders only the provider.
func (s *subject) RenderDestroy(context.Context) (workspace.Configuration, error) {
	configuration, err := render.DestroyConfiguration(s.engine, render.ImageTemplate)

	return workspace.Configuration{
		Configuration: configuration,
		Owner:         s.ownerComment(),
		Secrets:       []string{s.engine.Password},
	}, err
}

// Outdated returns false, because no object requests the template.
func (s *subject) Outdated(client.Object) bool { return false }

// RemoveOrphans removes nothing: the state is in memory, so only the end of the process loses it.
func (s *subject) RemoveOrphans(context.Context, terraform.Operation, *tfstate.State, workspace.LoadFunc) error {
	return nil
}

// inMemory stores the state of one run.
type inMemory struct{ raw []byte }

// Load parses the last saved state.
func (m *inMemory) Load(context.Context) (*tfstate.State, error) {
	if len(m.raw) == 0 {
		return nil, nil
	}

	return tfstate.Parse(m.raw)
}

// Save stores the state.
func (m *inMemory) Save(_ context.Context, raw []byte, _ string) error {
	m.raw = raw
	return nil
}

// MarkApplied does nothing, because there is only one run.
func (m *inMemory) MarkApplied(context.Context, string) error { return nil }

// MarkChanging does nothing, like MarkApplied.
func (m *inMemory) MarkChanging(context.Context, string, string) error { return nil }

// dropResources removes all resources of a type from the state, so a destroy does not delete them.
func (m *inMemory) dropResources(kind string) error {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(m.raw, &whole); err != nil {
		return fmt.Errorf("failed to read the state: %w", err)
	}

	var resources []json.RawMessage
	if err := json.Unmarshal(whole["resources"], &resources); err != nil {
		return fmt.Errorf("failed to read the resources of the state: %w", err)
	}

	kept := []json.RawMessage{}

	for _, resource := range resources {
		var head struct{ Type string }
		if err := json.Unmarshal(resource, &head); err != nil {
			return fmt.Errorf("failed to read a resource of the state: %w", err)
		}

		if head.Type != kind {
			kept = append(kept, resource)
		}
	}

	var err error
	if whole["resources"], err = json.Marshal(kept); err != nil {
		return fmt.Errorf("failed to write the resources of the state: %w", err)
	}

	m.raw, err = json.Marshal(whole)

	return err
}
