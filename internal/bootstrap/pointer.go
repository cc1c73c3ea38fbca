package bootstrap

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/coreos/ignition/v2/config/v3_1/types"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/utils/ptr"
)

// MaxDeliveredData is the largest size, in bytes, of user data that a VM fetches by pointer: what fits into a Secret
// with its token.
const MaxDeliveredData = 1<<20 - 1024

// Pointer says where the real user data of a VM is.
type Pointer struct {
	// URL of it, which is https, and the token that its server wants.
	URL, Token string
	// CA is the certificate, in PEM, with which the server's is verified.
	CA []byte
}

// Ignition is a configuration that stands for data: Ignition fetches it from the URL and takes nothing else for it.
func (p Pointer) Ignition(data []byte) ([]byte, error) {
	sum := sha512.Sum512(data)
	config := types.Config{Ignition: types.Ignition{
		Version: types.MaxVersion.String(),
		Config: types.IgnitionConfig{Replace: types.Resource{
			Source: &p.URL, HTTPHeaders: types.HTTPHeaders{{Name: "Authorization", Value: ptr.To("Bearer " + p.Token)}},
			Verification: types.Verification{Hash: ptr.To("sha512-" + hex.EncodeToString(sum[:]))},
		}},
		Security: types.Security{
			TLS: types.TLS{CertificateAuthorities: []types.Resource{{Source: ptr.To(dataurl.EncodeBytes(p.CA))}}},
		},
	}}
	out, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("failed to encode Ignition: %w", err)
	}

	return out, nil
}
