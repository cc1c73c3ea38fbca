package tfprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The calls in this file are about identities, functions, ephemeral resources, lists and actions. No run of the manager
// makes them, and a restricted run must not make them, regardless of its configuration. A list shows objects of other
// owners, a token gives all rights of the user, and an action makes changes that no plan has shown.

var (
	_ tfprotov5.ActionServer       = (*restricted)(nil)
	_ tfprotov5.ListResourceServer = (*restricted)(nil)
)

// isRestricted reports whether the run may access only an owner's objects or only some types.
func (s *restricted) isRestricted() bool { return s.types != nil || s.owner != nil }

// refuseRestricted returns an error if the run is restricted.
func (s *restricted) refuseRestricted(what string) error {
	if s.isRestricted() {
		return status.Errorf(codes.PermissionDenied, "%s is none of this run", what)
	}

	return nil
}

// GetResourceIdentitySchemas implements tfprotov5.ProviderServer.
func (s *restricted) GetResourceIdentitySchemas(
	ctx context.Context, request *tfprotov5.GetResourceIdentitySchemasRequest,
) (*tfprotov5.GetResourceIdentitySchemasResponse, error) {
	if s.isRestricted() {
		return &tfprotov5.GetResourceIdentitySchemasResponse{}, nil
	}

	return s.ProviderServer.GetResourceIdentitySchemas(ctx, request)
}

// UpgradeResourceIdentity implements tfprotov5.ProviderServer.
func (s *restricted) UpgradeResourceIdentity(
	ctx context.Context, request *tfprotov5.UpgradeResourceIdentityRequest,
) (*tfprotov5.UpgradeResourceIdentityResponse, error) {
	if err := s.refuseRestricted("an identity"); err != nil {
		return nil, err
	}

	return s.ProviderServer.UpgradeResourceIdentity(ctx, request)
}

// GenerateResourceConfig implements tfprotov5.ProviderServer.
func (s *restricted) GenerateResourceConfig(
	ctx context.Context, request *tfprotov5.GenerateResourceConfigRequest,
) (*tfprotov5.GenerateResourceConfigResponse, error) {
	if err := s.checkType(request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.GenerateResourceConfig(ctx, request)
}

// GetFunctions implements tfprotov5.ProviderServer.
func (s *restricted) GetFunctions(
	ctx context.Context, request *tfprotov5.GetFunctionsRequest,
) (*tfprotov5.GetFunctionsResponse, error) {
	if s.isRestricted() {
		return &tfprotov5.GetFunctionsResponse{}, nil
	}

	return s.ProviderServer.GetFunctions(ctx, request)
}

// CallFunction implements tfprotov5.ProviderServer.
func (s *restricted) CallFunction(
	ctx context.Context, request *tfprotov5.CallFunctionRequest,
) (*tfprotov5.CallFunctionResponse, error) {
	if err := s.refuseRestricted("the function " + request.Name); err != nil {
		return nil, err
	}

	return s.ProviderServer.CallFunction(ctx, request)
}

// ValidateEphemeralResourceConfig implements tfprotov5.ProviderServer.
func (s *restricted) ValidateEphemeralResourceConfig(
	ctx context.Context, request *tfprotov5.ValidateEphemeralResourceConfigRequest,
) (*tfprotov5.ValidateEphemeralResourceConfigResponse, error) {
	if err := s.refuseRestricted("the ephemeral resource " + request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.ValidateEphemeralResourceConfig(ctx, request)
}

// OpenEphemeralResource implements tfprotov5.ProviderServer.
func (s *restricted) OpenEphemeralResource(
	ctx context.Context, request *tfprotov5.OpenEphemeralResourceRequest,
) (*tfprotov5.OpenEphemeralResourceResponse, error) {
	if err := s.refuseRestricted("the ephemeral resource " + request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.OpenEphemeralResource(ctx, request)
}

// RenewEphemeralResource implements tfprotov5.ProviderServer.
func (s *restricted) RenewEphemeralResource(
	ctx context.Context, request *tfprotov5.RenewEphemeralResourceRequest,
) (*tfprotov5.RenewEphemeralResourceResponse, error) {
	if err := s.refuseRestricted("the ephemeral resource " + request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.RenewEphemeralResource(ctx, request)
}

// CloseEphemeralResource implements tfprotov5.ProviderServer.
func (s *restricted) CloseEphemeralResource(
	ctx context.Context, request *tfprotov5.CloseEphemeralResourceRequest,
) (*tfprotov5.CloseEphemeralResourceResponse, error) {
	if err := s.refuseRestricted("the ephemeral resource " + request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.CloseEphemeralResource(ctx, request)
}

// getListServer returns the server of list resources.
func (s *restricted) getListServer(typeName string) (tfprotov5.ListResourceServer, error) {
	server, ok := s.ProviderServer.(tfprotov5.ListResourceServer)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "there are no list resources")
	}

	return server, s.refuseRestricted("the list of " + typeName)
}

// ValidateListResourceConfig implements tfprotov5.ListResourceServer.
func (s *restricted) ValidateListResourceConfig(
	ctx context.Context, request *tfprotov5.ValidateListResourceConfigRequest,
) (*tfprotov5.ValidateListResourceConfigResponse, error) {
	server, err := s.getListServer(request.TypeName)
	if err != nil {
		return nil, err
	}

	return server.ValidateListResourceConfig(ctx, request)
}

// ListResource implements tfprotov5.ListResourceServer.
func (s *restricted) ListResource(
	ctx context.Context, request *tfprotov5.ListResourceRequest,
) (*tfprotov5.ListResourceServerStream, error) {
	server, err := s.getListServer(request.TypeName)
	if err != nil {
		return nil, err
	}

	return server.ListResource(ctx, request)
}

// getActionServer returns the server of actions.
func (s *restricted) getActionServer(name string) (tfprotov5.ActionServer, error) {
	server, ok := s.ProviderServer.(tfprotov5.ActionServer)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "there are no actions")
	}

	return server, s.refuseRestricted("the action " + name)
}

// ValidateActionConfig implements tfprotov5.ActionServer.
func (s *restricted) ValidateActionConfig(
	ctx context.Context, request *tfprotov5.ValidateActionConfigRequest,
) (*tfprotov5.ValidateActionConfigResponse, error) {
	server, err := s.getActionServer(request.ActionType)
	if err != nil {
		return nil, err
	}

	return server.ValidateActionConfig(ctx, request)
}

// PlanAction implements tfprotov5.ActionServer.
func (s *restricted) PlanAction(
	ctx context.Context, request *tfprotov5.PlanActionRequest,
) (*tfprotov5.PlanActionResponse, error) {
	server, err := s.getActionServer(request.ActionType)
	if err != nil {
		return nil, err
	}

	return server.PlanAction(ctx, request)
}

// InvokeAction implements tfprotov5.ActionServer. It makes no change without an approval.
func (s *restricted) InvokeAction(
	ctx context.Context, request *tfprotov5.InvokeActionRequest,
) (*tfprotov5.InvokeActionServerStream, error) {
	server, err := s.getActionServer(request.ActionType)
	if err != nil {
		return nil, err
	}

	if s.approved != nil {
		if err := s.approved(ctx); err != nil {
			return nil, status.Error(codes.PermissionDenied, err.Error())
		}
	}

	return server.InvokeAction(ctx, request)
}
