// Package hostos hides differences between operating systems. Programs that need features missing on Windows run only
// on Linux and macOS.
package hostos
