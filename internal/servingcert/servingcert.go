// Package servingcert signs server certificates with an authority from a Secret.
package servingcert

import (
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
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// Lifetime is the lifetime of a certificate. A new certificate is due when a third of the lifetime is left.
	Lifetime = 90 * 24 * time.Hour
	// clockSkew is how far the clocks of clients may be behind.
	clockSkew = time.Hour
)

// Authority signs certificates.
type Authority struct {
	// PEM is the authority's certificate.
	PEM         []byte
	certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority creates an authority with the given name, and returns its certificate and key in PEM.
func NewAuthority(name string) (certificate, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a key: %w", err)
	}

	own, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a certificate: %w", err)
	}

	return EncodePEM(&tls.Certificate{PrivateKey: signer, Leaf: own})
}

// ParseAuthority parses the certificate and the key of an authority from PEM.
func ParseAuthority(certificate, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate and key cannot be used: %w", err)
	}

	signs := pair.Leaf.KeyUsage == 0 || pair.Leaf.KeyUsage&x509.KeyUsageCertSign != 0

	switch {
	case !pair.Leaf.IsCA || !signs:
		return nil, errors.New("the certificate is not that of an authority")
	case time.Now().After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("the certificate has ended at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	}

	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}

	return &Authority{PEM: certificate, certificate: pair.Leaf, key: signer}, nil
}

// Sign returns a new certificate for a server with the given name or address.
func (a *Authority) Sign(host string) (*tls.Certificate, error) {
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
		Subject:               pkix.Name{CommonName: host},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(Lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}

	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("failed to sign a certificate: %w", err)
	}

	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("failed to read a certificate: %w", err)
	}

	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// IsRenewalDue reports whether a certificate must be replaced by a new one.
func IsRenewalDue(leaf *x509.Certificate) bool { return time.Until(leaf.NotAfter) <= Lifetime/3 }

// IsValidFor reports whether a certificate with its key, both in PEM, is usable. It must come from this authority, be
// valid for the host, and not be due for renewal.
func (a *Authority) IsValidFor(certificate, key []byte, host string) bool {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil || IsRenewalDue(pair.Leaf) || pair.Leaf.VerifyHostname(host) != nil {
		return false
	}

	return pair.Leaf.CheckSignatureFrom(a.certificate) == nil
}

// EncodePEM returns a certificate and its key in PEM.
func EncodePEM(made *tls.Certificate) (certificate, key []byte, err error) {
	if certificate, err = cert.EncodeCertificates(made.Leaf); err == nil {
		key, err = keyutil.MarshalPrivateKeyToPEM(made.PrivateKey)
	}

	if err != nil {
		return nil, nil, fmt.Errorf("failed to encode a certificate: %w", err)
	}

	return certificate, key, nil
}
