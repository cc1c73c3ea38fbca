package providerprocess

import (
	"context"

	"github.com/hashicorp/go-plugin"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// InProcess implements terraform.Provider. It serves the provider from the calling process.
type InProcess struct{ Options tfprovider.Options }

// Serve starts an endpoint for one run.
func (p InProcess) Serve(ctx context.Context, use terraform.Use) (*plugin.ReattachConfig, func(), error) {
	options := p.Options
	options.Owner, options.Types, options.StateVMs, options.Approved = use.Owner, use.Types, use.StateVMs, use.Approved
	options.Engine = &tfprovider.Engine{URL: use.Engine.URL, CA: use.Engine.CA, Insecure: use.Engine.Insecure}

	endpoint, err := tfprovider.Serve(ctx, options)
	if err != nil {
		return nil, nil, err
	}

	return endpoint.Config, endpoint.Close, nil
}

// Address returns the provider's address in configurations.
func (p InProcess) Address() string { return tfprovider.Address }
