// Package localpage serves a page to a browser on the same machine: on loopback, to be read only, with a stream of what
// it shows, and with the styles and scripts that all such pages share. What is shown belongs to who serves it.
package localpage
