package tfprovider

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Endpoint is a provider in this process, for one Terraform run.
type Endpoint struct {
	// Config tells Terraform how to attach to the endpoint.
	Config *plugin.ReattachConfig
	cancel context.CancelFunc
	closed chan struct{}
	own    *engine.Sessions // nil if the sessions are shared
}

// Serve starts an endpoint on its own socket. Close ends it.
//
// Each run needs its own endpoint, because a provider holds one configuration. In a shared endpoint, a second run would
// redirect the calls of the first to its own engine. An interrupt of one run would stop both.
//
// An endpoint differs from a plugin process in two ways. A panic fails only its own call. And the endpoint ends only
// after its calls, even if Terraform is killed. So a create in progress ends before the next run looks for the object.
func Serve(ctx context.Context, options Options) (*Endpoint, error) {
	var own *engine.Sessions
	if options.Sessions == nil {
		own = &engine.Sessions{}
		options.Sessions = own
	}

	endpoint, err := startEndpoint(ctx, New(options), options)
	if err != nil {
		return nil, err
	}

	endpoint.own = own

	return endpoint, nil
}

func startEndpoint(ctx context.Context, served provider.Provider, options Options) (*Endpoint, error) {
	quiet()
	ctx, cancel := context.WithCancel(ctx)
	configs := make(chan *plugin.ReattachConfig, 1)
	closed := make(chan struct{})
	go plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 5},
		Plugins: plugin.PluginSet{"provider": &tf5server.GRPCProviderPlugin{
			Name: Address, GRPCProvider: func() tfprotov5.ProviderServer {
				return newRestricted(providerserver.NewProtocol5(served)(), served, options)
			}, Opts: []tf5server.ServeOpt{tf5server.WithoutLogStderrOverride()},
		}},
		Logger: hclog.NewNullLogger(),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(
				append(
					opts, grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
					grpc.WaitForHandlers(true), grpc.UnaryInterceptor(recoverPanic),
					// The calls need deep stacks. A permanent goroutine grows its stack once, instead of once per call.
					grpc.NumStreamWorkers(2),
				)...)
		},
		Test: &plugin.ServeTestConfig{Context: ctx, ReattachConfigCh: configs, CloseCh: closed},
	})

	select {
	case config := <-configs:
		return &Endpoint{Config: config, cancel: cancel, closed: closed}, nil
	case <-closed:
		cancel()

		return nil, errors.New(
			"failed to serve the provider: it has no socket; is the folder for temporary files writable?",
		)
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
}

// restricted serves only what one run needs. It rejects calls about types outside the run, and makes only approved
// changes. It also saves work. The executor decodes and checks all schemas it receives, and requests each plan of an
// apply twice. restricted caches the answer.
type restricted struct {
	tfprotov5.ProviderServer
	types    []string // nil means all
	approved func(ctx context.Context) error
	owner    *ownership // nil allows everything

	mu        sync.Mutex
	validated map[[sha256.Size]byte]*tfprotov5.ValidateResourceTypeConfigResponse
	planned   map[[sha256.Size]byte]*tfprotov5.PlanResourceChangeResponse
}

// newRestricted returns a server of the provider, limited by the options.
func newRestricted(server tfprotov5.ProviderServer, served provider.Provider, options Options) *restricted {
	out := &restricted{ProviderServer: server, types: options.Types, approved: options.Approved}
	if own, ok := served.(*ovirtProvider); ok {
		out.owner = newOwnership(options.Owner, options.StateVMs, own.session.Load)
	}

	return out
}

// hashParts returns the cache key for the parts of a call.
func hashParts(parts ...[]byte) (out [sha256.Size]byte) {
	digest := sha256.New()
	for _, part := range parts {
		_ = binary.Write(digest, binary.BigEndian, uint64(len(part)))
		digest.Write(part)
	}

	return [sha256.Size]byte(digest.Sum(nil))
}

// valueBytes returns the bytes of a value.
func valueBytes(value *tfprotov5.DynamicValue) []byte {
	if value == nil {
		return nil
	}

	return append(slices.Clone(value.MsgPack), value.JSON...)
}

// identityBytes returns the bytes of an identity.
func identityBytes(identity *tfprotov5.ResourceIdentityData) []byte {
	if identity == nil {
		return nil
	}

	return valueBytes(identity.IdentityData)
}

// getOrAsk returns the cached answer. If there is none, it asks, and caches a good answer.
func getOrAsk[T any](
	s *restricted,
	known *map[[sha256.Size]byte]*T,
	key [sha256.Size]byte,
	ask func() (*T, []*tfprotov5.Diagnostic, error),
) (*T, error) {
	s.mu.Lock()
	answer, ok := (*known)[key]
	s.mu.Unlock()
	if ok {
		return answer, nil
	}

	answer, diagnostics, err := ask()
	if err != nil || len(diagnostics) > 0 {
		return answer, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if *known == nil {
		*known = map[[sha256.Size]byte]*T{}
	}

	(*known)[key] = answer

	return answer, nil
}

// ValidateResourceTypeConfig implements tfprotov5.ProviderServer.
func (s *restricted) ValidateResourceTypeConfig(
	ctx context.Context, request *tfprotov5.ValidateResourceTypeConfigRequest,
) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	if err := s.checkType(request.TypeName); err != nil {
		return nil, err
	}

	return getOrAsk(
		s,
		&s.validated,
		hashParts([]byte(request.TypeName), valueBytes(request.Config)),
		func() (*tfprotov5.ValidateResourceTypeConfigResponse, []*tfprotov5.Diagnostic, error) {
			response, err := s.ProviderServer.ValidateResourceTypeConfig(ctx, request)
			if err != nil {
				return nil, nil, err
			}

			return response, response.Diagnostics, nil
		},
	)
}

// PlanResourceChange implements tfprotov5.ProviderServer.
func (s *restricted) PlanResourceChange(
	ctx context.Context, request *tfprotov5.PlanResourceChangeRequest,
) (*tfprotov5.PlanResourceChangeResponse, error) {
	if err := s.checkType(request.TypeName); err != nil {
		return nil, err
	}

	key := hashParts([]byte(request.TypeName), valueBytes(request.PriorState), valueBytes(request.ProposedNewState),
		valueBytes(request.Config), request.PriorPrivate, identityBytes(request.PriorIdentity))

	return getOrAsk(s, &s.planned, key, func() (*tfprotov5.PlanResourceChangeResponse, []*tfprotov5.Diagnostic, error) {
		response, err := s.ProviderServer.PlanResourceChange(ctx, request)
		if err != nil {
			return nil, nil, err
		}

		return response, response.Diagnostics, nil
	})
}

// checkType returns an error if a type does not belong to the run.
func (s *restricted) checkType(name string) error {
	if s.types == nil || slices.Contains(s.types, name) {
		return nil
	}

	return status.Errorf(codes.PermissionDenied, "%s is none of the types of this run", name)
}

// checkDataType is checkType for data sources. It also rejects all look-ups by name in a restricted run, because they
// share their types with resources and would show objects of other owners.
func (s *restricted) checkDataType(name string) error {
	if s.types != nil && slices.Contains(lookups, name) {
		return status.Errorf(codes.PermissionDenied, "the data source %s is none of this run", name)
	}

	return s.checkType(name)
}

// UpgradeResourceState implements tfprotov5.ProviderServer.
func (s *restricted) UpgradeResourceState(
	ctx context.Context, request *tfprotov5.UpgradeResourceStateRequest,
) (*tfprotov5.UpgradeResourceStateResponse, error) {
	if err := s.checkType(request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.UpgradeResourceState(ctx, request)
}

// ReadResource implements tfprotov5.ProviderServer.
func (s *restricted) ReadResource(
	ctx context.Context, request *tfprotov5.ReadResourceRequest,
) (*tfprotov5.ReadResourceResponse, error) {
	if err := s.checkType(request.TypeName); err != nil {
		return nil, err
	}

	if problem := s.checkOwnership(ctx, request.TypeName, request.CurrentState, nil); problem != nil {
		return &tfprotov5.ReadResourceResponse{NewState: request.CurrentState, Diagnostics: problem}, nil
	}

	return s.ProviderServer.ReadResource(ctx, request)
}

// ImportResourceState implements tfprotov5.ProviderServer.
func (s *restricted) ImportResourceState(
	ctx context.Context, request *tfprotov5.ImportResourceStateRequest,
) (*tfprotov5.ImportResourceStateResponse, error) {
	if err := s.checkType(request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.ImportResourceState(ctx, request)
}

// MoveResourceState implements tfprotov5.ProviderServer.
func (s *restricted) MoveResourceState(
	ctx context.Context, request *tfprotov5.MoveResourceStateRequest,
) (*tfprotov5.MoveResourceStateResponse, error) {
	if err := errors.Join(s.checkType(request.SourceTypeName), s.checkType(request.TargetTypeName)); err != nil {
		return nil, err
	}

	return s.ProviderServer.MoveResourceState(ctx, request)
}

// ValidateDataSourceConfig implements tfprotov5.ProviderServer.
func (s *restricted) ValidateDataSourceConfig(
	ctx context.Context, request *tfprotov5.ValidateDataSourceConfigRequest,
) (*tfprotov5.ValidateDataSourceConfigResponse, error) {
	if err := s.checkDataType(request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.ValidateDataSourceConfig(ctx, request)
}

// ReadDataSource implements tfprotov5.ProviderServer.
func (s *restricted) ReadDataSource(
	ctx context.Context, request *tfprotov5.ReadDataSourceRequest,
) (*tfprotov5.ReadDataSourceResponse, error) {
	if err := s.checkDataType(request.TypeName); err != nil {
		return nil, err
	}

	return s.ProviderServer.ReadDataSource(ctx, request)
}

// ApplyResourceChange implements tfprotov5.ProviderServer. It makes no change without an approval.
func (s *restricted) ApplyResourceChange(
	ctx context.Context, request *tfprotov5.ApplyResourceChangeRequest,
) (*tfprotov5.ApplyResourceChangeResponse, error) {
	if err := s.checkType(request.TypeName); err != nil {
		return nil, err
	}

	if s.approved != nil {
		if err := s.approved(ctx); err != nil {
			return nil, status.Error(codes.PermissionDenied, err.Error())
		}
	}

	if problem := s.checkOwnership(ctx, request.TypeName, request.PriorState, request.PlannedState); problem != nil {
		return &tfprotov5.ApplyResourceChangeResponse{NewState: request.PriorState, Diagnostics: problem}, nil
	}

	response, err := s.ProviderServer.ApplyResourceChange(ctx, request)
	if err == nil && s.owner != nil {
		if schema, schemaErr := s.getSchema(ctx, request.TypeName); schemaErr == nil {
			s.owner.recordCreated(schema, request.TypeName, response.NewState)
		}
	}

	return response, err
}

// checkOwnership returns errors about objects of other owners, or nil. planned is the requested state. It is nil for a
// call without one.
func (s *restricted) checkOwnership(
	ctx context.Context, typeName string, stored, planned *tfprotov5.DynamicValue,
) []*tfprotov5.Diagnostic {
	if s.owner == nil {
		return nil
	}

	schema, err := s.getSchema(ctx, typeName)
	if err == nil {
		err = s.owner.checkState(ctx, schema, typeName, stored, true)
	}

	if err == nil {
		err = s.owner.checkState(ctx, schema, typeName, planned, false)
	}

	if err == nil {
		return nil
	}

	return []*tfprotov5.Diagnostic{{
		Severity: tfprotov5.DiagnosticSeverityError,
		Summary:  "The run may not touch it",
		Detail:   err.Error(),
	}}
}

// getSchema returns the schema of a resource type.
func (s *restricted) getSchema(ctx context.Context, typeName string) (*tfprotov5.Schema, error) {
	all, err := s.getAllSchemas(ctx, &tfprotov5.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}

	schema := all.ResourceSchemas[typeName]
	if schema == nil {
		return nil, status.Errorf(codes.NotFound, "there is no resource of type %s", typeName)
	}

	return schema, nil
}

// schemas caches the schemas of the whole provider. They never change.
var schemas struct {
	sync.Mutex
	response *tfprotov5.GetProviderSchemaResponse
}

// GetProviderSchema implements tfprotov5.ProviderServer.
func (s *restricted) GetProviderSchema(
	ctx context.Context, request *tfprotov5.GetProviderSchemaRequest,
) (*tfprotov5.GetProviderSchemaResponse, error) {
	all, err := s.getAllSchemas(ctx, request)
	if err != nil || s.types == nil {
		return all, err
	}

	out := *all
	out.Functions, out.EphemeralResourceSchemas, out.ListResourceSchemas, out.ActionSchemas = nil, nil, nil, nil
	others := func(name string, _ *tfprotov5.Schema) bool { return !slices.Contains(s.types, name) }
	out.ResourceSchemas, out.DataSourceSchemas = maps.Clone(out.ResourceSchemas), maps.Clone(out.DataSourceSchemas)
	maps.DeleteFunc(out.ResourceSchemas, others)
	maps.DeleteFunc(out.DataSourceSchemas, func(name string, _ *tfprotov5.Schema) bool {
		return s.checkDataType(name) != nil
	})

	return &out, nil
}

// getAllSchemas returns the schemas of all types. Many runs call it concurrently.
func (s *restricted) getAllSchemas(
	ctx context.Context, request *tfprotov5.GetProviderSchemaRequest,
) (*tfprotov5.GetProviderSchemaResponse, error) {
	schemas.Lock()
	defer schemas.Unlock()

	if schemas.response == nil {
		response, err := s.ProviderServer.GetProviderSchema(ctx, request)
		if err != nil || len(response.Diagnostics) > 0 {
			return response, err
		}

		schemas.response = response
	}

	return schemas.response, nil
}

// maxMessage limits a message in bytes, like in plugins.
const maxMessage = 256 << 20

// recoverPanic turns a panic into an error.
func recoverPanic(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "the provider panicked in %s: %v\n%s", path.Base(info.FullMethod), p,
				debug.Stack())
		}
	}()

	return handler(ctx, request)
}

// quiet turns off the SDK's own log, unless the environment enables it. Otherwise, the SDK in this process would write
// every call with all its values to stderr, regardless of our log level.
var quiet = sync.OnceFunc(func() {
	names := []string{"TF_LOG_SDK", "TF_LOG_PROVIDER", "TF_LOG_PROVIDER_OVIRT"}
	if _, wanted := os.LookupEnv(names[0]); !wanted {
		// With levels of their own, these two logs do not even format their messages.
		names = append(names, "TF_LOG_SDK_PROTO", "TF_LOG_SDK_FRAMEWORK")
	}

	for _, name := range names {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, "off")
		}
	}
})

// logoutLimit limits the end of the sessions, because Terraform kills a plugin two seconds after it asks the plugin to
// stop.
const logoutLimit = 1500 * time.Millisecond

// Close ends the endpoint. It cancels running calls, and ends the sessions unless they are shared.
func (e *Endpoint) Close() {
	e.cancel()
	<-e.closed
	if e.own != nil {
		Logout(e.own)
	}
}

// Logout ends the sessions with their engines, within logoutLimit.
func Logout(sessions *engine.Sessions) {
	ctx, cancel := context.WithTimeout(context.Background(), logoutLimit)
	defer cancel()
	sessions.Close(ctx)
}
