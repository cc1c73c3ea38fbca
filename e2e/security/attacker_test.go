package security

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// attacker is a TLS server that answers 404.
type attacker struct{ *httptest.Server }

func newAttacker(t *testing.T, note func(*http.Request)) *attacker {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.NotFound(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })

	return &attacker{server}
}

// kubeconfig returns a kubeconfig for a server. The parameters more and user are JSON for the cluster and the user.
func (a *attacker) kubeconfig(server, more, user string) string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: a.Certificate().Raw,
	}))

	return fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
"clusters":[{"name":"a","cluster":{"server":%q,"certificate-authority-data":%q%s}}],"users":[{"name":"a","user":{%s}}]}`,
		server, ca, more, user,
	)
}

// newPlainAttacker returns an attacker without TLS.
func newPlainAttacker(t *testing.T, note func(*http.Request)) *attacker {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.NotFound(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })

	return &attacker{server}
}
