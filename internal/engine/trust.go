package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// parseCABundle returns the certificates of a CA bundle. It ignores other content if the bundle has at least one
// certificate.
func parseCABundle(bundle []byte) (*x509.CertPool, error) {
	pool, problem, found := x509.NewCertPool(), errors.New("the CA holds no PEM certificate"), false
	rest := bytes.TrimPrefix(bundle, []byte("\ufeff")) // the byte order mark of editors on Windows

	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}

		certificate, err := x509.ParseCertificate(block.Bytes)

		switch {
		case block.Type != "CERTIFICATE":
			problem = fmt.Errorf("the CA holds no certificate, but a %s", abridgeText(block.Type))
		case err != nil:
			problem = errors.New("the CA holds a certificate that cannot be read")
		default:
			pool.AddCert(certificate)

			found = true
		}
	}

	if !found {
		return nil, problem
	}

	return pool, nil
}

// FetchAuthority reads the certificate of an engine's CA without a session. trusted reports whether the system's CAs
// verify the engine. If not, a user must confirm the certificate. VerifyAuthority then checks whether the CA issued the
// engine's certificate.
func FetchAuthority(ctx context.Context, rawURL string) (ca *x509.Certificate, trusted bool, err error) {
	ca, err = fetchCACertificate(ctx, rawURL, &tls.Config{MinVersion: tls.VersionTLS12})
	var untrusted *TLSError
	if err == nil || !errors.As(err, &untrusted) {
		return ca, err == nil, err
	}

	ca, err = fetchCACertificate(ctx, rawURL, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // it is how one gets to know the CA
	})

	return ca, false, err
}

// VerifyAuthority returns a TLSError unless the engine has a certificate for its name signed by the CA.
func VerifyAuthority(ctx context.Context, rawURL string, ca *x509.Certificate) error {
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	_, err := fetchCACertificate(ctx, rawURL, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool})

	return err
}

func fetchCACertificate(ctx context.Context, rawURL string, config *tls.Config) (*x509.Certificate, error) {
	base, err := ParseBaseURL(rawURL)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	query := url.Values{"resource": {"ca-certificate"}, "format": {"X509-PEM-CA"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		base.String()+"/services/pki-resource?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("failed to build the request: %w", err)
	}

	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, classifyTransportError(ctx, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, classifyTransportError(ctx, err)
	}

	block, _ := pem.Decode(content)
	if response.StatusCode != http.StatusOK || block == nil || block.Type != "CERTIFICATE" {
		return nil, &UnreachableError{
			Err: fmt.Errorf("%s/services/pki-resource answered HTTP %d without a certificate, as no engine does", base,
				response.StatusCode),
		}
	}

	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, &UnreachableError{
			Err: fmt.Errorf("%s/services/pki-resource answered with a certificate that cannot be read: %w", base, err),
		}
	}

	return ca, nil
}
