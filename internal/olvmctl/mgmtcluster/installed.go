package mgmtcluster

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// reachLimit bounds how long a command waits for the first response of an API server.
const reachLimit = 20 * time.Second

// infrastructures are the infrastructure kinds supported by olvmctl.
var infrastructures = []schema.GroupVersionKind{
	infrav1.GroupVersion.WithKind("OLVMCluster"),
	{Group: infrav1.GroupVersion.Group, Version: "v1beta2", Kind: "OCICluster"},
}

// unusableError reports that a command cannot use a management cluster, with the remedy.
type unusableError struct {
	message string
	err     error
}

func (e *unusableError) Error() string { return e.message }

func (e *unusableError) Unwrap() error { return e.err }

// newUnusableError returns an error about this management cluster. The %s in problem stands for the description of the
// cluster.
func (c *Cluster) newUnusableError(err error, problem, remedy string) error {
	return &unusableError{message: fmt.Sprintf(problem, c.DescribeLocation()) + "; " + remedy, err: err}
}

// CheckInstalled checks that the API server serves Cluster API and a supported infrastructure. The error names the
// missing part, the cluster, and the command to install this part.
func (c *Cluster) CheckInstalled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()

	capi, err := c.listKinds(ctx, clusterv1.GroupVersion)

	switch {
	case apierrors.IsForbidden(err):
		return nil // the next request reports that the user may not do this
	case err != nil:
		return c.explainUnreachable(err)
	case len(capi) == 0:
		return c.newUnusableError(nil, "Cluster API "+clusterv1.GroupVersion.Version+" is not installed in %s",
			"to install it, run olvmctl start -f FILE or clusterctl init; or specify another management cluster "+
				"with --kubeconfig or --context")
	}

	for _, kind := range infrastructures {
		found, err := c.listKinds(ctx, kind.GroupVersion())
		if err != nil {
			return c.explainUnreachable(err)
		}

		if slices.Contains(found, kind.Kind) {
			return nil
		}
	}

	return c.newUnusableError(nil, "Cluster API is installed in %s, but the provider olvm is not",
		"to install it, run olvmctl start -f FILE or clusterctl init --infrastructure olvm")
}

// listKinds returns the kinds in a version of an API group, or none if the API server does not serve it.
func (c *Cluster) listKinds(ctx context.Context, version schema.GroupVersion) ([]string, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("failed to create a client of the management cluster: %w", err)
	}

	answer, err := discoverer.RESTClient().Get().AbsPath("/apis", version.Group, version.Version).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}

	var list metav1.APIResourceList
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("the server is not a Kubernetes API server: %w", err)
	}

	var out []string
	for i := range list.APIResources {
		out = append(out, list.APIResources[i].Kind)
	}

	return out, nil
}

// explainUnreachable returns the error about a server that does not respond like an API server.
func (c *Cluster) explainUnreachable(err error) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		network   net.Error
		said      *apierrors.StatusError
	)

	why := strings.TrimSpace(err.Error())

	var request *url.Error
	if errors.As(err, &request) { // omits the request, because the user does not know it
		why = request.Err.Error()
	}

	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return c.newUnusableError(err, "%s rejects the credentials in the kubeconfig",
			"log in again, or specify another kubeconfig with --kubeconfig or --context")
	case errors.As(err, &authority), errors.As(err, &name):
		return c.newUnusableError(
			err, "the kubeconfig does not trust the certificate of %s ("+escapePercent(why)+")",
			"get a new kubeconfig, or specify another one with --kubeconfig or --context",
		)
	case errors.As(err, &said) && said.ErrStatus.Code < 500 && said.ErrStatus.Code > 0:
		return c.newUnusableError(err, "%s does not respond like a Kubernetes API server ("+escapePercent(why)+")",
			"correct the server in the kubeconfig")
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.As(err, &said):
		return c.newUnusableError(err, "cannot reach %s ("+escapePercent(why)+")", c.reachRemedy())
	}

	return c.newUnusableError(err, "%s does not respond like a Kubernetes API server ("+escapePercent(why)+")",
		"correct the server in the kubeconfig")
}

// escapePercent escapes a text for use as a format.
func escapePercent(text string) string { return strings.ReplaceAll(text, "%", "%%") }

func (c *Cluster) reachRemedy() string {
	if c.Kubeconfig == LocalOfUser().Kubeconfig() {
		return "see olvmctl local status, or restart it with olvmctl local stop and olvmctl local start"
	}

	return "check that it is running and reachable from this machine, or specify another one with --kubeconfig or " +
		"--context"
}
