package localplane

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
)

// This file creates and renews the certificates of a plane, because a plane may run for years. CAs are valid for ten
// years, and each start creates new ones. Certificates signed by these CAs are valid for one year. The running plane
// renews them in their files. All readers read these files again.

const (
	// renewBefore is the remaining lifetime at which a certificate is renewed.
	renewBefore = certs.DefaultCertDuration / 3
	// renewInterval is the interval between checks of the certificates.
	renewInterval = time.Hour
)

// authority is a CA of the plane. Its key is not saved to a file.
type authority struct {
	certificate *x509.Certificate
	signer      crypto.Signer
}

func newAuthority(name string) (*authority, error) {
	signer, err := certs.NewSigner(bootstrapv1.EncryptionAlgorithmECDSAP256)
	if err != nil {
		return nil, fmt.Errorf("failed to create the key of CA %s: %w", name, err)
	}

	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "capolvm-" + name}, signer)
	if err != nil {
		return nil, fmt.Errorf("failed to create CA %s: %w", name, err)
	}

	return &authority{certificate, signer}, nil
}

// PEM returns the certificate of the CA.
func (a *authority) PEM() []byte { return certs.EncodeCertPEM(a.certificate) }

// leaf is a certificate signed by a CA. The certificate and its key are in files.
type leaf struct {
	by     *authority
	config *certs.Config
	// file and keyFile are the paths of these files. A renewal keeps the key, so both files always match.
	file, keyFile string
	key           crypto.Signer
	until         time.Time
}

// certificates are all certificates that the plane renews.
type certificates struct {
	mu     sync.Mutex
	leaves []*leaf
}

// issueCertificate writes a certificate and its key. The plane renews the certificate from then on.
func (c *certificates) issueCertificate(by *authority, config certs.Config, file, keyFile string) error {
	key, err := certs.NewSigner(bootstrapv1.EncryptionAlgorithmECDSAP256)
	if err != nil {
		return fmt.Errorf("failed to create the key of %s: %w", config.CommonName, err)
	}

	encoded, err := certs.EncodePrivateKeyPEMFromSigner(key)
	if err != nil {
		return fmt.Errorf("failed to encode the key of %s: %w", config.CommonName, err)
	}

	err = errors.Join(os.MkdirAll(filepath.Dir(keyFile), 0o700), os.WriteFile(keyFile, encoded, 0o600))
	if err != nil {
		return fmt.Errorf("failed to write the key of %s: %w", config.CommonName, err)
	}

	one := &leaf{by: by, config: &config, file: file, keyFile: keyFile, key: key}
	if err := one.signAndWrite(); err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaves = append(c.leaves, one)

	return nil
}

// signAndWrite signs the certificate, and replaces the previous one.
func (l *leaf) signAndWrite() error {
	signed, err := l.config.NewSignedCert(l.key, l.by.certificate, l.by.signer)
	if err != nil {
		return fmt.Errorf("failed to sign the certificate of %s: %w", l.config.CommonName, err)
	}

	if err := atomicfile.Write(l.file, certs.EncodeCertPEM(signed), 0o600); err != nil {
		return fmt.Errorf("failed to write the certificate of %s: %w", l.config.CommonName, err)
	}

	l.until = signed.NotAfter

	return nil
}

// renewExpiring renews certificates about to expire, and returns how many it has renewed.
func (c *certificates) renewExpiring(now time.Time) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	count := 0
	var problems []error

	for _, one := range c.leaves {
		if one.until.Sub(now) > renewBefore {
			continue
		}

		problems = append(problems, one.signAndWrite())
		count++
	}

	return count, errors.Join(problems...)
}

// keepRenewing renews certificates until the context ends.
func (p *Plane) keepRenewing(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewInterval):
		}

		switch count, err := p.certificates.renewExpiring(time.Now()); {
		case err != nil:
			p.ReportProgress("failed to renew certificates; retrying in %s: %v", renewInterval, err)
		case count > 0:
			p.ReportProgress("renewed %d certificates", count)
		}
	}
}

// loopbackNames returns the addresses and names of the plane's servers.
func loopbackNames() certs.AltNames {
	return certs.AltNames{DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

// users creates users of the API server. Certificates in files identify them.
type users struct {
	plane *Plane
	by    *authority
}

var _ envtest.Authn = &users{}

func (u *users) authorityFile() string {
	return filepath.Join(u.plane.options.Dir, "user-certs", "ca.crt")
}

// Configure implements envtest.Authn.
func (u *users) Configure(_ string, arguments *envtest.Arguments) error {
	arguments.Set("client-ca-file", u.authorityFile())
	return nil
}

// Start implements envtest.Authn.
func (u *users) Start() error {
	err := os.MkdirAll(filepath.Dir(u.authorityFile()), 0o700)
	if err == nil {
		err = os.WriteFile(u.authorityFile(), u.by.PEM(), 0o600)
	}

	if err != nil {
		return fmt.Errorf("failed to write the CA of users: %w", err)
	}

	return nil
}

// AddUser implements envtest.Authn.
func (u *users) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	pair := filepath.Join(filepath.Dir(u.authorityFile()), user.Name)
	out := rest.CopyConfig(base)
	out.CertFile, out.KeyFile = pair+".crt", pair+".key"

	return out, u.plane.certificates.issueCertificate(u.by, certs.Config{
		CommonName: user.Name, Organization: user.Groups, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, out.CertFile, out.KeyFile)
}

// Stop implements envtest.Authn.
func (*users) Stop() error { return nil }

// serveWith configures kube-apiserver: its certificate, the key of service account tokens, and its users.
func (p *Plane) serveWith(server *envtest.APIServer) error {
	server.CertDir = filepath.Join(p.options.Dir, "apiserver-certs")
	in := func(name string) string { return filepath.Join(server.CertDir, name) }

	servers, err := newAuthority("server-ca")
	if err != nil {
		return err
	}

	clients, err := newAuthority("client-ca")
	if err != nil {
		return err
	}

	err = p.certificates.issueCertificate(servers, certs.Config{
		CommonName: "kube-apiserver", AltNames: loopbackNames(), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, in("apiserver.crt"), in("apiserver.key"))
	if err != nil {
		return err
	}

	server.CA = servers.PEM()
	server.Authn = &users{p, clients}

	return ensureTokenKey(in("sa-signer.crt"), in("sa-signer.key"))
}

// ensureTokenKey creates the key for tokens, unless it exists. Tokens thus stay valid after a restart. It replaces an
// invalid key, because kube-apiserver would not start with it. A power failure with an old version of olvmctl may have
// left one.
func ensureTokenKey(file, keyFile string) error {
	if _, err := tls.LoadX509KeyPair(file, keyFile); err == nil {
		return nil
	}

	tokens, err := newAuthority("tokens")
	if err != nil {
		return err
	}

	key, err := certs.EncodePrivateKeyPEMFromSigner(tokens.signer)
	if err != nil {
		return fmt.Errorf("failed to encode the key of tokens: %w", err)
	}

	err = errors.Join(atomicfile.Write(file, tokens.PEM(), 0o600), atomicfile.Write(keyFile, key, 0o600))
	if err != nil {
		return fmt.Errorf("failed to write the key of tokens: %w", err)
	}

	return nil
}
