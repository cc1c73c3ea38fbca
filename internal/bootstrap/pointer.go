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

// MaxDeliveredData limits user data that the guest fetches by pointer, in bytes. Data of this size fit into a Secret
// together with their token.
const MaxDeliveredData = 1<<20 - 1024

// Pointer is the location of a VM's real user data.
type Pointer struct {
	// URL is the https URL of the data, and Token the bearer token for its server.
	URL, Token string
	// CA is the PEM certificate that verifies the server.
	CA []byte
}

// RenderIgnition returns a configuration that points to data. Ignition fetches the data from the URL, and verifies
// their hash.
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
