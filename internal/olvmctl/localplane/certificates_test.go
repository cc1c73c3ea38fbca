package localplane

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/cluster-api/util/certs"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestACertificateThatEndsIsRenewed reads the certificate as servers do. They read the files again.
func TestACertificateThatEndsIsRenewed(t *testing.T) {
	dir := t.TempDir()
	by, err := newAuthority("test")
	check.Error(t, err, "")

	var all certificates
	file, keyFile := filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")
	config := certs.Config{
		CommonName: "a", AltNames: loopbackNames(), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	check.Error(t, all.issueCertificate(by, config, file, keyFile), "")

	key, err := os.ReadFile(keyFile)
	check.Error(t, err, "")
	first, err := certutil.CertsFromFile(file)
	check.Error(t, err, "")

	count, err := all.renewExpiring(time.Now().Add(certs.DefaultCertDuration / 2))
	check.Error(t, err, "")
	check.Equal(t, "renewed after half of its life", count, 0)

	count, err = all.renewExpiring(first[0].NotAfter.Add(-renewBefore + time.Hour))
	check.Error(t, err, "")
	check.Equal(t, "renewed before its end", count, 1)

	second, err := certutil.CertsFromFile(file)
	check.Error(t, err, "")
	check.Equal(t, "whether it is another one", second[0].SerialNumber.Cmp(first[0].SerialNumber) != 0, true)

	after, err := os.ReadFile(keyFile)
	check.Error(t, err, "")
	check.Equal(t, "its key", string(after), string(key))

	_, err = tls.LoadX509KeyPair(file, keyFile)
	check.Error(t, err, "")

	roots := x509.NewCertPool()
	roots.AddCert(by.certificate)
	_, err = second[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"})
	check.Error(t, err, "")
}

func TestACAOfAPlaneOutlivesWhatItSigns(t *testing.T) {
	by, err := newAuthority("test")
	check.Error(t, err, "")
	check.Equal(t, "whether it lives for nine years", by.certificate.NotAfter.After(time.Now().AddDate(9, 0, 0)), true)
}

// TestAKeyOfTokensThatAPowerCutHasSpoiltIsMadeAnew has incomplete files, as after a power failure without a sync.
// kube-apiserver would never start again.
func TestAKeyOfTokensThatAPowerCutHasSpoiltIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	file, keyFile := filepath.Join(dir, "sa-signer.crt"), filepath.Join(dir, "sa-signer.key")
	check.Error(t, ensureTokenKey(file, keyFile), "")
	before, err := os.ReadFile(keyFile)
	check.Error(t, err, "")

	check.Error(t, ensureTokenKey(file, keyFile), "")
	after, err := os.ReadFile(keyFile)
	check.Error(t, err, "")
	check.Equal(t, "the key after a second start", string(after), string(before))

	for name, spoil := range map[string]func() error{
		"the key is empty":         func() error { return os.WriteFile(keyFile, nil, 0o600) },
		"the key is cut":           func() error { return os.WriteFile(keyFile, before[:20], 0o600) },
		"the key has zeros":        func() error { return os.WriteFile(keyFile, make([]byte, len(before)), 0o600) },
		"the certificate is empty": func() error { return os.WriteFile(file, nil, 0o600) },
		"the certificate is gone":  func() error { return os.Remove(file) },
	} {
		t.Run(name, func(t *testing.T) {
			check.Error(t, spoil(), "")
			check.Error(t, ensureTokenKey(file, keyFile), "")
			_, err := tls.LoadX509KeyPair(file, keyFile)
			check.Error(t, err, "")
		})
	}
}
