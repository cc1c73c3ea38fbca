package guest

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"

	"k8s.io/client-go/rest"
)

// inMemory matches the requests that the in-memory cluster answers even with a backend. These are requests of kubelets
// and kubeadm, and requests of Cluster API about the health of nodes. It also matches the namespace kube-system,
// because the UID of this namespace identifies the cluster.
var inMemory = regexp.MustCompile(`^/api/v1/(nodes|pods)([/?]|$)` +
	`|^/api/v1/namespaces/kube-system(/pods([/?]|$)|$)` +
	`|^/api/v1/namespaces/kube-system/secrets(/bootstrap-token-|[?]|$)` +
	`|^/api/v1/namespaces/kube-system/configmaps/(kubeadm-config|coredns|kubelet-config[^/]*)$` +
	`|^/apis/apps/v1/namespaces/kube-system/(deployments/coredns|daemonsets/kube-proxy)$` +
	`|^/apis/rbac\.authorization\.k8s\.io/v1/(clusterroles|clusterrolebindings)/kubeadm:[^/]*$`)

// UseBackend forwards a workload cluster's requests to a real API server, except requests about its nodes. It lets
// users install add-ons and providers in the cluster. The endpoint is the cluster's control plane endpoint, as
// host:port; "" means all clusters without their own backend. Callers must call it before any VM starts.
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
		Transport: transport, FlushInterval: -1, // forwards the events of watches at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // the backend knows only the user of config
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}

	return nil
}

// backendOf returns the backend of the cluster at the address, or nil.
func (g *Guests) backendOf(address string) http.Handler {
	if own, ok := g.backends[address]; ok {
		return own
	}

	return g.backends[""]
}
