package userdataserver

import (
	"context"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/jumphost"
)

// Hosts handles the requests of jump hosts. It returns a *jumphost.RefusedError for errors that the user should see.
type Hosts interface {
	List(ctx context.Context, jumpHost client.ObjectKey) (string, error)
	Reboot(ctx context.Context, jumpHost client.ObjectKey, name string) (string, error)
	Console(ctx context.Context, jumpHost client.ObjectKey, name string) (string, error)
}

// EnableHosts enables requests of jump hosts. Without it, the server rejects them. Callers must call it before the
// server runs.
func (s *Server) EnableHosts(hosts Hosts) { s.hosts = hosts }

// serveHosts answers the command "host" of a jump host.
func (s *Server) serveHosts(w http.ResponseWriter, r *http.Request) {
	machine, _ := parseAsker(r)
	key := configurationSecret(machine)
	// Commands of users have a limit of their own, so they cannot use up the limit of the VM.
	people := client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "/hosts"}
	s.serveRequest(w, r, question{
		what:    "a jump host",
		secret:  key,
		hash:    hostTokenHashAnnotation,
		limited: func(*metav1.PartialObjectMetadata) bool { return !s.limits.vms.allowClient(people, time.Now()) },
		answer: func(log logr.Logger, _ *metav1.PartialObjectMetadata) error {
			answer, err := s.askHosts(r, machine)
			if err != nil {
				return err
			}

			log.Info("Did what a jump host asked for")
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, answer) //nolint:gosec // plain text, for a shell

			return nil
		},
	})
}

// askHosts handles a jump host's request after its authorization.
func (s *Server) askHosts(r *http.Request, jumpHost client.ObjectKey) (string, error) {
	if s.hosts == nil {
		return "", newRefusal("this manager serves no jump hosts")
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
