package supportbundle

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// open are the keys of Secrets whose values are public.
var open = []string{
	"username", "ovirt_username", "ovirt_url", "ovirt_insecure", "ovirt_cafile", "ovirt_ca_bundle", "tls.crt", "ca.crt",
	"allowedServerURLs", "scope", "format",
}

// noteSecret notes the values of a Secret to remove from the bundle.
func (g *gathering) noteSecret(secret *corev1.Secret) {
	for key, value := range secret.Data {
		text := string(value)

		switch {
		case slices.Contains(open, key):
		case isDocument(text):
			g.secrets = append(g.secrets, partsOf(text)...)
		default:
			g.secrets = append(g.secrets, text)
		}
	}
}

// isDocument reports whether a value is user data, a kubeconfig or a Terraform state. Most of such a document is
// public, and its words also occur in the objects.
func isDocument(value string) bool {
	for _, begin := range []string{"#cloud-config", "## template: jinja", "{", "apiVersion:", "\x1f\x8b"} {
		if strings.HasPrefix(value, begin) {
			return true
		}
	}

	return false
}

var (
	// longWords matches keys, certificates and hashes.
	longWords = regexp.MustCompile(`[A-Za-z0-9+/_=-]{40,}`)
	// tokens matches the tokens that nodes use to join a cluster.
	tokens = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
)

// partsOf returns the parts of a document that may be secret.
func partsOf(document string) []string {
	return append(longWords.FindAllString(document, -1), tokens.FindAllString(document, -1)...)
}
