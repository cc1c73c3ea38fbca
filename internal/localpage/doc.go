// Package localpage serves a page to a browser on the same machine, for reading only and on the loopback interface. It
// provides a stream of the page's state, and the styles and scripts that all such pages share. The caller provides the
// content of the page.
package localpage
