// Package config has manifests that olvmctl needs: of the provider, for local management clusters, and of add-ons.
package config

import "embed"

// Files are crd/bases, rbac, policy and addons.
//
//go:embed crd/bases/*.yaml rbac/*.yaml policy/*.yaml addons/*.yaml
var Files embed.FS
