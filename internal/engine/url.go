package engine

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// enginePath is the path of an engine.
	enginePath = "/ovirt-engine"
	// exampleURL is the URL of an engine for messages.
	exampleURL = "https://engine.example.com" + enginePath
)

// pages are the parts of an engine's URLs after its path. Users often copy such URLs.
var pages = []string{"api", "apidoc", "docs", "services", "sso", "userportal", "vm-console", "web-ui", "webadmin"}

// ParseBaseURL returns the URL of an engine without a trailing slash, such as https://engine.example.com/ovirt-engine.
// It accepts all unambiguous forms: blanks around it, no scheme, no path, a trailing /api or slash. It refuses any
// other URL, and its error names the correct one. The error never repeats a user or a password.
func ParseBaseURL(raw string) (*url.URL, error) {
	base, err := parseURL(raw)
	if err != nil {
		return nil, err
	}

	problem := ""

	cleaned := path.Clean("/" + base.Path)
	if cleaned != "/api" && cleaned != "/api/v4" {
		cleaned = strings.TrimSuffix(strings.TrimSuffix(cleaned, "/v4"), "/api")
	} else {
		cleaned = ""
	}

	trimmed := engineRoot(cleaned)

	switch {
	case base.Scheme != "https":
		problem = fmt.Sprintf("must begin with https://, not %s://", abridgeText(base.Scheme))
		if base.Port() == "80" {
			base.Host = strings.TrimSuffix(base.Host, ":80")
		}
	case base.User != nil:
		problem = "has a user, which belongs in the credentials"
	case trimmed != cleaned:
		problem = "leads to a page of the engine"
	case base.RawQuery != "" || base.Fragment != "":
		problem = "has a query or a fragment"
	}

	out := &url.URL{Scheme: "https", Host: base.Host, Path: cmp.Or(strings.TrimRight(trimmed, "/"), enginePath)}
	if problem != "" {
		return nil, fmt.Errorf("the engine URL %s; write %s", problem, out)
	}

	return out, nil
}

// parseURL parses the text of a URL. Its errors repeat no part of the text: a password may contain any character, so it
// may appear anywhere in a malformed URL.
func parseURL(raw string) (*url.URL, error) {
	text := strings.TrimSpace(raw)
	if text == "" {
		return nil, errors.New("the engine URL is empty; write for example " + exampleURL)
	}

	if !strings.Contains(text, "://") {
		text = "https://" + strings.TrimLeft(text, "/")
	}

	parsed, err := url.Parse(text)

	switch {
	case err != nil, parsed.Hostname() == "", strings.ContainsFunc(text, isNoURLCharacter),
		strings.Contains(parsed.Path+parsed.RawQuery+parsed.Fragment, "@"),
		slices.Contains([]string{"http", "https"}, parsed.Hostname()):
		return nil, errors.New("the engine URL cannot be read; write for example " + exampleURL)
	case parsed.Port() != "":
		if port, err := strconv.Atoi(parsed.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("the engine URL has no valid TCP port; write for example " + exampleURL)
		}
	}

	parsed.Host = strings.TrimSuffix(parsed.Host, ":") // a colon without a port

	return parsed, nil
}

// isNoURLCharacter reports whether a character is invalid in URLs although the parser accepts it.
func isNoURLCharacter(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`<>"\^`+"`{|}", r)
}

// engineRoot returns the path of the engine for the path of one of its pages. It returns any other path unchanged.
func engineRoot(of string) string {
	segments := strings.Split(strings.Trim(of, "/"), "/")

	if at := slices.IndexFunc(segments, func(s string) bool { return slices.Contains(pages, s) }); at >= 0 {
		return strings.TrimRight("/"+strings.Join(segments[:at], "/"), "/")
	}

	return of
}

// RedactURL returns the URL of an engine for display. For an invalid URL, it returns a fixed text, because the URL may
// include a password.
func RedactURL(raw string) string {
	base, err := ParseBaseURL(raw)
	if err != nil {
		return "(not the URL of an engine)"
	}

	return base.String()
}
