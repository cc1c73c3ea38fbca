package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

const (
	// serviceFolder is where the user data of a VM of a support service says what it fetches.
	serviceFolder = "/etc/capolvm/service/"
	// fetchPause is how often a simulated VM asks. A real one does so every 10 s.
	fetchPause = time.Second
	// maxConfiguration bounds what it takes, in bytes.
	maxConfiguration = 2 << 20
)

// service is a VM that is no node, and fetches what it is to do. It is what stays on the VM's disk.
type service struct {
	// disk is the UUID of that disk.
	disk     string
	hostName string
	profiles []profile
	// url, authorization and authorities are how it asks, and applied is the hash of what it uses.
	url, authorization string
	authorities        *x509.CertPool
	applied            string
}

// requestLine is a line of a configuration of curl.
var requestLine = regexp.MustCompile(`(?m)^(url|header) = "(?:Authorization: )?([^"]*)"$`)

// serviceFrom is the service that the user data of a VM asks for; nil for none.
func serviceFrom(sys *system, machine api.GuestVM, profiles []profile) (*service, error) {
	request := sys.read(serviceFolder + "request")
	if request == "" {
		return nil, nil
	}

	out := &service{
		disk: machine.RootDisk, hostName: sys.hostName(machine), profiles: profiles, authorities: x509.NewCertPool(),
	}

	for _, line := range requestLine.FindAllStringSubmatch(request, -1) {
		if line[1] == "url" {
			out.url = line[2]
		} else {
			out.authorization = line[2]
		}
	}

	if !out.authorities.AppendCertsFromPEM([]byte(sys.read(serviceFolder + "authority.pem"))) {
		return nil, errors.New("curl: there is no certificate in authority.pem")
	}

	return out, nil
}

// serviceOf is the service that the disk of a VM has from an earlier boot; nil for none.
func (g *Guests) serviceOf(machine api.GuestVM) *service {
	g.mu.Lock()
	defer g.mu.Unlock()

	known := g.services[machine.ID]
	if known != nil && known.disk != machine.RootDisk {
		delete(g.services, machine.ID)
		return nil
	}

	return known
}

// follow asks for the configuration until the power is off.
func (g *Guests) follow(b *boot, machine api.GuestVM, s *service) error {
	g.mu.Lock()
	g.services[machine.ID] = s
	g.mu.Unlock()

	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.authorities}}
	defer transport.CloseIdleConnections()
	from := &http.Client{Transport: transport, Timeout: time.Minute}

	for {
		if err := s.fetch(b.ctx, from); err != nil && !b.off() {
			g.log.Info("A guest warns", "vm", machine.Name, "warning", "capolvm-service: "+err.Error())
		}

		select {
		case <-b.ctx.Done():
			return nil
		case <-time.After(fetchPause):
		}
	}
}

// fetch asks once, and uses what is new.
func (s *service) fetch(ctx context.Context, from *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}

	request.Header.Set("Authorization", s.authorization)
	request.Header.Set("If-None-Match", `"`+s.applied+`"`)
	response, err := from.Do(request)
	if err != nil {
		return err
	}

	defer response.Body.Close()

	switch response.StatusCode {
	case http.StatusNotModified:
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("the manager says %s", response.Status)
	}

	content, err := io.ReadAll(io.LimitReader(response.Body, maxConfiguration))
	if err != nil {
		return err
	}

	first, err := tar.NewReader(bytes.NewReader(content)).Next()
	if err != nil || first.Name != "apply.sh" {
		return fmt.Errorf("the configuration does not begin with apply.sh: %w", errors.Join(err))
	}

	s.applied = fmt.Sprintf("%x", sha256.Sum256(content))

	return nil
}
