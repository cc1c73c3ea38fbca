package connection

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// These keys of OpenShift's Secret ovirt-credentials decide whom the connection trusts.
const (
	insecureKey = "ovirt_insecure"
	caFileKey   = "ovirt_cafile"
	caBundleKey = "ovirt_ca_bundle"
)

// secretText returns the text of a key. stringData of a manifest takes precedence, as in an API server.
func secretText(secret *corev1.Secret, key string) string {
	if text, ok := secret.StringData[key]; ok {
		return text
	}

	return string(secret.Data[key])
}

// checkTrustKeys refuses a Secret with keys that the connection would ignore, because its owner may rely on them.
// caNamed reports whether the cluster or its identity has a ConfigMap with the CA.
func checkTrustKeys(secret *corev1.Secret, server infrav1.OvirtAPIServer, caNamed bool, field string) error {
	refuse := func(key, format string, args ...any) error {
		return blocker.New(infrav1.CredentialsNotAllowedReason, field, "key %s of Secret %q: "+format,
			append([]any{key, secret.Name}, args...)...)
	}

	insecure := strings.TrimSpace(secretText(secret, insecureKey))
	switch strings.ToLower(insecure) {
	case "", "false", "no", "n", "off", "0":
	case "true", "yes", "y", "on", "1":
		if !server.InsecureSkipTLSVerify {
			return refuse(insecureKey, "a Secret cannot turn off the verification of certificates; remove the key, "+
				"and set %s or caConfigMap to the engine's CA certificate", caBundleKey)
		}
	default:
		return refuse(insecureKey, "%q is not true or false; remove the key", insecure)
	}

	if file := strings.TrimSpace(secretText(secret, caFileKey)); file != "" {
		return refuse(caFileKey, "the manager cannot read the file %q; remove the key, and put the certificates into "+
			"the key %s", file, caBundleKey)
	}

	if caNamed && strings.TrimSpace(secretText(secret, caBundleKey)) != "" {
		return refuse(caBundleKey, "caConfigMap also contains CA certificates; remove one of them")
	}

	return nil
}

// withBundleOfSecret adds the CA certificates of the Secret.
func withBundleOfSecret(config engine.Config, secret *corev1.Secret, field string) (engine.Config, error) {
	bundle := strings.TrimSpace(secretText(secret, caBundleKey))
	if bundle == "" {
		return config, nil
	}

	config.CA = []byte(bundle + "\n")
	if _, err := engine.New(config); err != nil {
		return engine.Config{}, blocker.New(infrav1.CredentialsNotAllowedReason, field,
			"key %s of Secret %q is invalid: %v; put the engine's CA certificate in PEM format there",
			caBundleKey, secret.Name, err)
	}

	return config, nil
}
