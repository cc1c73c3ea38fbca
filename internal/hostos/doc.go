// Package hostos has what operating systems do differently. Programs that need more than Windows has run on Linux and
// macOS.
package hostos
