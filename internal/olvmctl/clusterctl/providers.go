// Package clusterctl installs Cluster API and its providers in management clusters, and moves clusters between them. It
// uses the library of clusterctl. It adds this provider, which clusterctl does not know, and accepts providers
// installed by others.
package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	clusterctllog "sigs.k8s.io/cluster-api/cmd/clusterctl/log"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/otherprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/scratchdir"
)

// URL is the URL of this provider's releases, in the format of clusterctl's configuration.
const URL = "https://github.com/capolvm/cluster-api-provider-olvm/releases/latest/infrastructure-components.yaml"

// InfrastructureGroup is the API group of all infrastructure providers.
const InfrastructureGroup = "infrastructure.cluster.x-k8s.io"

// Infrastructure is an infrastructure provider.
type Infrastructure struct {
	// Name is the name of the provider in clusterctl.
	Name string
	// ClusterKind and MachineKind are kinds of the provider.
	ClusterKind, MachineKind string
	// ImageField is the field of a machine that names its image.
	ImageField string
	// Variables are variables of its components. Variables in clusterctl's configuration take precedence.
	Variables map[string]string
}

// OLVM is this provider.
var OLVM = Infrastructure{
	Name:        "olvm",
	ClusterKind: "OLVMCluster",
	MachineKind: "OLVMMachine",
	ImageField:  "vmTemplateName",
}

// OCI is Oracle's provider for Oracle Cloud. Its manager has no credentials, because clusters name an
// OCIClusterIdentity.
var OCI = Infrastructure{
	Name:        "oci",
	ClusterKind: "OCICluster",
	MachineKind: "OCIMachine",
	ImageField:  "imageId",
	Variables:   map[string]string{"INIT_OCI_CLIENTS_ON_STARTUP": "false"},
}

// featureGates are variables of Cluster API's own providers. Images with Ignition and ClusterClasses need them.
var featureGates = map[string]string{"EXP_KUBEADM_BOOTSTRAP_FORMAT_IGNITION": "true", "CLUSTER_TOPOLOGY": "true"}

// clusterctlManager is the field manager of clusterctl and its library. It is the name of their user agent.
const clusterctlManager = "clusterctl"

// pollInterval is the interval between checks of Deployments and moves.
const pollInterval = time.Second

// Providers configures where to get providers.
type Providers struct {
	// Config is the configuration file of clusterctl. If empty, it is clusterctl's default file.
	Config string
	// Version is the version of this provider, such as v0.1.0. If empty, it is the newest version.
	Version string
	// Timeout bounds each wait.
	Timeout time.Duration
	// Progress receives lines for users. If nil, the lines are discarded.
	Progress func(format string, args ...any)
}

// Management is a management cluster.
type Management struct {
	// Kubeconfig is a file. If empty, it is kubectl's default.
	Kubeconfig string
	// Config is the content of the kubeconfig. If nil, clusterctl reads the file several times.
	Config *clientcmdapi.Config
	Client client.Client
	// MayAct returns an error if a move may not write now. Client calls it, too. If nil, a move may always write.
	MayAct func(context.Context) error
}

// writeKubeconfig returns a kubeconfig that does not change. done removes it.
func (m Management) writeKubeconfig() (_ clusterctl.Kubeconfig, done func(), err error) {
	if m.Config == nil {
		return clusterctl.Kubeconfig{Path: m.Kubeconfig}, func() {}, nil
	}

	content, err := clientcmd.Write(*m.Config)
	if err != nil {
		return clusterctl.Kubeconfig{}, nil, fmt.Errorf("failed to encode a kubeconfig: %w", err)
	}

	path, done, err := secretFile(content)
	if err != nil {
		return clusterctl.Kubeconfig{}, nil, fmt.Errorf("failed to write a kubeconfig: %w", err)
	}

	return clusterctl.Kubeconfig{Path: path, Context: m.Config.CurrentContext}, done, nil
}

// provider is a provider needed by olvmctl. One of its kinds identifies it.
type provider struct {
	label, name, group, kind string
}

var needed = []provider{
	{"cluster-api", "cluster-api", "cluster.x-k8s.io", "Cluster"},
	{"bootstrap-kubeadm", "kubeadm", "bootstrap.cluster.x-k8s.io", "KubeadmConfig"},
	{"control-plane-kubeadm", "kubeadm", "controlplane.cluster.x-k8s.io", "KubeadmControlPlane"},
}

func (p *Providers) reportProgress(format string, args ...any) {
	if p.Progress != nil {
		p.Progress(format, args...)
	}
}

// EnsureInstalled installs the missing providers in a cluster, and waits until all their managers are available. It
// does not change existing providers, even if others have installed them. It returns the providers it has installed.
func (p *Providers) EnsureInstalled(ctx context.Context, m Management, on ...Infrastructure) ([]string, error) {
	var missing []provider
	all := slices.Clone(needed)
	variables := maps.Clone(featureGates)

	for _, one := range on {
		if one.Name == OLVM.Name {
			if err := otherprovider.CheckAbsent(ctx, m.Client); err != nil {
				return nil, err
			}
		}

		all = append(all, provider{"infrastructure-" + one.Name, one.Name, InfrastructureGroup, one.ClusterKind})
		maps.Copy(variables, one.Variables)
	}

	for _, wanted := range all {
		there, err := isInstalled(ctx, m.Client, wanted)
		if err != nil {
			return nil, err
		}

		if !there {
			missing = append(missing, wanted)
		}
	}

	if len(missing) > 0 {
		if err := p.installMissing(ctx, m, missing, variables); err != nil {
			return nil, fmt.Errorf("failed to install %s: %w", strings.Join(labelsOf(missing), ", "), err)
		}
	}

	return labelsOf(missing), p.waitForManagers(ctx, m.Client)
}

func labelsOf(list []provider) []string {
	var out []string
	for _, one := range list {
		out = append(out, one.label)
	}

	return out
}

// servesKind reports whether the API server serves the kind of a provider.
func servesKind(c client.Client, wanted provider) (bool, error) {
	_, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: wanted.group, Kind: wanted.kind})
	switch {
	case err == nil:
		return true, nil
	case meta.IsNoMatchError(err):
		return false, nil
	}

	return false, fmt.Errorf("failed to list the kinds of the management cluster: %w", err)
}

// isInstalled reports whether a provider is installed. The API server must serve its kind. In addition, clusterctl's
// inventory must list it, or others must have created a Deployment for it. clusterctl creates the kinds first, and the
// inventory entry last. Without this entry, kinds and Deployments of clusterctl are left from an interrupted
// installation.
func isInstalled(ctx context.Context, c client.Client, wanted provider) (bool, error) {
	served, err := servesKind(c, wanted)
	if err != nil || !served {
		return false, err
	}

	entries, err := listLabelled(ctx, c, clusterctlv1.GroupVersion.WithKind("Provider"), wanted)
	if err != nil || len(entries) > 0 {
		return err == nil, err
	}

	deployments, err := listLabelled(ctx, c, appsv1.SchemeGroupVersion.WithKind("Deployment"), wanted)

	return slices.ContainsFunc(deployments, func(one metav1.PartialObjectMetadata) bool {
		return !slices.ContainsFunc(one.ManagedFields, func(by metav1.ManagedFieldsEntry) bool {
			return by.Manager == clusterctlManager && by.Subresource == ""
		})
	}), err
}

// listLabelled returns the objects of one kind that belong to a provider. It returns none if the kind is not served.
func listLabelled(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, of provider,
) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	err := c.List(ctx, list, client.MatchingLabels{clusterv1.ProviderNameLabel: of.label})
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("failed to look for provider %s: %w", of.label, err)
	}

	return list.Items, nil
}

// installMissing installs the missing providers with clusterctl. If necessary, it also installs cert-manager.
func (p *Providers) installMissing(
	ctx context.Context, m Management, missing []provider, variables map[string]string,
) error {
	library, done, err := p.newClient(ctx, variables, nil)
	if err != nil {
		return err
	}
	defer done()

	kubeconfig, remove, err := m.writeKubeconfig()
	if err != nil {
		return err
	}
	defer remove()
	options := clusterctl.InitOptions{
		Kubeconfig: kubeconfig, WaitProviders: false,
		// Install only the missing providers: in its first run, clusterctl would install all of them.
		CoreProvider:          clusterctl.NoopProvider,
		BootstrapProviders:    []string{clusterctl.NoopProvider},
		ControlPlaneProviders: []string{clusterctl.NoopProvider},
	}

	for _, one := range missing {
		switch one.label {
		case "cluster-api":
			options.CoreProvider = one.name
		case "bootstrap-kubeadm":
			options.BootstrapProviders = []string{one.name}
		case "control-plane-kubeadm":
			options.ControlPlaneProviders = []string{one.name}
		default:
			name := one.name
			if p.Version != "" && name == OLVM.Name {
				name += ":" + p.Version
			}

			options.InfrastructureProviders = append(options.InfrastructureProviders, name)
		}
	}

	_, err = library.Init(ctx, options)

	return p.explainFetch(err)
}

// explainFetch adds to a network error why it needs the internet, and how to work without it.
func (p *Providers) explainFetch(err error) error {
	if err == nil || p.Config != "" || !isOfNetwork(err) {
		return err
	}

	return fmt.Errorf("%w; clusterctl downloads the releases from the internet; without internet access, use "+
		"--clusterctl-config as in docs/operate/install.md#without-the-internet", err)
}

// isOfNetwork reports whether an error means that a server on the internet is unreachable. clusterctl loses the types
// of some errors.
func isOfNetwork(err error) bool {
	var network net.Error
	if errors.As(err, &network) {
		return true
	}

	return slices.ContainsFunc([]string{
		"dial tcp", "no such host", "i/o timeout", "TLS handshake timeout", "proxyconnect", "rate limit",
		"network is unreachable",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// waitForManagers waits for the Deployments of all providers.
func (p *Providers) waitForManagers(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	said := ""

	for {
		waiting, err := listUnavailable(ctx, c)
		if err == nil && len(waiting) == 0 {
			return nil
		}

		if names := strings.Join(waiting, ", "); names != said {
			said = names
			p.reportProgress("Waiting for %s", names)
		}

		select {
		case <-ctx.Done():
			if err != nil {
				return err
			}

			return fmt.Errorf("not available after %s: %s; to see the cause, run kubectl describe", p.Timeout,
				strings.Join(waiting, ", "))
		case <-time.After(pollInterval):
		}
	}
}

// listUnavailable returns the Deployments of providers that are not available, with the reasons.
func listUnavailable(ctx context.Context, c client.Client) ([]string, error) {
	var list appsv1.DeploymentList
	if err := c.List(ctx, &list, client.HasLabels{clusterv1.ProviderNameLabel}); err != nil {
		return nil, fmt.Errorf("failed to list the managers: %w", err)
	}

	var out []string

	for i := range list.Items {
		d := &list.Items[i]

		at := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable
		})
		switch {
		case at < 0:
			out = append(out, fmt.Sprintf("Deployment %s/%s", d.Namespace, d.Name))
		case d.Status.Conditions[at].Status != corev1.ConditionTrue:
			out = append(
				out,
				fmt.Sprintf("Deployment %s/%s (%s)", d.Namespace, d.Name, d.Status.Conditions[at].Message),
			)
		}
	}

	return out, nil
}

// MoveNamespace moves all clusters of a namespace. clusterctl refuses to start until all parts of a cluster are
// provisioned, so MoveNamespace retries until the timeout. An interrupted move leaves paused Clusters, and clusterctl
// refuses to move these.
func (p *Providers) MoveNamespace(ctx context.Context, from, to Management, namespace string) error {
	source, removeSource, err := from.writeKubeconfig()
	if err != nil {
		return err
	}
	defer removeSource()

	target, removeTarget, err := to.writeKubeconfig()
	if err != nil {
		return err
	}
	defer removeTarget()

	library, done, err := p.newClient(ctx, nil, map[string]func(context.Context) error{
		source.Path: from.MayAct, target.Path: to.MayAct,
	})
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()

	for {
		err := library.Move(ctx, clusterctl.MoveOptions{
			FromKubeconfig: source,
			ToKubeconfig:   target,
			Namespace:      namespace,
		})
		if err == nil {
			return nil
		}

		if !strings.Contains(err.Error(), "cannot start the move operation") {
			return fmt.Errorf("failed to move namespace %s: %w", namespace, err)
		}

		p.reportProgress("Waiting to move: %v", err)

		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to move namespace %s within %s: %w", namespace, p.Timeout, err)
		case <-time.After(5 * pollInterval):
		}
	}
}

// newClient returns a client of the clusterctl library. done removes its files. fences are the fences of management
// clusters, by the paths of their kubeconfigs.
func (p *Providers) newClient(
	ctx context.Context, variables map[string]string, fences map[string]func(context.Context) error,
) (_ clusterctl.Client, done func(), err error) {
	clusterctllog.SetLogger(logr.New(&sink{say: p.reportProgress}))
	path, done, err := p.writeConfiguration(variables)
	if err != nil {
		return nil, nil, err
	}

	fence, err := newFence(ctx, path, fences)
	if err != nil {
		done()
		return nil, nil, err
	}

	library, err := clusterctl.New(ctx, path, fence)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("failed to read clusterctl's configuration: %w", err)
	}

	return library, done, nil
}

// writeConfiguration writes a copy of clusterctl's configuration. The copy also has this provider, and the missing
// variables.
func (p *Providers) writeConfiguration(variables map[string]string) (path string, done func(), err error) {
	path = p.Config
	if path == "" {
		path, _ = xdg.SearchConfigFile("cluster-api/clusterctl.yaml") // as clusterctl does
	}

	if strings.HasPrefix(path, "https://") {
		return path, func() {}, nil
	}

	content := map[string]any{}
	if path != "" {
		text, err := os.ReadFile(path)
		if err == nil {
			err = yaml.Unmarshal(text, &content)
		}

		if err != nil {
			return "", nil, fmt.Errorf("failed to read clusterctl's configuration: %w", err)
		}
	}

	list, _ := content["providers"].([]any)
	if !slices.ContainsFunc(list, func(entry any) bool {
		fields, _ := entry.(map[string]any)
		return fields["name"] == OLVM.Name && fields["type"] == "InfrastructureProvider"
	}) {
		content["providers"] = append(list, map[string]any{
			"name": OLVM.Name,
			"type": "InfrastructureProvider",
			"url":  URL,
		})
	}

	for name, value := range variables {
		if _, set := content[name]; !set {
			content[name] = value
		}
	}

	text, err := yaml.Marshal(content)
	if err != nil {
		return "", nil, fmt.Errorf("failed to encode clusterctl's configuration: %w", err)
	}

	dir, remove, err := scratchdir.Make(scratchdir.Command)
	if err != nil {
		return "", nil, err
	}

	done = func() { _ = remove() }
	path = filepath.Join(dir, "clusterctl.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		done()
		return "", nil, errors.Join(errors.New("failed to write clusterctl's configuration"), err)
	}

	return path, done, nil
}
