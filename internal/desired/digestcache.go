package desired

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// DigestCache keeps the digests of configurations by what they were rendered from, so that a machine that is only
// looked at is not rendered: that takes a millisecond, too long to repeat for a thousand machines.
type DigestCache struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]string
}

// maxDigests bounds what is remembered; beyond it everything is forgotten, and rendered once more.
const maxDigests = 1 << 14

// Of is the digest of a machine's configuration, or why it cannot be rendered.
func (d *DigestCache) Of(machine render.Machine) (string, error) {
	// What a digest leaves out, the secrets above all, has no place here either.
	lasting := machine
	lasting.Engine, lasting.UserData = render.Engine{}, ""
	text, err := json.Marshal(lasting)
	if err != nil {
		return "", fmt.Errorf("failed to encode the machine: %w", err)
	}

	key := sha256.Sum256(text)
	d.mu.Lock()
	digest, ok := d.known[key]
	d.mu.Unlock()
	if ok {
		return digest, nil
	}

	files, err := render.MachineFiles(machine)
	if err != nil {
		return "", err
	}

	digest = files.Digest()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = map[[sha256.Size]byte]string{}
	}

	d.known[key] = digest

	return digest, nil
}
