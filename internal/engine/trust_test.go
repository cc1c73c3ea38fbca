package engine

import (
	"encoding/pem"
	"net/http/httptest"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatACABundleHoldsIsSaid has typical mistakes in place of a CA certificate.
func TestWhatACABundleHoldsIsSaid(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()

	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("garbage")}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("a secret")}))

	for name, test := range map[string]struct{ bundle, problem string }{
		"a certificate":                     {good, ""},
		"two":                               {good + good, ""},
		"with the mark of Windows":          {"\ufeff" + good, ""},
		"with a broken one":                 {broken + good, ""},
		"a broken one":                      {broken, "the CA holds a certificate that cannot be read"},
		"a key":                             {key, "the CA holds no certificate, but a PRIVATE KEY"},
		"garbage":                           {"garbage", "the CA holds no PEM certificate"},
		"the certificate in binary":         {string(server.Certificate().Raw), "the CA holds no PEM certificate"},
		"a page of the engine's web server": {"<html><body>Not found</body></html>", "the CA holds no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{URL: "https://engine.example.com", CA: []byte(test.bundle)})
			check.Error(t, err, test.problem)
		})
	}
}
