// Package supportbundle gathers diagnostics about a broken cluster, without secrets, for people asked for help. It
// changes nothing.
package supportbundle
