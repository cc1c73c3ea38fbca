// Package supportbundle collects information about a broken cluster, without secrets, for those who help the user. It
// changes nothing.
package supportbundle
