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
// kubelets and kubeadm make, and what Cluster API looks at to see how they are.
var inMemory = regexp.MustCompile(`^/api/v1/(nodes|pods)([/?]|$)` +
	`|^/api/v1/namespaces/kube-system/pods([/?]|$)` +
	`|^/api/v1/namespaces/kube-system/secrets(/bootstrap-token-|[?]|$)` +
	`|^/api/v1/namespaces/kube-system/configmaps/(kubeadm-config|coredns|kubelet-config[^/]*)$` +
	`|^/apis/apps/v1/namespaces/kube-system/(deployments/coredns|daemonsets/kube-proxy)$` +
	`|^/apis/rbac\.authorization\.k8s\.io/v1/(clusterroles|clusterrolebindings)/kubeadm:[^/]*$`)

// UseBackend has workload clusters answer requests for whatever is not about their nodes from a real API server, so
// that add-ons and providers can be installed in them. All workload clusters share it. To be called before a VM starts.
func (g *Guests) UseBackend(config *rest.Config) error {
	target, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("failed to parse the address of the backend: %w", err)
	}

	transport, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("failed to reach the backend: %w", err)
	}

	g.backend = &httputil.ReverseProxy{
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
