// Package testcsr creates requests for serving certificates as kubelets do.
package testcsr

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// NewRequest returns the certificate request of a node's kubelet.
func NewRequest(name, address string) *x509.CertificateRequest {
	return &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.ParseIP(address)},
	}
}

// SignAndEncode signs a request with a new key, and encodes it as PEM.
func SignAndEncode(t testing.TB, request *x509.CertificateRequest) []byte {
	t.Helper()
	var key crypto.Signer
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	encoded, err := x509.CreateCertificateRequest(rand.Reader, request, key)
	if err != nil {
		t.Fatal(err)
	}

	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: encoded})
}

// CSR returns the CertificateSigningRequest of a node's kubelet.
func CSR(t testing.TB, name string, request *x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: SignAndEncode(t, request), SignerName: certificatesv1.KubeletServingSignerName,
		Usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		Username: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"},
	}}
	csr.GenerateName = "csr-"

	return csr
}
