package support

import (
	"net/netip"
	"testing"

	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// issuing returns support services with an issuer.
func issuing(issuer string) *infrav1alpha1.OLVMSupportServices {
	of := &infrav1alpha1.OLVMSupportServices{}
	of.Spec.OIDC = &infrav1alpha1.SupportOIDC{
		Issuer: issuer,
		Clients: []infrav1alpha1.SupportOIDCClient{
			{ID: "kubernetes", RedirectURIs: []string{"http://localhost:1/"}},
		},
		ConnectorsSecretName: "connectors",
	}

	return of
}

func TestIssuers(t *testing.T) {
	t.Parallel()
	const wrong = `spec.oidc.issuer: "`

	for issuer, want := range map[string]string{
		"https://10.0.0.9:5556/dex":   "",
		"https://login.example.com":   "",
		"https://[fd00::9]:5556/dex":  "",
		"http://10.0.0.9":             wrong,
		"https://10.0.0.9/dex?x=y":    wrong,
		"https://user@10.0.0.9/dex":   wrong,
		"https://:5556/dex":           wrong,
		"https://10.0.0.9:123456/dex": `"123456" is not a port`,
		"https://dex.münchen.example": `"dex.münchen.example" is not in the form used by certificates`,
	} {
		check.Error(t, Validate(infrav1.OLVMClusterSpec{}, issuing(issuer)), want)
	}
}

func TestConnectors(t *testing.T) {
	t.Parallel()
	service := CollectServices(issuing("https://10.0.0.9:5556/dex"))[0]
	const field = "spec.oidc.connectorsSecretName: Secret connectors: connectors.yaml: "

	for text, want := range map[string]string{
		"- {type: ldap, id: ldap, name: LDAP, config: {host: ldap}}": "",
		"":                           field + "it has no connector",
		"type: ldap":                 field + "it is not a list of connectors",
		"- {type: ldap, name: LDAP}": field + "[0] has no id",
		"- {type: ldap, id: a, name: A}\n- {type: 7, id: b, name: B}": field + "[1] has no type",
	} {
		_, err := service.NewOIDC([]byte(text))
		check.Error(t, err, want)
	}
}

// TestConfigurationOfDex checks the configuration files of Dex.
func TestConfigurationOfDex(t *testing.T) {
	t.Parallel()
	oidc, err := CollectServices(issuing("https://[fd00::9]:5556/dex"))[0].NewOIDC(
		[]byte("- {type: a, id: b, name: c}"),
	)
	check.Error(t, err, "")
	files, err := oidc.BuildFiles()
	check.Error(t, err, "")

	content := map[string]string{}
	for _, file := range files {
		content[file.Path] = file.Content
	}

	check.Equal(t, "discovery", content["discovery"], "https://[fd00::9]:5556/dex/.well-known/openid-configuration\n")
	check.Equal(t, "where the VM itself finds it", content["connect"], "[fd00::9]:5556:127.0.0.1:5556\n")

	var config struct {
		Issuer        string
		Web           struct{ HTTPS string }
		StaticClients []Client
		Connectors    []map[string]any
	}
	check.Error(t, yaml.Unmarshal([]byte(content["dex.yaml"]), &config), "")
	check.Equal(t, "issuer", config.Issuer, "https://[fd00::9]:5556/dex")
	check.Equal(t, "listener", config.Web.HTTPS, ":5556")
	check.Equal(t, "clients", config.StaticClients, []Client{
		{ID: "kubernetes", Name: "kubernetes", Public: true, RedirectURIs: []string{"http://localhost:1/"}},
	})
	check.Length(t, "connectors", config.Connectors, 1)
}

func TestAnIssuerElsewhereIsNotServed(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddr("10.0.0.9")
	check.Equal(t, "its address", OIDC{Host: "10.0.0.9"}.IsServedBy(address), true)
	check.Equal(t, "a name", OIDC{Host: "login.example.com"}.IsServedBy(address), true)
	check.Equal(t, "another address", OIDC{Host: "10.0.0.8"}.IsServedBy(address), false)
}
