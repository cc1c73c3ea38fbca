package engine

import (
	"fmt"
	"net/textproto"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// ownHeaders are the headers set by this package. The engine needs them to understand its requests.
var ownHeaders = []string{
	"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type", "Filter", "Host",
	"Prefer", "Transfer-Encoding", "Version",
}

// CheckHeader returns an error for a header not allowed in the Headers of a Config. It does not repeat the value,
// because the value may be secret.
func CheckHeader(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%q is not the name of a header", abridgeText(name))
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("the value of header %s has a character that no header can carry", name)
	case slices.Contains(ownHeaders, textproto.CanonicalMIMEHeaderKey(name)):
		return fmt.Errorf("header %s is the client's own; remove it", name)
	}

	return nil
}
