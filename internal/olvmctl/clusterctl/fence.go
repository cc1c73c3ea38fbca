package clusterctl

import (
	"context"
	"fmt"

	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	clustercluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/fencedclient"
)

// fencedProxy is clusterctl's connection to a management cluster of a move. Its clients write only objects that they
// have read. If mayAct is not nil, they ask before each write.
type fencedProxy struct {
	clustercluster.Proxy

	mayAct func(context.Context) error
}

// NewClient returns a client for the management cluster.
func (p *fencedProxy) NewClient(ctx context.Context) (client.Client, error) {
	plain, err := p.Proxy.NewClient(ctx)
	if err != nil {
		return nil, err
	}

	if p.mayAct == nil {
		return sameObjectClient{plain}, nil
	}

	return &fencedclient.Client{Client: sameObjectClient{plain}, MayAct: p.mayAct}, nil
}

// newFence makes clusterctl ask the fences of the management clusters of a move. The keys of fences are the paths of
// kubeconfigs. A fence may be nil.
func newFence(
	ctx context.Context, configuration string, fences map[string]func(context.Context) error,
) (clusterctl.Option, error) {
	config, err := clusterctlconfig.New(ctx, configuration)
	if err != nil {
		return nil, fmt.Errorf("failed to read clusterctl's configuration: %w", err)
	}

	return clusterctl.InjectClusterClientFactory(
		func(input clusterctl.ClusterClientFactoryInput) (clustercluster.Client, error) {
			at := clustercluster.Kubeconfig(input.Kubeconfig)
			options := []clustercluster.Option{clustercluster.InjectYamlProcessor(input.Processor)}

			if mayAct, isMoved := fences[at.Path]; isMoved {
				options = append(options,
					clustercluster.InjectProxy(&fencedProxy{clustercluster.NewProxy(at), mayAct}))
			}

			return clustercluster.New(at, config, options...), nil
		}), nil
}
