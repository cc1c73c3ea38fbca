package guestnet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/servingcert"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// connectors are connectors of Dex with which every user logs in as Kilgore Trout.
const connectors = "- {type: mockCallback, id: mock, name: Mock}\n"

// newAuthority creates an authority from the contents of a Secret.
func newAuthority(t *testing.T) *servingcert.Authority {
	t.Helper()
	certPEM, keyPEM, err := servingcert.NewAuthority("tenant")
	check.Error(t, err, "")
	out, err := servingcert.ParseAuthority(certPEM, keyPEM)
	check.Error(t, err, "")

	return out
}

// issuer is a VM that runs Dex.
type issuer struct {
	*supportVM
	url       string
	authority *servingcert.Authority
}

// issuerAt starts an issuer at an address.
func (s *site) issuerAt(name, address string, dex string) *issuer {
	t := s.lan.t
	t.Helper()
	out := &issuer{
		supportVM: s.supportVM(name, address),
		url:       "https://" + address + ":5556/dex",
		authority: newAuthority(t),
	}
	out.configure(out.files(connectors))
	check.Error(t, os.MkdirAll(filepath.Join(out.root, "bin"), 0o755), "")
	check.Error(t, os.Symlink(dex, filepath.Join(out.root, "bin", "dex")), "")
	out.begin()

	return out
}

// files returns the configuration of the issuer with the given connectors. Each configuration has its own certificate.
func (i *issuer) files(connectors string) (out []bootstrap.File) {
	t := i.site.lan.t
	t.Helper()
	of := &infrav1alpha1.OLVMSupportServices{}
	of.Spec.OIDC = &infrav1alpha1.SupportOIDC{
		Issuer:  i.url,
		Clients: []infrav1alpha1.SupportOIDCClient{{ID: "kubernetes"}},
	}
	check.Error(t, support.Validate(infrav1.OLVMClusterSpec{}, of), "")
	oidc, err := support.CollectServices(of)[0].NewOIDC([]byte(connectors))
	check.Error(t, err, "")
	made, err := i.authority.Sign(oidc.Host)
	check.Error(t, err, "")
	oidc.Authority = i.authority.PEM
	oidc.Certificate, oidc.Key, err = servingcert.EncodePEM(made)
	check.Error(t, err, "")
	out, err = oidc.BuildFiles()
	check.Error(t, err, "")

	return out
}

// browser returns a client that follows redirects within the network. It stops at a redirect to its own machine.
func (i *issuer) browser() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.authority.PEM)

	return &http.Client{
		Timeout: wait.Limit,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dialIn(ctx, i.site.lan.client, network, address)
			},
		},
		CheckRedirect: func(next *http.Request, _ []*http.Request) error {
			if next.URL.Hostname() == "localhost" {
				return http.ErrUseLastResponse
			}

			return nil
		},
	}
}

// token logs a user in like kubectl's helper programs, and returns the ID token.
func (i *issuer) token() (string, error) {
	client := i.browser()
	const back = "http://localhost:8000/"
	ask := url.Values{
		"client_id": {"kubernetes"}, "redirect_uri": {back}, "response_type": {"code"},
		"scope": {"openid email groups"}, "state": {"state"},
	}
	response, err := client.Get(i.url + "/auth?" + ask.Encode())
	if err != nil {
		return "", err
	}

	response.Body.Close()
	came, err := url.Parse(response.Header.Get("Location"))
	if err != nil || came.Query().Get("code") == "" {
		return "", fmt.Errorf("the answer is %s, and leads to %q", response.Status, response.Header.Get("Location"))
	}

	response, err = client.PostForm(i.url+"/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {came.Query().Get("code")}, "redirect_uri": {back},
		"client_id": {"kubernetes"},
	})
	if err != nil {
		return "", err
	}

	defer response.Body.Close()
	var given struct {
		IDToken string `json:"id_token"`
	}
	body, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(body, &given)
	}

	if err == nil && given.IDToken == "" {
		err = fmt.Errorf("there is no token in %s", body)
	}

	return given.IDToken, err
}

// gateway starts a proxy through which programs outside reach the network, and returns the proxy's URL.
func (l *lan) gateway() string {
	listener, err := (&net.ListenConfig{}).Listen(l.t.Context(), "tcp", "127.0.0.1:0")
	check.Error(l.t, err, "")
	server := &http.Server{
		ReadHeaderTimeout: wait.Limit,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			there, err := dialIn(r.Context(), l.client, "tcp", r.Host)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}

			w.WriteHeader(http.StatusOK)
			here, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				there.Close()
				return
			}

			go func() {
				_, _ = io.Copy(there, here)
				there.Close()
			}()
			_, _ = io.Copy(here, there)
			here.Close()
		}),
	}
	go func() { _ = server.Serve(listener) }()
	l.t.Cleanup(func() { server.Close() })

	return "http://" + listener.Addr().String()
}

// apiServer starts a real kube-apiserver that accepts the tokens of an issuer. Its configuration is that of the flavor
// oidc.
func (i *issuer) apiServer(kubeAPIServer, etcd string) *rest.Config {
	t := i.site.lan.t
	t.Helper()
	ca, wrapper := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "kube-apiserver")
	check.Error(t, os.WriteFile(ca, i.authority.PEM, 0o600), "")
	script := fmt.Sprintf("#!/bin/sh\nHTTPS_PROXY=%s NO_PROXY=127.0.0.1,localhost exec %s \"$@\"\n", i.site.lan.gateway(),
		kubeAPIServer)
	check.Error(t, os.WriteFile(wrapper, []byte(script), 0o700), "")

	api := &envtest.APIServer{Path: wrapper}
	api.Configure().Set("oidc-issuer-url", i.url).Set("oidc-client-id", "kubernetes").Set("oidc-ca-file", ca).
		Set("oidc-username-claim", "email").Set("oidc-username-prefix", "oidc:").
		Set("oidc-groups-claim", "groups").Set("oidc-groups-prefix", "oidc:")
	env := &envtest.Environment{ControlPlane: envtest.ControlPlane{APIServer: api, Etcd: &envtest.Etcd{Path: etcd}}}
	config, err := env.Start()
	check.Error(t, err, "")
	t.Cleanup(func() { _ = env.Stop() })

	return config
}

// whoAmI asks an API server for the owner of a token.
func whoAmI(server *rest.Config, token string) (authenticationv1.UserInfo, error) {
	config := rest.AnonymousClientConfig(server)
	config.BearerToken = token
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}

	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(context.Background(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}

	return review.Status.UserInfo, nil
}

// TestKubeAPIServerTakesTokensOfTheIssuer (row 54) runs real Dex on VMs, and a real kube-apiserver that trusts one of
// them.
func TestKubeAPIServerTakesTokensOfTheIssuer(t *testing.T) {
	l := newLAN(t, "cc", "openssl")
	dex, kubeAPIServer, etcd := l.tool("oidc", "dex"), l.tool("plane", "kube-apiserver"), l.tool("plane", "etcd")
	s := newSupported(l, "o")
	i, other := s.issuerAt("o-oidc-0", "10.99.0.51", dex), s.issuerAt("p-oidc-0", "10.99.0.52", dex)

	tokens := map[*issuer]string{}

	for _, each := range []*issuer{i, other} {
		l.eventually(each.url+" gives tokens", func() (err error) {
			tokens[each], err = each.token()
			return err
		})
	}

	server := i.apiServer(kubeAPIServer, etcd)
	l.eventually("the API server takes a token of its issuer", func() error {
		who, err := whoAmI(server, tokens[i])
		if err == nil && (who.Username != "oidc:kilgore@kilgore.trout" || !slices.Contains(who.Groups, "oidc:authors")) {
			err = fmt.Errorf("it takes it for %+v", who)
		}

		return err
	})

	if who, err := whoAmI(server, tokens[other]); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token of another issuer: %+v, %v", who, err)
	}

	// The API server trusts only the tenant's authority, and tokens stay valid after a change of the certificate.
	stranger := *i
	stranger.authority = other.authority
	_, err := stranger.token()
	var untrusted *tls.CertificateVerificationError
	if !errors.As(err, &untrusted) {
		t.Errorf("with another authority: %v", err)
	}

	before := i.serial()
	files := i.files(connectors)
	i.expectUsed(files)
	l.eventually("the new certificate is used", func() error {
		if i.serial() == before {
			return errors.New("it is the one before")
		}

		return nil
	})
	_, err = whoAmI(server, tokens[i])
	check.Error(t, err, "")

	// Dex refuses these connectors.
	refused := i.files("- {type: telepathy, id: mind, name: Mind}\n")
	l.eventually("the VM says what is wrong", func() error {
		if report := i.configure(refused); report.Current || !strings.Contains(report.Problem, "does not come up") {
			return fmt.Errorf("it reports %+v", report)
		}

		return nil
	})
	l.eventually("it gives tokens as before", func() error {
		_, err := i.token()
		return err
	})
}

// serial returns the serial number of the certificate in use, or "" if there is no answer.
func (i *issuer) serial() string {
	out, err := exec.Command("ip", "netns", "exec", i.site.lan.client, "curl", "--insecure", "--silent", "--output",
		"/dev/null", "--write-out", "%{certs}", i.url+"/.well-known/openid-configuration").Output()
	if err != nil {
		return ""
	}

	return string(out)
}
