package blocker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// period is the validity of a certificate, relative to now.
type period struct{ from, to time.Duration }

var (
	past   = period{-48 * time.Hour, -time.Hour}
	now    = period{-time.Hour, time.Hour}
	future = period{time.Hour, 48 * time.Hour}
)

// authority is a test CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T, valid period) *authority {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Error(t, err, "")

	a := &authority{key: key}
	a.certificate = a.sign(t, valid, x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, key)

	return a
}

// sign returns a certificate signed by the authority. The first certificate is the authority's own.
func (a *authority) sign(
	t *testing.T, valid period, template x509.Certificate, key *ecdsa.PrivateKey,
) *x509.Certificate {
	t.Helper()

	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = time.Now().Add(valid.from), time.Now().Add(valid.to)

	parent := a.certificate
	if parent == nil {
		parent = &template
	}

	content, err := x509.CreateCertificate(rand.Reader, &template, parent, &key.PublicKey, a.key)
	check.Error(t, err, "")

	out, err := x509.ParseCertificate(content)
	check.Error(t, err, "")

	return out
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// server returns a server certificate for 127.0.0.1, unless change replaces this address.
func (a *authority) server(t *testing.T, valid period, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Error(t, err, "")

	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: "engine"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(&template)
	}

	return tls.Certificate{Certificate: [][]byte{a.sign(t, valid, template, key).Raw}, PrivateKey: key}
}

// serve answers over TLS with the given certificate, and returns the URL.
func serve(t *testing.T, shown tls.Certificate, answer http.HandlerFunc) string {
	t.Helper()

	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12,
	})
	check.Error(t, err, "")

	server := &http.Server{
		Handler: answer, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })

	return "https://" + listener.Addr().String()
}

// listen calls a function for each connection, and returns the address as an https URL.
func listen(t *testing.T, do func(net.Conn)) string {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Error(t, err, "")
	t.Cleanup(func() { listener.Close() })

	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}

			do(connection)
		}
	}()

	return "https://" + listener.Addr().String()
}

// refusedConnection is a connection to an unusable engine, with the expected message.
type refusedConnection struct {
	url          string
	ca           []byte
	reason, want string
	// The message must contain remedy, and must not contain not.
	remedy, not string
}

const (
	renews = "on the engine's host, have engine-setup renew it"
	addsCA = "put the engine's CA certificate into the ConfigMap"
	clocks = "correct the clocks"
)

// refusedCertificates returns connections that fail because of the certificate.
func refusedCertificates(t *testing.T) map[string]refusedConnection {
	t.Helper()

	const reason = infrav1.UntrustedCertificateReason
	good, old, early := newAuthority(t, now), newAuthority(t, past), newAuthority(t, future)
	page := func(http.ResponseWriter, *http.Request) {}
	malformed := good.server(t, now, nil)
	malformed.Certificate = [][]byte{[]byte("this is not a certificate")}

	return map[string]refusedConnection{
		"an expired certificate": {
			serve(t, good.server(t, past, nil), page), good.pem(), reason,
			"the engine's certificate has expired", renews, addsCA,
		},
		"a certificate that is not valid yet": {
			serve(t, good.server(t, future, nil), page), good.pem(), reason, "is not valid yet", clocks, addsCA,
		},
		"an expired CA": {
			serve(t, old.server(t, now, nil), page), old.pem(), reason,
			"the CA certificate that signs the engine's certificate has expired", renews + ", and put the new CA", clocks,
		},
		"a CA that is not valid yet": {
			serve(t, early.server(t, now, nil), page), early.pem(), reason, "is not valid yet", clocks, addsCA,
		},
		"a certificate for another name": {
			serve(t, good.server(t, now, func(c *x509.Certificate) {
				c.IPAddresses, c.DNSNames = nil, []string{"engine.example.com", "engine"}
			}), page), good.pem(), reason, "is for engine, engine.example.com, not 127.0.0.1",
			"in spec.olvmOvirtAPIServer.serverURL, name the engine as its certificate does", addsCA,
		},
		"a certificate without a name": {
			serve(t, good.server(t, now, func(c *x509.Certificate) { c.IPAddresses = nil }), page), good.pem(), reason,
			"is for no host at all, not 127.0.0.1", "name the engine as its certificate does", addsCA,
		},
		"an unknown authority": {
			serve(t, good.server(t, now, nil), page), newAuthority(t, now).pem(), reason,
			"by an unknown authority", addsCA, renews,
		},
		"a certificate of no server": {
			serve(t, good.server(t, now, func(c *x509.Certificate) {
				c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			}), page), good.pem(), reason, "cannot be used: it is not for servers", renews, addsCA,
		},
		"something that is not a certificate": {
			serve(t, malformed, page), good.pem(), reason, "shows something that is not a certificate", renews, addsCA,
		},
	}
}

// refusedAnswers returns connections that fail because of the answer, or because there is none.
func refusedAnswers(t *testing.T) map[string]refusedConnection {
	t.Helper()

	const (
		reason = infrav1.EngineUnreachableReason
		look   = "check spec.olvmOvirtAPIServer.serverURL and that the engine is up"
		port   = "name the port on which the engine speaks HTTPS"
	)
	good := newAuthority(t, now)
	broken := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"access`))
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)

	return map[string]refusedConnection{
		"plain HTTP": {
			strings.Replace(plain.URL, "http:", "https:", 1), nil, reason, "answers without encryption", port, "CA",
		},
		"another protocol": {listen(t, func(c net.Conn) {
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n"))
			_, _ = io.Copy(io.Discard, c)
		}), nil, reason, "answers without encryption", port, "CA"},
		"nobody listens": {"https://127.0.0.1:1", nil, reason, "connection refused", look, "dial"},
		"no such name": {
			"https://no-such-name.invalid", nil, reason, "no-such-name.invalid cannot be resolved", look, "lookup",
		},
		"a closed one": {listen(t, func(c net.Conn) { c.Close() }), nil, reason, "it closed the connection", look, "EOF"},
		"an answer broken": {
			serve(t, good.server(t, now, nil), broken), good.pem(), reason, "it closed the connection", look, "EOF",
		},
		"a reset": {listen(t, func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // it is of TCP
			c.Close()
		}), nil, reason, "it closed the connection", look, "read tcp"},
		"an answer that is not HTTP": {
			serveRaw(t, good), good.pem(), reason, "something that is not HTTP", look, "garbage",
		},
	}
}

// serveRaw answers over TLS with varying data that is not HTTP.
func serveRaw(t *testing.T, by *authority) string {
	t.Helper()

	config := &tls.Config{Certificates: []tls.Certificate{by.server(t, now, nil)}, MinVersion: tls.VersionTLS12}

	return listen(t, func(c net.Conn) {
		over := tls.Server(c, config)
		_, _ = fmt.Fprintf(over, "garbage of %d\r\n", time.Now().UnixNano())
		_, _ = io.CopyN(io.Discard, over, 10)
		over.Close()
	})
}

// TestWhatIsWrongWithAnEngineIsToldTheSameEachTime connects twice, at different times and from different ports. It
// expects the same message both times, with the remedy for this problem instead of another one.
func TestWhatIsWrongWithAnEngineIsToldTheSameEachTime(t *testing.T) {
	for _, connections := range []map[string]refusedConnection{refusedCertificates(t), refusedAnswers(t)} {
		for name, c := range connections {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				reason, first := askOnce(t, c)
				check.Equal(t, "reason", reason, c.reason)
				check.Contains(t, "message", first, c.want)
				check.Contains(t, "message", first, c.remedy)
				check.Lacks(t, "message", first, c.not)

				time.Sleep(1100 * time.Millisecond) // the TLS library reports the time in seconds

				_, second := askOnce(t, c)
				check.Equal(t, "the message of the second try", second, first)
			})
		}
	}
}

// askOnce calls an engine with a new client, and returns the reason and the message for the condition.
func askOnce(t *testing.T, c refusedConnection) (reason, message string) {
	t.Helper()

	client, err := engine.New(engine.Config{URL: c.url, Username: "admin@internal", Password: "secret", CA: c.ca})
	check.Error(t, err, "")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	_, err = client.ListVMs(ctx)
	if err == nil {
		t.Fatal("there is no error")
	}

	return ExplainEngineError(err)
}
