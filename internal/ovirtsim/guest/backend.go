package guest

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"

	"k8s.io/client-go/rest"
)

// inMemory are the requests that the cluster in memory answers itself, where there is a backend for the others: what
// kubelets and kubeadm make, what Cluster API looks at to see how they are, and the namespace whose UID is the identity
// of the cluster.
var inMemory = regexp.MustCompile(`^/api/v1/(nodes|pods)([/?]|$)` +
	`|^/api/v1/namespaces/kube-system(/pods([/?]|$)|$)` +
	`|^/api/v1/namespaces/kube-system/secrets(/bootstrap-token-|[?]|$)` +
	`|^/api/v1/namespaces/kube-system/configmaps/(kubeadm-config|coredns|kubelet-config[^/]*)$` +
	`|^/apis/apps/v1/namespaces/kube-system/(deployments/coredns|daemonsets/kube-proxy)$` +
	`|^/apis/rbac\.authorization\.k8s\.io/v1/(clusterroles|clusterrolebindings)/kubeadm:[^/]*$`)

// UseBackend has a workload cluster answer requests for whatever is not about its nodes from a real API server, so that
// add-ons and providers can be installed in it. endpoint is the control plane endpoint of that cluster, host:port; an
// empty one means all clusters that have no backend of their own. To be called before a VM starts.
func (g *Guests) UseBackend(endpoint string, config *rest.Config) error {
	target, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("failed to parse the address of the backend: %w", err)
	}

	transport, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("failed to reach the backend: %w", err)
	}

	address := ""
	if endpoint != "" {
		if address, err = listenAddress(endpoint); err != nil {
			return err
		}
	}

	g.backends[address] = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // watches
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // the backend knows our user only
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}

	return nil
}

// backendOf is the backend of the cluster at an address; nil for none.
func (g *Guests) backendOf(address string) http.Handler {
	if own, ok := g.backends[address]; ok {
		return own
	}

	return g.backends[""]
}
