package guest

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/coreos/go-semver/semver"
	"github.com/vincent-petithory/dataurl"
)

const (
	// defaultIgnition is the specification that the images of OLVM read.
	defaultIgnition = "3.4.0"
	// maxConfigs is how deep Ignition configurations may hold each other.
	maxConfigs = 5
)

// ignitionConfig is what both generations of Ignition have in common, as far as it makes a node.
type ignitionConfig struct {
	files    []ignitionFile
	units    []unit
	warnings []string
}

// ignitionFile is one file; contents that are nil leave what is there.
type ignitionFile struct {
	path     string
	mode     *int
	contents *resource
	extend   []resource
}

// resource is something that Ignition fetches.
type resource struct {
	source, compression, hash string
}

// readIgnition does what Ignition does in the initramfs of a new VM: it writes files, and enables units. Directories,
// users, disks and all else are passed over. supported is the highest specification that the image reads; images of the
// second generation read no payload of the third, nor the other way round.
func readIgnition(userData, supported string) (*system, error) {
	if supported == "" {
		supported = defaultIgnition
	}
	highest, err := semver.NewVersion(supported)
	if err != nil {
		return nil, fmt.Errorf("ignition: the image reads specification %q, which is no version: %w", supported, err)
	}
	if strings.TrimSpace(userData) == "" {
		return newSystem(), nil // Ignition boots without a config, too
	}
	var config *ignitionConfig
	switch highest.Major {
	case 2:
		config, err = readIgnition2([]byte(userData), *highest)
	case 3:
		config, err = readIgnition3([]byte(userData), *highest)
	default:
		err = fmt.Errorf("the image reads specification %s, of which there is no reader", supported)
	}
	if err != nil {
		return nil, fmt.Errorf("ignition: %w", err)
	}
	return config.apply()
}

// refusal joins an error of Ignition with its report.
func refusal(err error, report string) error {
	if report = strings.Join(strings.Fields(report), " "); report != "" {
		return fmt.Errorf("%w: %s", err, report)
	}
	return err
}

// tooNew is a refusal that names both sides of a disagreement about versions.
func tooNew(err error, payload, image semver.Version) error {
	return fmt.Errorf("%w: the payload has version %s, and the image reads %d.0.0 to %s", err, payload, image.Major, image)
}

func (c *ignitionConfig) apply() (*system, error) {
	out := newSystem()
	out.warnings = c.warnings
	for _, written := range c.files {
		mode := uint32(defaultMode)
		if written.mode != nil {
			mode = uint32(*written.mode) & 0o7777
		}
		_, exists := out.files[written.path]
		if written.contents != nil || !exists {
			content, err := written.contents.fetch()
			if err != nil {
				return nil, fmt.Errorf("ignition: files: %s: %w", written.path, err)
			}
			out.write(written.path, content, mode, false)
		}
		for _, more := range written.extend {
			content, err := more.fetch()
			if err != nil {
				return nil, fmt.Errorf("ignition: files: %s: %w", written.path, err)
			}
			out.write(written.path, content, mode, true)
		}
	}
	for _, u := range c.units {
		out.commands = append(out.commands, u.commands(out)...)
	}
	return out, nil
}

// fetch returns what a resource holds. The simulated initramfs has no network: it fetches data URLs only.
func (r *resource) fetch() (string, error) {
	if r == nil || r.source == "" {
		return "", nil
	}
	if !strings.HasPrefix(r.source, "data:") {
		return "", fmt.Errorf("failed to fetch %q: the simulated guest reads data URLs only", r.source)
	}
	url, err := dataurl.DecodeString(r.source)
	if err != nil {
		return "", fmt.Errorf("failed to read a data URL: %w", err)
	}
	if err := verify(r.hash, url.Data); err != nil {
		return "", err
	}
	switch r.compression {
	case "":
		return string(url.Data), nil
	case "gzip":
		return unpack(url.Data)
	}
	return "", fmt.Errorf("unsupported compression scheme %q", r.compression)
}

// verify checks a hash, which is FUNCTION-HEX; none is fine.
func verify(hash string, data []byte) error {
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

// errTooDeep is what a config says that holds itself.
var errTooDeep = errors.New("configs refer to each other too deep")
