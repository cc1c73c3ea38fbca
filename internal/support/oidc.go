package support

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

// OIDC is the configuration of a VM with an OpenID Connect provider.
type OIDC struct {
	// Issuer is the provider's URL. Host and Port are parts of this URL.
	Issuer, Host string
	Port         int
	// Clients and Connectors are those of Dex.
	Clients    []Client
	Connectors []map[string]any
	// Authority is the CA certificate for Certificate, in PEM. The caller sets both certificates and the key.
	Authority, Certificate, Key []byte
}

// Client is a client of Dex.
type Client struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Public       bool     `json:"public"`
	RedirectURIs []string `json:"redirectURIs,omitempty"`
}

// parseIssuer parses and checks the URL of the issuer.
func (s Service) parseIssuer() (*url.URL, error) {
	out, err := url.Parse(s.OIDC.Issuer)
	if err != nil || out.Scheme != "https" || out.Hostname() == "" || out.RawQuery != "" || out.Fragment != "" ||
		out.User != nil {
		return nil, s.NewInvalidError("issuer", "%q is not a URL such as https://10.20.30.9:5556/dex", s.OIDC.Issuer)
	}

	if strings.ContainsFunc(out.Hostname(), func(r rune) bool { return r > unicode.MaxASCII }) {
		return nil, s.NewInvalidError(
			"issuer", "%q is not in the form used by certificates; use xn--...", out.Hostname(),
		)
	}

	if port := out.Port(); port != "" {
		if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
			return nil, s.NewInvalidError("issuer", "%q is not a port", port)
		}
	}

	return out, nil
}

// NewOIDC returns the configuration of the service's VM. The parameter connectors is the content of the Secret with the
// connectors.
func (s Service) NewOIDC(connectors []byte) (OIDC, error) {
	at, err := s.parseIssuer()
	if err != nil {
		return OIDC{}, err
	}

	out := OIDC{Issuer: s.OIDC.Issuer, Host: at.Hostname()}
	out.Port, _ = strconv.Atoi(cmp.Or(at.Port(), "443")) // parseIssuer has checked the port
	if out.Connectors, err = parseConnectors(connectors); err != nil {
		return out, s.NewInvalidError(
			"connectorsSecretName", "Secret %s: connectors.yaml: %v", s.OIDC.ConnectorsSecretName, err,
		)
	}

	for _, client := range s.OIDC.Clients {
		out.Clients = append(out.Clients, Client{
			ID:           client.ID,
			Name:         client.ID,
			Public:       true,
			RedirectURIs: slices.Clone(client.RedirectURIs),
		})
	}

	return out, nil
}

// parseConnectors parses connectors of Dex. Errors contain the index of the invalid connector.
func parseConnectors(text []byte) ([]map[string]any, error) {
	var out []map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("it is not a list of connectors: %w", err)
	}

	if len(out) == 0 {
		return nil, fmt.Errorf("it has no connector; add a list with type, id, name and config of each connector")
	}

	for i, connector := range out {
		for _, key := range []string{"type", "id", "name"} {
			if text, ok := connector[key].(string); !ok || text == "" {
				return nil, fmt.Errorf("[%d] has no %s", i, key)
			}
		}
	}

	return out, nil
}

// IsServedBy reports whether an address can belong to the issuer. If the issuer's host is an address, this must be the
// same address.
func (o OIDC) IsServedBy(address netip.Addr) bool {
	host, err := netip.ParseAddr(o.Host)
	return err != nil || host == address
}

// BuildFiles returns the configuration files of the VM.
func (o OIDC) BuildFiles() ([]bootstrap.File, error) {
	config, err := yaml.Marshal(map[string]any{
		"issuer":  o.Issuer,
		"storage": map[string]any{"type": "sqlite3", "config": map[string]any{"file": "/var/lib/capolvm-dex/dex.db"}},
		"web": map[string]any{
			"https":   net.JoinHostPort("", strconv.Itoa(o.Port)), // on all address families of the VM
			"tlsCert": "/etc/capolvm/dex/tls.crt",
			"tlsKey":  "/etc/capolvm/dex/tls.key",
		},
		"oauth2":        map[string]any{"skipApprovalScreen": true},
		"staticClients": o.Clients,
		"connectors":    o.Connectors,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to encode the configuration of Dex: %w", err)
	}

	allowed := &bootstrap.Allowed{}
	allowed.AllowTCP(o.Port)

	at := net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	discovery := strings.TrimSuffix(o.Issuer, "/") + "/.well-known/openid-configuration\n"

	return []bootstrap.File{
		{Path: applyFile, Content: render("oidc.sh", nil), Mode: 0o700},
		{Path: "dex.yaml", Content: string(config), Mode: 0o640},
		{Path: "tls.crt", Content: string(o.Certificate), Mode: 0o644},
		{Path: "tls.key", Content: string(o.Key), Mode: 0o640},
		{Path: "ca.crt", Content: string(o.Authority), Mode: 0o644},
		{Path: "capolvm-dex.service", Content: render("dex.service", nil), Mode: 0o644},
		{Path: "discovery", Content: discovery, Mode: 0o644},
		{Path: "connect", Content: fmt.Sprintf("%s:127.0.0.1:%d\n", at, o.Port), Mode: 0o644},
		{Path: allowFile, Content: allowed.RenderScript(), Mode: 0o700},
	}, nil
}
