package ovirtsim

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// identity holds an engine's certificates and keys.
type identity struct {
	tls tls.Certificate
	// ca and certificate are in PEM.
	ca, certificate []byte
	// sshKeys maps names of certificates to their public keys for SSH, for pki-resource.
	sshKeys map[string][]byte
}

// newIdentity creates a CA, or loads it from the state folder. It also creates a certificate for the server's address.
func newIdentity(stateFolder string, address net.Addr) (*identity, error) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return nil, errors.New("the listener has no TCP address")
	}

	ca, caKey, err := loadAuthority(stateFolder)
	if err != nil {
		return nil, err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("failed to make the server's key: %w", err)
	}

	der, err := signCertificate(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "ovirtsim"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{tcp.IP, net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("failed to make the server's certificate: %w", err)
	}

	out := &identity{
		tls:         tls.Certificate{Certificate: [][]byte{der, ca.Raw}, PrivateKey: key},
		ca:          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}),
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		sshKeys:     map[string][]byte{},
	}
	for name, public := range map[string]*ecdsa.PublicKey{
		"ca-certificate":     &caKey.PublicKey,
		"engine-certificate": &key.PublicKey,
	} {
		encoded, err := ssh.NewPublicKey(public)
		if err != nil {
			return nil, fmt.Errorf("failed to encode the key of the %s for SSH: %w", name, err)
		}

		out.sshKeys[name] = ssh.MarshalAuthorizedKey(encoded)
	}

	return out, nil
}

func signCertificate(
	template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey,
) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, err
	}

	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(1, 0, 0)

	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

// parseAuthority parses the CA from the content of a file.
func parseAuthority(file string, content []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certBlock, rest := pem.Decode(content)
	keyBlock, _ := pem.Decode(rest)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, fmt.Errorf("%s does not hold a certificate and a key; remove it to get new ones", file)
	}

	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}

	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}

	return cert, key, nil
}

// loadAuthority returns the CA. A state folder keeps the CA, because clients trust it even after a restart.
func loadAuthority(stateFolder string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	file := ""
	if stateFolder != "" {
		file = filepath.Join(stateFolder, "ca.pem")
		if content, err := os.ReadFile(file); err == nil {
			return parseAuthority(file, content)
		}
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make the CA's key: %w", err)
	}

	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "ovirtsim CA " + wire.RandomHex(4)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := signCertificate(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make the CA: %w", err)
	}

	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make the CA: %w", err)
	}

	if file != "" {
		keyDER, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, nil, fmt.Errorf("failed to encode the CA's key: %w", err)
		}

		content := append(pem.EncodeToMemory(&pem.Block{
			Type:  "CERTIFICATE",
			Bytes: der,
		}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})...)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, nil, fmt.Errorf("failed to keep the CA: %w", err)
		}
	}

	return cert, key, nil
}
