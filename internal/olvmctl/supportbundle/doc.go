// Package supportbundle gathers what there is to know of a cluster when
// something is wrong with it, and leaves out what is secret: what others need
// who are asked for help. It changes nothing.
package supportbundle
