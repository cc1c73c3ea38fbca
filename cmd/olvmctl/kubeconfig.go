package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeconfigPath is where kubeconfigs of clusters are.
func kubeconfigPath(cluster string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return filepath.Join(home, ".kube", "kubeconfig."+cluster), nil
}

// writeKubeconfig writes the kubeconfig of the cluster, and makes a client with it.
func (o *start) writeKubeconfig(ctx context.Context, name string) (*management, error) {
	content, err := kubeconfig.FromSecret(ctx, o.Client, client.ObjectKey{Namespace: o.namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("failed to get the kubeconfig: %w", err)
	}

	if err := keepKubeconfig(o.kubeconfigOut, name, content, o.kubeconfig == o.kubeconfigOut); err != nil {
		return nil, err
	}

	workload := management{kubeconfig: o.kubeconfigOut}
	err = o.do("Waiting for the API server", func() error {
		return o.until(ctx, o.timeout, func(ctx context.Context) error {
			if err := workload.connect(); err != nil {
				return err
			}

			return workload.List(ctx, &corev1.NodeList{})
		})
	})

	return &workload, err
}

// keepKubeconfig writes the kubeconfig of a cluster to a file, unless that is of another one; own reports that it is
// known to be of this one, maybe at an address that the user has chosen.
func keepKubeconfig(path, name string, content []byte, own bool) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return fmt.Errorf("the kubeconfig of %s: %w", name, err)
	}

	if fileExists(path) {
		server, err := serverOf(path)
		switch {
		case err != nil:
			return fmt.Errorf("%w; move it away, or name another file with --kubeconfig-out", err)
		case server != config.Host && own:
			return nil
		case server != config.Host:
			return otherServer(path, server, name, config.Host)
		}
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return nil
}
