package desired

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// DigestCache keeps the digest of each machine's configuration, with a hash of the input. So unchanged machines are not
// rendered again. Rendering takes a millisecond, which is too long for ten thousand machines.
type DigestCache struct {
	mu    sync.Mutex
	known map[types.NamespacedName]renderedDigest
}

// renderedDigest is a digest with the hash of its input.
type renderedDigest struct {
	input  [sha256.Size]byte
	digest string
}

// GetDigest returns the digest of a machine's configuration. The error explains why the machine cannot be rendered.
func (d *DigestCache) GetDigest(owner types.NamespacedName, machine render.Machine) (string, error) {
	// A digest omits the secrets in any case. The cache must not contain them either.
	lasting := machine
	lasting.Engine, lasting.UserData = render.Engine{}, ""
	text, err := json.Marshal(lasting)
	if err != nil {
		return "", fmt.Errorf("failed to encode the machine: %w", err)
	}

	input := sha256.Sum256(text)
	d.mu.Lock()
	last := d.known[owner]
	d.mu.Unlock()
	if last.input == input {
		return last.digest, nil
	}

	digest, err := render.MachineDigest(machine)
	if err != nil {
		return "", err
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[types.NamespacedName]renderedDigest{}
	}

	d.known[owner] = renderedDigest{input: input, digest: digest}

	return digest, nil
}

// DropDigest drops the digest of a deleted object.
func (d *DigestCache) DropDigest(owner types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, owner)
}
