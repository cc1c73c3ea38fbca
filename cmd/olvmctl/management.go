package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// management is a management cluster, as flags name it.
type management struct {
	kubeconfig, namespace string
	// clusterctlConfig and providerVersion say where providers come from, where some are missing.
	clusterctlConfig, providerVersion string
	// timeout of everything that is waited for.
	timeout time.Duration
	// driver says which management cluster it is; preserve keeps one that is empty.
	driver   string
	preserve bool

	client.Client
}

func (m *management) addFlags(command *cobra.Command) {
	m.addKubeconfigFlag(command)
	command.Flags().StringVarP(&m.namespace, "namespace", "n", "",
		"namespace of the cluster; empty means that of the kubeconfig")
}

func (m *management) addKubeconfigFlag(command *cobra.Command) {
	command.Flags().StringVar(&m.kubeconfig, "kubeconfig", "",
		"kubeconfig of the management cluster; empty means that of kubectl")
}

func (m *management) addTimeoutFlag(command *cobra.Command) {
	command.Flags().DurationVar(&m.timeout, "timeout", 30*time.Minute, "how long to wait for each step")
}

// addProviderFlags are for commands that may install providers.
func (m *management) addProviderFlags(command *cobra.Command) {
	m.addTimeoutFlag(command)
	command.Flags().StringVar(&m.clusterctlConfig, "clusterctl-config", "",
		"clusterctl's configuration file, which says where providers come from; empty means clusterctl's own")
	command.Flags().StringVar(&m.providerVersion, "provider-version", releasedVersion(),
		"version of this provider to install; empty means the newest")
}

// released are versions that there are releases of; not those of builds between them, such as v0.1.0-dev and
// v0.1.0-3-g1a2b3c4.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$`)

// releasedVersion is that of this build, empty where it is none of a release.
func releasedVersion() string {
	return released.FindString(version.Version)
}

// loader finds the kubeconfig as kubectl does, and else that of the local management cluster.
func (m *management) loader() clientcmd.ClientConfig {
	config := defaultConfig(m.kubeconfig)
	if l := newLocal(); m.kubeconfig == "" && emptyConfig(config) && l.exists() {
		return defaultConfig(l.kubeconfig())
	}

	return config
}

func defaultConfig(path string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
}

// serverOf is the URL of the server in a kubeconfig file.
func serverOf(path string) (string, error) {
	config, err := defaultConfig(path).ClientConfig()
	if err != nil {
		return "", fmt.Errorf("%s is not a kubeconfig: %w", path, err)
	}

	return config.Host, nil
}

// connect makes the client.
func (m *management) connect() error {
	loader := m.loader()
	config, err := loader.ClientConfig()
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}

	if err := newLocal().stopped(config.Host); err != nil {
		return err
	}

	if m.namespace == "" {
		if m.namespace, _, err = loader.Namespace(); err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}
	}

	config.QPS, config.Burst = 50, 100
	scheme := runtime.NewScheme()
	err = errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		controlplanev1.AddToScheme(scheme), infrav1.AddToScheme(scheme))
	if err != nil {
		return fmt.Errorf("failed to build the scheme: %w", err)
	}

	if m.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("failed to make a client of the management cluster: %w", err)
	}

	return nil
}

// noClusterError reports that there is no such Cluster.
type noClusterError struct{ name, namespace string }

func (e *noClusterError) Error() string {
	return fmt.Sprintf("there is no Cluster %s in namespace %s; say which with -n", e.name, e.namespace)
}

// cluster reads the Cluster.
func (m *management) cluster(ctx context.Context, name string) (*clusterv1.Cluster, error) {
	var cluster clusterv1.Cluster
	if err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: name}, &cluster); apierrors.IsNotFound(err) {
		return nil, &noClusterError{name, m.namespace}
	} else if err != nil {
		return nil, fmt.Errorf("failed to get Cluster %s: %w", name, err)
	}

	return &cluster, nil
}

// providers installs and moves as the flags say.
func (m *management) providers(s *steps) *clusterctl.Providers {
	return &clusterctl.Providers{
		Config:   m.clusterctlConfig,
		Version:  m.providerVersion,
		Timeout:  m.timeout,
		Progress: s.say,
	}
}

// ensureProviders installs the providers that are missing in a management cluster, and waits for them.
func (m *management) ensureProviders(ctx context.Context, s *steps, to *management) error {
	return s.do("Cluster API and its providers", func() error {
		installed, err := m.providers(s).Ensure(ctx, clusterctl.Management{
			Kubeconfig: to.kubeconfig,
			Client:     to.Client,
		})
		if err == nil && len(installed) == 0 {
			s.say("they are there")
		}

		return err
	})
}

// move moves all clusters of the namespace to another management cluster, which gets the providers that are missing
// there.
func (m *management) move(ctx context.Context, s *steps, to *management) error {
	if err := m.ensureProviders(ctx, s, to); err != nil {
		return err
	}

	return s.do("Moving namespace "+m.namespace, func() error {
		moved, err := m.others(ctx, "", client.InNamespace(m.namespace))
		if err != nil {
			return err
		}

		s.say("its clusters: %s", strings.Join(moved, ", "))

		return m.providers(s).Move(ctx, clusterctl.Management{
			Kubeconfig: m.kubeconfig,
			Client:     m.Client,
		}, clusterctl.Management{Kubeconfig: to.kubeconfig, Client: to.Client}, m.namespace)
	})
}

// others are the Clusters beside one, as namespace/name; those of its namespace alone, or of all.
func (m *management) others(ctx context.Context, name string, in ...client.ListOption) ([]string, error) {
	var list clusterv1.ClusterList
	if err := m.List(ctx, &list, in...); err != nil {
		return nil, fmt.Errorf("failed to list the Clusters: %w", err)
	}

	var out []string

	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		if key != (client.ObjectKey{Namespace: m.namespace, Name: name}) {
			out = append(out, key.String())
		}
	}

	return out, nil
}

// ownEndpoint reports whether a management cluster is the cluster itself.
func (m *management) ownEndpoint(cluster *clusterv1.Cluster) (bool, error) {
	config, err := m.loader().ClientConfig()
	if err != nil {
		return false, fmt.Errorf("--kubeconfig: %w", err)
	}

	return config.Host == serverAt(cluster), nil
}

// serverAt is the server of a cluster; empty where it has no endpoint yet.
func serverAt(cluster *clusterv1.Cluster) string {
	if !cluster.Spec.ControlPlaneEndpoint.IsValid() {
		return ""
	}

	return "https://" + cluster.Spec.ControlPlaneEndpoint.String()
}

// fileExists reports whether there is a file.
func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const managementHelp = `The management cluster is the one of --kubeconfig, of KUBECONFIG or of kubectl's own
file. Where there is none (--driver process: in any case) start runs one as processes of this
machine; see olvmctl local.`

// addDriverFlag is for commands that may start a management cluster.
func (m *management) addDriverFlag(command *cobra.Command) {
	command.Flags().StringVar(&m.driver, "driver", driverAuto,
		"management cluster: existing, process (of this machine), or auto: process where there is no kubeconfig")
	command.Flags().BoolVar(&m.preserve, "preserve", false,
		"keep the local management cluster when no cluster is left in it")
}

// isLocal reports whether the management cluster is the local one.
func (m *management) isLocal() (bool, error) {
	switch m.driver {
	case driverProcess:
		if m.kubeconfig != "" && m.kubeconfig != newLocal().kubeconfig() {
			return false, errors.New("--driver process: it has a kubeconfig of its own; leave --kubeconfig away")
		}

		return true, nil
	case driverAuto, driverExisting, "":
		return m.driver != driverExisting &&
			(m.kubeconfig == newLocal().kubeconfig() || m.kubeconfig == "" && emptyConfig(defaultConfig(""))), nil
	}

	return false, fmt.Errorf("--driver %s is not known; write %s, %s or %s", m.driver, driverAuto, driverExisting,
		driverProcess)
}

// run starts the local management cluster, if that is the one.
func (m *management) run(ctx context.Context, s *steps) error {
	isLocal, err := m.isLocal()
	if err != nil || !isLocal {
		return err
	}

	m.kubeconfig = newLocal().kubeconfig()

	return newLocal().start(ctx, s)
}

// remind says after a signal that the local management cluster goes on.
func (m *management) remind(ctx context.Context, s *steps) {
	if isLocal, err := m.isLocal(); ctx.Err() != nil && err == nil && isLocal && newLocal().pid() != 0 {
		s.say("the local management cluster goes on; olvmctl local stop ends it")
	}
}

// ensureManagement has a management cluster with all providers.
func (m *management) ensureManagement(ctx context.Context, s *steps) error {
	if err := m.run(ctx, s); err != nil {
		return err
	}

	if err := m.connect(); err != nil {
		return err
	}

	return m.ensureProviders(ctx, s, m)
}

// leave stops the local management cluster when it is not needed any more.
func (m *management) leave(ctx context.Context, s *steps) error {
	if isLocal, err := m.isLocal(); err != nil || !isLocal || m.preserve {
		return err
	}

	return newLocal().forgetIfEmpty(ctx, s)
}
