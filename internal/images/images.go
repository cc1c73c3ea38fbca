// Package images makes templates of virtual machines from disks, with Terraform: the module tfmodules/image.
package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	// memory in bytes of machines that do not say theirs; all of ours do.
	memory = 2 << 30
	// cleanupLimit bounds what is done after a failure.
	cleanupLimit = 10 * time.Minute
)

// Template says what to make.
type Template struct {
	// Name and Description of the template.
	Name, Description string
	// ClusterID and DiskID are UUIDs of the engine.
	ClusterID, DiskID string
	// OSType as the engine spells it.
	OSType string
}

// ExistsError says that there is a template of that name already.
type ExistsError struct{ Name, ID string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("there is a template %q already (%s); choose another name, or delete it", e.Name, e.ID)
}

// Make makes a template and returns its UUID. Where it fails, nothing is left behind, or the error says what; the disk
// stays as it is. dir is a working directory for the run.
func Make(
	ctx context.Context,
	client *engine.Client,
	executor *terraform.Executor,
	at render.Engine,
	template Template,
	dir string,
) (string, error) {
	there, err := client.FindTemplates(ctx, template.Name)
	if err != nil {
		return "", err
	}

	if len(there) > 0 {
		return "", &ExistsError{template.Name, there[0].ID.String()}
	}

	owner := "capolvm image " + uuid.NewString()
	files, err := render.ImageFiles(render.Image{
		Engine:      at,
		Name:        template.Name,
		Description: template.Description,
		VMName:      "image-" + strings.TrimPrefix(owner, "capolvm image ")[:8],
		Comment:     owner,
		ClusterID:   template.ClusterID, DiskID: template.DiskID, OSType: template.OSType, Memory: memory,
	})
	if err != nil {
		return "", err
	}

	var state []byte
	id := ""
	run := func(ctx context.Context, request terraform.Request) error {
		request.Dir = dir
		request.Owner = owner
		request.SecretFiles = []string{render.SecretsFile}
		request.Secrets = []string{at.Password}
		request.SaveState = func(_ context.Context, saved []byte) error {
			state = saved
			return nil
		}
		_, err := executor.Apply(ctx, request)

		return err
	}
	failed := run(ctx, terraform.Request{
		Files: files,
		Fresh: true,
		Applied: func(_ context.Context, address, made string) {
			if address == render.TemplateAddress.String() {
				id = made
			}
		},
	})
	if failed == nil && id == "" {
		failed = errors.New("the run ended well, and there is no template")
	}

	if failed == nil { // the template stays; what it was made of goes
		if state, failed = forget(state, "ovirt_template"); failed != nil {
			return "", failed
		}
	}

	if len(state) == 0 {
		return "", failed
	}

	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit) // whatever ended the run
	defer cancel()
	files, err = render.DestroyFiles(at)
	if err == nil {
		err = run(cleanup, terraform.Request{Files: files, State: state, Destroy: true})
	}

	if err != nil {
		err = fmt.Errorf("what the template was made of is left behind, with the comment %q: %w", owner, err)
	}

	if failed != nil {
		return "", errors.Join(failed, err)
	}

	return id, err
}

// forget takes resources of a type out of a state, so that its destruction leaves them.
func forget(state []byte, kind string) ([]byte, error) {
	var whole map[string]json.RawMessage
	var resources []json.RawMessage
	err := json.Unmarshal(state, &whole)
	if err == nil {
		err = json.Unmarshal(whole["resources"], &resources)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to read the state: %w", err)
	}

	kept := []json.RawMessage{}

	for _, resource := range resources {
		var head struct{ Type string }
		if err := json.Unmarshal(resource, &head); err != nil {
			return nil, fmt.Errorf("failed to read the state: %w", err)
		}

		if head.Type != kind {
			kept = append(kept, resource)
		}
	}

	if whole["resources"], err = json.Marshal(kept); err != nil {
		return nil, fmt.Errorf("failed to write the state: %w", err)
	}

	return json.Marshal(whole)
}
