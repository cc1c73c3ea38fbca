// Package oci prepares Oracle Cloud Infrastructure for Cluster API Provider OCI. It finds compartments by their paths,
// and finds or imports images.
package oci

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oracle/oci-go-sdk/v65/common"
	"github.com/oracle/oci-go-sdk/v65/common/auth"
)

// DefaultProfile is the default profile of the configuration.
const DefaultProfile = "DEFAULT"

// Account is the account used to sign requests.
type Account struct {
	// Tenancy is the OCID of the tenancy, and Region is the region.
	Tenancy, Region string
	// User, Fingerprint and Key sign requests. They are empty for an instance principal. Key is in PEM format, without
	// a passphrase.
	User, Fingerprint, Key string

	provider common.ConfigurationProvider
}

// ConfigPath returns the path of the configuration of Oracle's command. It is the value of OCI_CONFIG_FILE, or else
// ~/.oci/config.
func ConfigPath() (string, error) {
	if path := os.Getenv("OCI_CONFIG_FILE"); path != "" {
		return path, nil
	}

	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("failed to find the configuration of OCI: %w", err)
	}

	return filepath.Join(home, ".oci", "config"), nil
}

// ReadAccount reads an account from a profile in the configuration of Oracle's command.
func ReadAccount(profile string) (*Account, error) {
	path, err := ConfigPath()
	if err != nil {
		return nil, err
	}

	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("no OCI configuration found: %w; create it with oci setup config, or set its path "+
			"in OCI_CONFIG_FILE", err)
	}

	provider, err := common.ConfigurationProviderFromFileWithProfile(path, profile, "")
	if err != nil {
		return nil, fmt.Errorf("%s: profile %s: %w", path, profile, err)
	}

	out := &Account{provider: provider}
	if err := out.readFields(); err != nil {
		return nil, fmt.Errorf("%s: profile %s: %w", path, profile, err)
	}

	return out, nil
}

// readFields sets the fields from the configuration provider.
func (a *Account) readFields() (err error) {
	var problems []error

	for _, field := range []struct {
		into *string
		get  func() (string, error)
	}{
		{&a.Tenancy, a.provider.TenancyOCID},
		{&a.User, a.provider.UserOCID},
		{&a.Fingerprint, a.provider.KeyFingerprint},
		{&a.Region, a.provider.Region},
	} {
		*field.into, err = field.get()
		problems = append(problems, err)
	}

	if err := errors.Join(problems...); err != nil {
		return err
	}

	if a.User == "" { // the manager would have neither after the session ends
		return errors.New("it has a session instead of a user; use a profile with a user and an API key")
	}

	key, err := a.provider.PrivateRSAKey()
	if err != nil {
		return fmt.Errorf("invalid key: %w", err)
	}

	a.Key = string(pem.EncodeToMemory(&pem.Block{
		Type:  "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key),
	}))

	return nil
}

// InstanceAccount returns the account of the instance that runs this program.
func InstanceAccount() (*Account, error) {
	provider, err := auth.InstancePrincipalConfigurationProvider()
	if err != nil {
		return nil, fmt.Errorf("failed to use the instance principal, which requires an OCI instance: %w", err)
	}

	out := &Account{provider: provider}
	if out.Tenancy, err = provider.TenancyOCID(); err == nil {
		out.Region, err = provider.Region()
	}

	if err != nil {
		return nil, fmt.Errorf("failed to use the instance principal: %w", err)
	}

	return out, nil
}
