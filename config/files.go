// Package config contains manifests for olvmctl: the provider's, for local management clusters, and add-ons'.
package config

import "embed"

// Files are crd/bases, rbac, policy and addons.
//
//go:embed crd/bases/*.yaml rbac/*.yaml policy/*.yaml addons/*.yaml
var Files embed.FS
