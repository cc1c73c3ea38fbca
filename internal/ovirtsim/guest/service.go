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
	// serviceFolder is the folder of the files with a support VM's request, in its user data.
	serviceFolder = "/etc/capolvm/service/"
	// fetchPause is the time between two requests of a simulated VM. A real VM waits 10 s.
	fetchPause = time.Second
	// maxConfiguration is the maximum size of a configuration in bytes.
	maxConfiguration = 2 << 20
)

// service is a VM that is not a node, but fetches its configuration. It represents the contents of the VM's disk.
type service struct {
	// disk is the UUID of the disk.
	disk     string
	hostName string
	profiles []profile
	// url, authorization and authorities define the service's request. applied is the hash of its current
	// configuration.
	url, authorization string
	authorities        *x509.CertPool
	applied            string
}

// requestLine matches a line of a curl configuration.
var requestLine = regexp.MustCompile(`(?m)^(url|header) = "(?:Authorization: )?([^"]*)"$`)

// newService returns the service that the user data of a VM requests, or nil.
func newService(sys *system, machine api.GuestVM, profiles []profile) (*service, error) {
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

// serviceOf returns the service on a VM's disk from an earlier boot, or nil.
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

// followConfiguration requests the configuration again and again until the power is off.
func (g *Guests) followConfiguration(b *boot, machine api.GuestVM, s *service) error {
	g.mu.Lock()
	g.services[machine.ID] = s
	g.mu.Unlock()

	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.authorities}}
	defer transport.CloseIdleConnections()
	from := &http.Client{Transport: transport, Timeout: time.Minute}

	for {
		if err := s.fetchConfiguration(b.ctx, from); err != nil && !b.isOff() {
			g.log.Info("A guest warns", "vm", machine.Name, "warning", "capolvm-service: "+err.Error())
		}

		select {
		case <-b.ctx.Done():
			return nil
		case <-time.After(fetchPause):
		}
	}
}

// fetchConfiguration requests the configuration once, and applies it if it is new.
func (s *service) fetchConfiguration(ctx context.Context, from *http.Client) error {
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
