package cluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// clusterSubject is the Terraform root of a cluster's affinity groups, shared by its machines.
type clusterSubject struct {
	owner      *infrav1.OLVMCluster
	session    *engine.Client
	config     engine.Config
	dataCenter *engine.DataCenter
	// groups are the desired groups. rendered is their configuration. Both are unset for a destroy run.
	groups   []placement.Group
	rendered render.Configuration
}

// newSubject copies the inputs of a run from the scope.
func newSubject(scope *clusterScope) *clusterSubject {
	return &clusterSubject{
		owner:      scope.olvmCluster.DeepCopy(),
		session:    scope.engine.session,
		config:     scope.engine.config,
		dataCenter: scope.engine.dataCenter,
		groups:     scope.groups.wanted,
		rendered:   scope.groups.rendered,
	}
}

// Render returns the configuration of the groups. It adopts the groups of an interrupted run.
func (s *clusterSubject) Render(ctx context.Context, state *tfstate.State) (workspace.Configuration, error) {
	if err := s.checkEngine(ctx); err != nil {
		return workspace.Configuration{}, err
	}

	var inState []placement.GroupKey
	for key := range mapStateGroups(state) {
		inState = append(inState, key)
	}

	imports, err := placement.FindGroups(ctx, s.session, ownermark.NewOwner(s.owner), s.groups, inState)
	if err != nil {
		return workspace.Configuration{}, err
	}

	return workspace.Configuration{
		Configuration: s.rendered.WithImports(imports),
		Owner:         ownermark.NewOwner(s.owner).Comment(),
		Secrets:       []string{s.config.Password},
		Guard:         guardGroups,
	}, nil
}

// checkEngine returns an error if another engine responds. The engine may have changed while the run waited.
func (s *clusterSubject) checkEngine(ctx context.Context) error {
	_, err := s.session.LoadIdentity(ctx)

	return err
}

// guardGroups refuses to delete a group while the OLVMCluster exists, because its members would lose the group.
func guardGroups(change terraform.Change) string {
	if change.Action == "delete" || change.Action == "replace" {
		return change.Action
	}

	return ""
}

// Outdated returns false: outdated groups are harmless until the next run corrects them.
func (s *clusterSubject) Outdated(client.Object) bool { return false }

// RenderDestroy renders a configuration without resources, so the run destroys everything in the state.
func (s *clusterSubject) RenderDestroy(ctx context.Context) (workspace.Configuration, error) {
	if err := s.checkEngine(ctx); err != nil {
		return workspace.Configuration{}, err
	}

	from := connection.RenderEngine(s.session, s.config)
	configuration, err := render.DestroyConfiguration(from, render.ClusterGroups)

	return workspace.Configuration{
		Configuration: configuration,
		Owner:         ownermark.NewOwner(s.owner).Comment(),
		Secrets:       []string{s.config.Password},
	}, err
}

// RemoveOrphans deletes groups without a state that carry the cluster's complete owner mark.
func (s *clusterSubject) RemoveOrphans(
	ctx context.Context, operation terraform.Operation, _ *tfstate.State, _ workspace.LoadFunc,
) error {
	if operation == terraform.Apply {
		return nil // the next run adopts them
	}

	return removeOrphanGroups(ctx, s.session, s.dataCenter, ownermark.NewOwner(s.owner))
}

// removeOrphanGroups deletes groups with the complete owner mark through the API. Terraform cannot delete them without
// a state.
func removeOrphanGroups(
	ctx context.Context, session *engine.Client, dc *engine.DataCenter, owner ownermark.Owner,
) error {
	clusters, err := session.ListClusters(ctx, dc)
	if err != nil {
		return err
	}

	for _, cluster := range clusters {
		groups, err := session.ListAffinityGroups(ctx, cluster.ID)
		if err != nil {
			return err
		}

		for _, g := range groups {
			if found, ok := placement.ParseGroupOwner(g.DescriptionText()); !ok || found != owner {
				continue
			}

			if err := session.DeleteAffinityGroup(ctx, cluster.ID, g.ID); err != nil && !engine.IsNotFound(err) {
				return err
			}
		}
	}

	return nil
}
