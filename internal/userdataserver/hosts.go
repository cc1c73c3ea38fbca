package userdataserver

import (
	"context"
	"errors"
	"io"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/jumphost"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// Hosts does what jump hosts ask for. A *jumphost.RefusedError is for the person who asked.
type Hosts interface {
	List(ctx context.Context, jumpHost client.ObjectKey) (string, error)
	Reboot(ctx context.Context, jumpHost client.ObjectKey, name string) (string, error)
	Console(ctx context.Context, jumpHost client.ObjectKey, name string) (string, error)
}

// Serve has the server answer jump hosts; without it their requests are refused. It is called before the server runs.
func (s *Server) Serve(hosts Hosts) { s.hosts = hosts }

// serveHosts answers the command host of a jump host.
func (s *Server) serveHosts(w http.ResponseWriter, r *http.Request) {
	machine, token := asker(r)
	key := client.ObjectKey{Namespace: machine.Namespace, Name: support.SecretName(machine.Name)}
	_, err := s.recognize(r.Context(), key, token, hostTokenHashAnnotation)
	people := client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "/hosts"} // the VM does not wait for them
	if err != nil && !s.limits.allow(r) || err == nil && !s.limits.allowVM(people) {
		requestsTotal.WithLabelValues("limited").Inc()
		http.Error(w, "unavailable", http.StatusServiceUnavailable)
		return
	}

	answer := ""
	if err == nil {
		answer, err = s.askHosts(r, machine)
	}

	logger := ctrl.Log.WithName("jump-host").
		WithValues("OLVMMachine", machine, "path", r.URL.Path, "remote", r.RemoteAddr)

	var refused *jumphost.RefusedError
	switch {
	case err == nil:
		requestsTotal.WithLabelValues("delivered").Inc()
		logger.Info("Did what a jump host asked for")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, answer) //nolint:gosec // plain text, for a shell
	case errors.As(err, &refused):
		requestsTotal.WithLabelValues("refused").Inc()
		logger.Info("Refused what a jump host asked for", "reason", refused.Reason)
		http.Error(w, refused.Reason, http.StatusConflict)
	case errors.Is(err, errRefused):
		requestsTotal.WithLabelValues("refused").Inc()
		logger.Info("Refused a request of a jump host", "reason", err.Error())
		http.Error(w, "forbidden", http.StatusForbidden)
	default:
		requestsTotal.WithLabelValues("failed").Inc()
		logger.Error(err, "Failed to do what a jump host asked for")
		http.Error(w, "unavailable", http.StatusServiceUnavailable)
	}
}

// askHosts does what a request of a jump host with its token asks for.
func (s *Server) askHosts(r *http.Request, jumpHost client.ObjectKey) (string, error) {
	if s.hosts == nil {
		return "", refuse("this manager serves no jump hosts")
	}

	node := r.PathValue("node")

	switch action := r.PathValue("action"); action {
	case "":
		return s.hosts.List(r.Context(), jumpHost)
	case "reboot":
		return s.hosts.Reboot(r.Context(), jumpHost, node)
	case "console":
		return s.hosts.Console(r.Context(), jumpHost, node)
	default:
		return "", &jumphost.RefusedError{Reason: "there is no action " + action}
	}
}
