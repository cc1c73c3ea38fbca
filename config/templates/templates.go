// Package templates contains the shipped cluster templates, for clusterctl and for olvmctl.
package templates

import "embed"

// Files are cluster-template.yaml, cluster-template-FLAVOR.yaml and clusterclass-olvm.yaml.
//
//go:embed *.yaml
var Files embed.FS
