package userdataserver

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// servingLifetime is how long a certificate of the server is valid; it has a new one when a third of it is left.
	servingLifetime = 90 * 24 * time.Hour
	// clockSkew is how far the clocks of guests may be behind.
	clockSkew = time.Hour
)

// authority signs the certificates of the server. Its own one is in a Secret, so that all replicas have the same:
// guests get it with their pointer.
type authority struct {
	host        string
	pem         []byte
	certificate *x509.Certificate
	key         crypto.Signer

	mu      sync.Mutex
	serving *tls.Certificate
}

// loadAuthority reads the authority, and makes it where there is none.
func loadAuthority(ctx context.Context, c client.Client, secret client.ObjectKey, host string) (*authority, error) {
	for {
		var found corev1.Secret
		err := c.Get(ctx, secret, &found)
		if err == nil {
			return parseAuthority(&found, host)
		}

		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("failed to get Secret %s: %w", secret, err)
		}

		made, err := newAuthority(secret)
		if err != nil {
			return nil, err
		}

		if err := c.Create(ctx, made); err == nil {
			return parseAuthority(made, host)
		} else if !apierrors.IsAlreadyExists(err) { // else another replica was faster
			return nil, fmt.Errorf("failed to create Secret %s: %w", secret, err)
		}
	}
}

func newAuthority(secret client.ObjectKey) (*corev1.Secret, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("failed to make a key: %w", err)
	}

	own, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "capolvm user data"}, key)
	if err != nil {
		return nil, fmt.Errorf("failed to make a certificate: %w", err)
	}

	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a key: %w", err)
	}

	certPEM, err := cert.EncodeCertificates(own)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a certificate: %w", err)
	}

	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
	}, nil
}

func parseAuthority(secret *corev1.Secret, host string) (*authority, error) {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err == nil && pair.Leaf != nil && !pair.Leaf.IsCA {
		err = errors.New("the certificate is not that of an authority")
	}

	signer, ok := pair.PrivateKey.(crypto.Signer)
	if err == nil && !ok {
		err = errors.New("the key cannot sign")
	}

	if err != nil {
		return nil, fmt.Errorf("no usable authority in Secret %s/%s, delete it to have a new one: %w", secret.Namespace,
			secret.Name, err)
	}

	return &authority{host: host, pem: secret.Data[corev1.TLSCertKey], certificate: pair.Leaf, key: signer}, nil
}

// getCertificate is the server's, of this process alone.
func (a *authority) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serving != nil && time.Until(a.serving.Leaf.NotAfter) > servingLifetime/3 {
		return a.serving, nil
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("failed to make a key: %w", err)
	}

	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("failed to make a serial number: %w", err)
	}

	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: a.host},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(servingLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(a.host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{a.host}
	}

	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("failed to sign a certificate: %w", err)
	}

	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("failed to read a certificate: %w", err)
	}

	a.serving = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}

	return a.serving, nil
}
