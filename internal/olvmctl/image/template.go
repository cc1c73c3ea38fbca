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
	// memory is the memory of machines without a setting, in bytes. This project always sets one.
	memory = 2 << 30
	// cleanupLimit limits the cleanup after a failure.
	cleanupLimit = 10 * time.Minute
)

// Template defines a template.
type Template struct {
	// Name and Description of the template.
	Name, Description string
	// DataCenter of the template. ClusterID and DiskID are UUIDs of the engine.
	DataCenter        *engine.DataCenter
	ClusterID, DiskID string
	// OSType in the engine's spelling.
	OSType string
	// Run is a UUID marking intermediate objects.
	Run string
}

// ExistsError reports an existing template of the same name.
type ExistsError struct{ Name, DataCenter, ID string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("there is a template %q already in data center %q (%s); choose another name, or delete it",
		e.Name, e.DataCenter, e.ID)
}

// checkFree returns an ExistsError if the data center has a template of this name.
func checkFree(ctx context.Context, session *engine.Client, dc *engine.DataCenter, name string) error {
	there, err := session.FindTemplates(ctx, dc, name)
	if err != nil || len(there) == 0 {
		return err
	}

	return &ExistsError{name, dc.Name, there[0].ID.String()}
}

// MakeTemplate creates a template and returns its UUID. If it fails, it leaves nothing behind, or the error names the
// leftovers; the disk stays unchanged. dir is a working directory for the run.
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
		failed = errors.New("the run ended well, and there is no template")
	}

	// The template stays; its source goes.
	if failed == nil {
		if failed = state.dropResources("ovirt_template"); failed != nil {
			return "", failed
		}
	}

	// The cleanup always runs, whatever ended the first run.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	_, err := root.Destroy(cleanup, s)
	if err != nil {
		err = fmt.Errorf("what the template was made of is left behind, with the comment %q: %w", s.ownerComment(), err)
	}

	if failed != nil {
		return "", errors.Join(failed, err)
	}

	return s.made, err
}

// subject is a template and its source VM.
type subject struct {
	engine   render.Engine
	template Template
	// made is the UUID of the template, once it exists.
	made string
}

// ownerComment returns the mark of the run's objects.
func (s *subject) ownerComment() string {
	return ownerMark + s.template.Run + ofTemplate + s.template.Name
}

// Render renders the template with a VM name unique to the run.
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

// RemoveOrphans removes nothing: the state is in memory, and lost only with the process.
func (s *subject) RemoveOrphans(context.Context, terraform.Operation, *tfstate.State, workspace.LoadFunc) error {
	return nil
}

// inMemory keeps the state of one run.
type inMemory struct{ raw []byte }

// Load parses the last saved state.
func (m *inMemory) Load(context.Context) (*tfstate.State, error) {
	if len(m.raw) == 0 {
		return nil, nil
	}

	return tfstate.Parse(m.raw)
}

// Save keeps the state.
func (m *inMemory) Save(_ context.Context, raw []byte, _ string) error {
	m.raw = raw
	return nil
}

// MarkApplied does nothing, because there is only one run.
func (m *inMemory) MarkApplied(context.Context, string) error { return nil }

// MarkChanging does nothing, like MarkApplied.
func (m *inMemory) MarkChanging(context.Context, string, string) error { return nil }

// dropResources removes resources of a type from the state, so destroying the state spares them.
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
