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

// MaxDeliveredData is the maximum size, in bytes, of user data fetched by pointer. It fits into a Secret together with
// its token.
const MaxDeliveredData = 1<<20 - 1024

// Pointer is the location of a VM's real user data.
type Pointer struct {
	// URL of the data, with https, and the bearer token for its server.
	URL, Token string
	// CA is the PEM certificate to verify the server.
	CA []byte
}

// RenderIgnition returns a configuration pointing to data. Ignition fetches it from the URL, and verifies its hash.
func (p Pointer) RenderIgnition(data []byte) ([]byte, error) {
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
