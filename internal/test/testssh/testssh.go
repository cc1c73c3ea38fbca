// Package testssh creates SSH keys for tests.
package testssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// NewKey creates an SSH key. It returns the public key as a line of authorized_keys, and the private key in OpenSSH's
// format.
func NewKey(t *testing.T) (public string, private []byte) {
	t.Helper()
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	check.Error(t, err, "")
	line, err := ssh.NewPublicKey(publicKey)
	check.Error(t, err, "")
	block, err := ssh.MarshalPrivateKey(privateKey, "")
	check.Error(t, err, "")

	return string(ssh.MarshalAuthorizedKey(line)), pem.EncodeToMemory(block)
}
