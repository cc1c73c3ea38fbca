package servingcert

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// authority returns a new authority.
func authority(t *testing.T) *Authority {
	t.Helper()
	certPEM, keyPEM, err := NewAuthority("test")
	check.Error(t, err, "")
	out, err := ParseAuthority(certPEM, keyPEM)
	check.Error(t, err, "")

	return out
}

func TestGood(t *testing.T) {
	t.Parallel()
	a := authority(t)
	made, err := a.Sign("10.0.0.9")
	check.Error(t, err, "")
	certificate, key, err := EncodePEM(made)
	check.Error(t, err, "")

	check.Equal(t, "for its host", a.IsValidFor(certificate, key, "10.0.0.9"), true)
	check.Equal(t, "for another", a.IsValidFor(certificate, key, "10.0.0.8"), false)
	check.Equal(t, "of another authority", authority(t).IsValidFor(certificate, key, "10.0.0.9"), false)
	check.Equal(t, "none", a.IsValidFor(nil, nil, "10.0.0.9"), false)
	check.Equal(t, "a new one is due", IsRenewalDue(made.Leaf), false)

	_, err = ParseAuthority(certificate, key)
	check.Error(t, err, "the certificate is not that of an authority")
	_, err = ParseAuthority(certificate, nil)
	check.Error(t, err, "certificate and key cannot be used")
}
