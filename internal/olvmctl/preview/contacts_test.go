package preview

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// contacted is a server expecting no request.
func contacted(
	t *testing.T, start func(http.Handler) *httptest.Server,
) (server *httptest.Server, requests func() []string) {
	t.Helper()

	var mu sync.Mutex
	var got []string

	server = start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()

		mu.Lock()
		defer mu.Unlock()

		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header["Authorization"], " ", r.PostForm))
	}))
	t.Cleanup(server.Close)

	return server, func() []string {
		mu.Lock()
		defer mu.Unlock()

		return got
	}
}

// TestAnEngineThatRedirectsLeadsCredentialsNowhere has an engine that redirects to another server. The plan trusts the
// certificate of that server. The engine redirects the login, or requests after the login.
func TestAnEngineThatRedirectsLeadsCredentialsNowhere(t *testing.T) {
	for _, encrypted := range []bool{true, false} {
		start := httptest.NewServer
		if encrypted {
			start = httptest.NewTLSServer
		}

		stranger, requests := contacted(t, start)

		for name, answer := range map[string]func(http.ResponseWriter){
			"301": func(w http.ResponseWriter) { w.WriteHeader(http.StatusMovedPermanently) },
			"302": func(w http.ResponseWriter) { w.WriteHeader(http.StatusFound) },
			"303": func(w http.ResponseWriter) { w.WriteHeader(http.StatusSeeOther) },
			"307": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTemporaryRedirect) },
			"308": func(w http.ResponseWriter) { w.WriteHeader(http.StatusPermanentRedirect) },
			"a page of an SSO that refreshes itself": func(w http.ResponseWriter) {
				w.Header().Set("Refresh", "0; url="+stranger.URL)
				_, _ = fmt.Fprintf(w, "<html><form method=post action=%q></form></html>", stranger.URL)
			},
			"a challenge of another realm": func(w http.ResponseWriter) {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer authorization_uri=%q", stranger.URL))
				w.WriteHeader(http.StatusUnauthorized)
			},
			"a document with the token URL of another": func(w http.ResponseWriter) {
				_, _ = fmt.Fprintf(w, `{"token_endpoint": %q, "redirect_uri": %q}`, stranger.URL, stranger.URL)
			},
		} {
			for _, inLogin := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, encrypted %t, in the login %t", name, encrypted, inLogin), func(t *testing.T) {
					own := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if !inLogin && strings.HasSuffix(r.URL.Path, "/sso/oauth/token") {
							_ = json.NewEncoder(w).
								Encode(map[string]string{"access_token": "canary", "token_type": "bearer"})
							return
						}

						w.Header().Set("Location", stranger.URL+r.URL.Path)
						answer(w)
					}))
					defer own.Close()

					ca := (&thief{Server: own}).ca()
					if encrypted {
						ca += (&thief{Server: stranger}).ca()
					}

					err := plan(t, fixture.SampleManifests(t, "ENGINE_URL", own.URL+"/ovirt-engine"), nil, Credentials{
						Username: "ci@internal", Password: "canary", ServerURLs: []string{own.URL}, CA: []byte(ca)})
					check.Equal(t, "it is an error", err != nil, true)
					check.Lacks(t, "the error", fmt.Sprint(err), "canary")
					check.Length(t, "what the stranger got", requests(), 0)
				})
			}
		}
	}
}

// TestAKustomizationPatchesNoCredentialsAway has a pull request with a kustomization. It changes the engine in the
// manifests of a running cluster.
func TestAKustomizationPatchesNoCredentialsAway(t *testing.T) {
	const real = "https://engine.example.com/ovirt-engine"

	at := "/spec/olvmOvirtAPIServer/"

	for name, test := range map[string]struct{ patch, want string }{
		"an inline JSON patch": {`[{op: replace, path: ` + at + `serverURL, value: "THIEF"}]`,
			"does not allow the URL"},
		"a JSON patch of all": {`[{op: replace, path: /spec/olvmOvirtAPIServer, value: {serverURL: "THIEF", ` +
			`credentialsSecret: {name: demo-ovirt-credentials}, caConfigMap: {name: evil-ca}}}]`,
			"does not allow the URL"},
		"a merge patch": {"{apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: OLVMCluster, metadata: {name: demo}, " +
			`spec: {olvmOvirtAPIServer: {serverURL: "THIEF"}}}`, "does not allow the URL"},
		"a patch of the Secret": {`[{op: replace, path: ` + at + `credentialsSecret, value: {namespace: prod, name: credentials}}, ` +
			`{op: replace, path: ` + at + `serverURL, value: "THIEF"}]`, ""},
		"a patch that does not verify": {`[{op: add, path: ` + at + `insecureSkipTLSVerify, value: true}, ` +
			`{op: remove, path: ` + at + `caConfigMap}]`, "insecureSkipTLSVerify"},
	} {
		t.Run(name, func(t *testing.T) {
			stranger, dir := newThief(t), t.TempDir()
			server := real

			if strings.Contains(test.want, "insecureSkipTLSVerify") {
				server = stranger.engine() // it is also the engine of the Secret
			}

			check.Error(
				t,
				os.WriteFile(
					filepath.Join(dir, "cluster.yaml"),
					[]byte(fixture.SampleManifests(t, "ENGINE_URL", server)+
						stranger.caMap(t, "default", "evil-ca")),
					0o600,
				),
				"",
			)
			patch, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(test.patch, "THIEF", stranger.engine())))
			check.Error(t, err, "")
			check.Error(
				t,
				os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: [cluster.yaml]\npatches:\n"+
					"- target: {kind: OLVMCluster}\n  patch: |-\n    "+string(patch)+"\n"), 0o600),
				"",
			)

			live := liveWith(t, []client.Object{secretOf("default", "demo-ovirt-credentials", server),
				secretOf("prod", "credentials", real)}...)

			m, err := load([]string{dir}, nil)
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), live, ""), "")

			_, err = m.ReportOn(t.Context(), Request{})
			check.Equal(t, "it is an error", err != nil, true)
			check.Contains(t, "the error", fmt.Sprint(err), test.want)
			check.Length(t, "what the stranger got", stranger.got, 0)
		})
	}
}

// proxied is set in the child process that plans through a proxy, because net/http reads the proxy settings only once
// in a process.
const proxied = "PREVIEW_TEST_OF_PROXIES"

// TestAProxyGetsNoCredentials sets malicious proxies in the environment.
func TestAProxyGetsNoCredentials(t *testing.T) {
	if os.Getenv(proxied) != "" {
		manifests := fixture.SampleManifests(
			t, "ENGINE_URL", fixture.EngineURL, "    caConfigMap:\n      name: demo-ovirt-ca\n", "",
		)
		t.Log(
			plan(
				t, manifests, nil,
				Credentials{Username: "ci@internal", Password: "canary", ServerURLs: []string{fixture.EngineURL}},
			),
		)

		return
	}

	stranger := newThief(t)

	for name, test := range map[string]struct{ answer, want string }{
		"that shows a certificate of its own": {"", "certificate"},
		"that wants a login":                  {"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n", "Proxy Authentication"},
		"that redirects":                      {"HTTP/1.1 302 Found\r\nLocation: " + stranger.URL + "\r\n\r\n", "Found"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			check.Error(t, err, "")

			defer listener.Close()

			seen := make(chan string, 20)

			go func() {
				defer close(seen)

				for {
					connection, err := listener.Accept()
					if err != nil {
						return
					}

					serveProxy(connection, stranger, test.answer, seen)
				}
			}()

			command := exec.CommandContext(
				t.Context(), os.Args[0], "-test.run=^TestAProxyGetsNoCredentials$", "-test.v",
			)
			command.Env = append(os.Environ(), proxied+"=1", "NO_PROXY=", "no_proxy=",
				"HTTPS_PROXY=http://runner:hunter2@"+listener.Addr().String())
			output, err := command.CombinedOutput()
			check.Error(t, err, "")
			_ = listener.Close()

			all := ""
			for line := range seen {
				all += line + "\n"
			}

			check.Contains(t, "the proxy is asked", all, "CONNECT engine.example.com:443")
			check.Lacks(t, "what the proxy sees", all, "canary")
			check.Lacks(t, "what the proxy sees", all, "a request")
			check.Contains(t, "the error", string(output), test.want)
			check.Lacks(t, "the output", string(output), "canary")
			check.Lacks(t, "the output", string(output), "hunter2")
			check.Length(t, "what the stranger got", stranger.got, 0)
		})
	}
}

// serveProxy answers one CONNECT, or impersonates the engine behind it.
func serveProxy(connection net.Conn, as *thief, answer string, seen chan<- string) {
	defer connection.Close()

	request, err := http.ReadRequest(bufio.NewReader(connection))
	if err != nil {
		return
	}

	seen <- request.Method + " " + request.Host

	if answer != "" {
		_, _ = connection.Write([]byte(answer))
		return
	}

	_, _ = connection.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	server := tls.Server(connection, &tls.Config{Certificates: as.TLS.Certificates, MinVersion: tls.VersionTLS12})

	if inner, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
		_ = inner.ParseForm()
		seen <- "a request " + fmt.Sprint(inner.URL, inner.Header, inner.PostForm)
	}
}
