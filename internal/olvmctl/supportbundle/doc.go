// Package supportbundle collects information about a broken cluster, so that others can help its user. The bundle
// contains no secrets. The package changes nothing.
package supportbundle
