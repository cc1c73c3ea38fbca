package guest

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"github.com/vincent-petithory/dataurl"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

const (
	// defaultIgnition is the highest specification version supported by the images of OLVM.
	defaultIgnition = "3.4.0"
	// maxConfigs limits the nesting of Ignition configurations.
	maxConfigs = 5
)

// ignitionConfig is the part relevant for a node that both generations of Ignition have in common.
type ignitionConfig struct {
	initramfs *initramfs
	files     []ignitionFile
	units     []unit
	warnings  []string
}

// ignitionFile is one file. Without contents, it keeps the existing file.
type ignitionFile struct {
	path     string
	owner    string
	mode     *int
	contents *resource
	extend   []resource
}

// resource is something that Ignition fetches.
type resource struct {
	source, compression, hash string
	headers                   http.Header
}

// readIgnition processes the user data of a new VM like Ignition in the initramfs. It writes files and enables units.
// It ignores directories, users, disks and everything else. The parameter supported is the highest specification that
// the image supports. Images of the second generation reject payloads of the third, and vice versa.
func readIgnition(userData, supported string, where *initramfs) (*system, error) {
	if supported == "" {
		supported = defaultIgnition
	}

	highest, err := semver.NewVersion(supported)
	if err != nil {
		return nil, fmt.Errorf("ignition: the image reads specification %q, which is no version: %w", supported, err)
	}

	if strings.TrimSpace(userData) == "" {
		return (&ignitionConfig{initramfs: where}).buildSystem() // Ignition also boots without a config
	}

	var config *ignitionConfig

	switch highest.Major {
	case 2:
		config, err = readIgnition2([]byte(userData), *highest, where)
	case 3:
		config, err = readIgnition3([]byte(userData), *highest, where)
	default:
		err = fmt.Errorf("the image reads specification %s, of which there is no reader", supported)
	}

	if err != nil {
		return nil, fmt.Errorf("ignition: %w", err)
	}

	return config.buildSystem()
}

// withReport adds Ignition's report to its error.
func withReport(err error, report string) error {
	if report = strings.Join(strings.Fields(report), " "); report != "" {
		return fmt.Errorf("%w: %s", err, report)
	}

	return err
}

// versionTooNewError adds the versions of the payload and the image to an error.
func versionTooNewError(err error, payload, image semver.Version) error {
	return fmt.Errorf("%w: the payload has version %s, and the image reads %d.0.0 to %s", err, payload, image.Major,
		image)
}

func (c *ignitionConfig) buildSystem() (*system, error) {
	out := newSystem()

	out.warnings, out.image = c.warnings, c.initramfs.image
	for _, written := range c.files {
		mode := uint32(defaultMode)
		if written.mode != nil {
			mode = uint32(*written.mode) & 0o7777
		}

		_, exists := out.files[written.path]
		if written.contents != nil || !exists {
			content, err := c.initramfs.fetchResource(written.contents)
			if err != nil {
				return nil, fmt.Errorf("ignition: files: %s: %w", written.path, err)
			}

			out.writeAs(written.owner, written.path, content, mode, false)
		}

		for _, more := range written.extend {
			content, err := c.initramfs.fetchResource(&more)
			if err != nil {
				return nil, fmt.Errorf("ignition: files: %s: %w", written.path, err)
			}

			out.writeAs(written.owner, written.path, content, mode, true)
		}
	}

	for _, u := range c.units {
		out.units[u.name] = u
	}

	for _, u := range c.units {
		out.commands = append(out.commands, u.bootCommands(out)...)
	}

	return out, nil
}

// initramfs is the environment in which Ignition runs. The files written by Ignition have no effect in it. It
// configures all interfaces with DHCP.
type initramfs struct {
	ctx        context.Context //nolint:containedctx // the power of the VM
	interfaces []api.GuestInterface
	// image is the image that Ignition provisions.
	image image
	// authorities are the certificate authorities of the configuration.
	authorities *x509.CertPool
}

// fetchResource returns the contents of a resource.
func (i *initramfs) fetchResource(r *resource) (string, error) {
	if r == nil || r.source == "" {
		return "", nil
	}

	var data []byte

	switch scheme, _, _ := strings.Cut(r.source, ":"); scheme {
	case "data":
		url, err := dataurl.DecodeString(r.source)
		if err != nil {
			return "", fmt.Errorf("failed to read a data URL: %w", err)
		}

		data = url.Data
	case "http", "https":
		var err error
		if data, err = i.download(r); err != nil {
			return "", fmt.Errorf("failed to fetch %q: %w", r.source, err)
		}
	default:
		return "", fmt.Errorf("failed to fetch %q: the simulated guest reads data, http and https URLs only", r.source)
	}

	if err := verifyHash(r.hash, data); err != nil {
		return "", err
	}

	switch r.compression {
	case "":
		return string(data), nil
	case "gzip":
		return gunzip(data)
	}

	return "", fmt.Errorf("unsupported compression scheme %q", r.compression)
}

// download fetches a resource. It repeats the request on server errors, like Ignition.
func (i *initramfs) download(r *resource) ([]byte, error) {
	if !slices.ContainsFunc(i.interfaces, func(n api.GuestInterface) bool { return n.DHCP != "" || n.SLAAC != "" }) {
		return nil, errors.New(
			"the network in the initramfs is up with DHCP or router advertisements only, and no " +
				"network of the VM has either",
		)
	}

	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: i.authorities}}
	defer transport.CloseIdleConnections()

	for {
		data, again, err := i.downloadOnce(&http.Client{Transport: transport, Timeout: time.Minute}, r)
		if err == nil || !again {
			return data, err
		}

		select {
		case <-i.ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, i.ctx.Err())
		case <-time.After(retryEvery):
		}
	}
}

func (i *initramfs) downloadOnce(from *http.Client, r *resource) (data []byte, again bool, err error) {
	request, err := http.NewRequestWithContext(i.ctx, http.MethodGet, r.source, nil)
	if err != nil {
		return nil, false, err
	}

	request.Header = r.headers.Clone()
	response, err := from.Do(request)
	if untrusted := (&tls.CertificateVerificationError{}); errors.As(err, &untrusted) {
		return nil, false, err // a real Ignition would retry forever
	}

	if err != nil {
		return nil, true, err
	}

	defer response.Body.Close()
	if data, err = io.ReadAll(response.Body); err != nil {
		return nil, true, err
	}

	if response.StatusCode != http.StatusOK {
		return nil, response.StatusCode >= http.StatusInternalServerError, fmt.Errorf("the server says %s",
			response.Status)
	}

	return data, false, nil
}

// addAuthorities adds the certificate authorities of the configuration to those of the image.
func (i *initramfs) addAuthorities(resources []resource) error {
	for _, r := range resources {
		pem, err := i.fetchResource(&r)
		if err != nil {
			return fmt.Errorf("certificate authorities: %w", err)
		}

		if i.authorities == nil {
			i.authorities = x509.NewCertPool()
		}

		if !i.authorities.AppendCertsFromPEM([]byte(pem)) {
			return errors.New("certificate authorities: there is no certificate in one")
		}
	}

	return nil
}

// verifyHash checks a hash in the form FUNCTION-HEX. It accepts an empty hash.
func verifyHash(hash string, data []byte) error {
	if hash == "" {
		return nil
	}

	function, want, _ := strings.Cut(hash, "-")
	var sum string

	switch function {
	case "sha512":
		whole := sha512.Sum512(data)
		sum = hex.EncodeToString(whole[:])
	case "sha256":
		whole := sha256.Sum256(data)
		sum = hex.EncodeToString(whole[:])
	default:
		return fmt.Errorf("unrecognized hash function %q", function)
	}

	if sum != want {
		return fmt.Errorf("hash verification failed: expected %s, got %s", want, sum)
	}

	return nil
}

// errTooDeep reports a config that includes itself.
var errTooDeep = errors.New("configs refer to each other too deep")
