package localplane

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// configureEtcd makes etcd accept only the API server, identified by a certificate. If the data outlives the plane, it
// also makes etcd write the data durably. All users of the machine can reach loopback, and etcd has the Secrets of all
// clusters.
func (p *Plane) configureEtcd() error {
	if p.options.DataDir != "" {
		if err := os.MkdirAll(p.options.DataDir, 0o700); err != nil {
			return fmt.Errorf("failed to create %s: %w", p.options.DataDir, err)
		}
	}

	ports, err := FreePorts(4)
	if err != nil {
		return err
	}

	authority, pair, key, err := p.writeEtcdCertificates(filepath.Join(p.options.Dir, "etcd-certs"))
	if err != nil {
		return err
	}

	// envtest checks the health of etcd without a certificate. It gets an address with only health and metrics.
	health, clients, peers := localURL("http", ports[0]), localURL("https", ports[1]), localURL("https", ports[2])
	etcd := &envtest.Etcd{
		Path: filepath.Join(p.tools, "etcd"), DataDir: p.options.DataDir, URL: health,
		StartTimeout: startLimit, StopTimeout: envtestStopGrace,
	}

	arguments := etcd.Configure()
	for name, value := range map[string]string{
		"listen-metrics-urls": health.String(),
		"listen-client-urls":  clients.String(), "advertise-client-urls": clients.String(),
		"cert-file": pair, "key-file": key, "trusted-ca-file": authority, "client-cert-auth": "true",
		"listen-peer-urls":      peers.String(),
		"peer-cert-file":        pair,
		"peer-key-file":         key,
		"peer-trusted-ca-file":  authority,
		"peer-client-cert-auth": "true",
	} {
		arguments.Set(name, value)
	}

	if p.options.DataDir != "" {
		arguments.Disable("unsafe-no-fsync") // set by envtest
	}

	server := &envtest.APIServer{
		Path: filepath.Join(p.tools, "kube-apiserver"), StartTimeout: startLimit, StopTimeout: envtestStopGrace,
	}
	server.Address, server.Port = "127.0.0.1", strconv.Itoa(ports[3])
	KeepToLoopback(server)

	if err := p.serveWith(server); err != nil {
		return err
	}

	server.Configure().
		Set("etcd-servers", clients.String()).Set("etcd-cafile", authority).Set("etcd-certfile", pair).
		Set("etcd-keyfile", key)
	p.control = &envtest.ControlPlane{Etcd: etcd, APIServer: server}

	return nil
}

func localURL(scheme string, port int) *url.URL {
	return &url.URL{Scheme: scheme, Host: fmt.Sprintf("127.0.0.1:%d", port)}
}

// writeEtcdCertificates writes a CA for etcd only, and one certificate for both etcd and its client. It returns their
// paths. The key of the CA is not saved, because each start creates a new CA.
func (p *Plane) writeEtcdCertificates(dir string) (authority, pair, key string, err error) {
	by, err := newAuthority("etcd-ca")
	if err != nil {
		return "", "", "", err
	}

	authority, pair, key = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "etcd.crt"), filepath.Join(dir, "etcd.key")

	err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(authority, by.PEM(), 0o600))
	if err != nil {
		return "", "", "", fmt.Errorf("failed to write etcd's CA: %w", err)
	}

	return authority, pair, key, p.certificates.issueCertificate(by, certs.Config{
		CommonName: "capolvm-etcd", AltNames: loopbackNames(),
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, pair, key)
}
