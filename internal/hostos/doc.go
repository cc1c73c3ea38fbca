// Package hostos has what operating systems do differently. Programs that need what Windows lacks run only on Linux
// and macOS.
package hostos
