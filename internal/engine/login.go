package engine

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// CleanLogin returns a user name and a password as they are meant: without the line break that echo and editors leave
// at the end of a file, and without the mark (BOM) that editors on Windows leave at its beginning. Blanks around a
// user name mean nothing; those of a password are part of it.
func CleanLogin(username, password string) (cleanUsername, cleanPassword string) {
	clean := func(text string) string { return strings.TrimRight(strings.TrimPrefix(text, "\ufeff"), "\r\n") }

	return strings.TrimSpace(clean(username)), clean(password)
}

// CheckLogin refuses a user name or a password that is not text: what is sent to the engine would be another one than
// what Terraform gets. It also refuses what nobody has chosen, such as ciphertext: an engine locks a user after a few
// wrong passwords. The error repeats neither.
func CheckLogin(username, password string) error {
	if part, what := findStandIn(username, password, standIn); what != "" {
		return errors.New("the " + part + " is " + what + "; nothing was sent: give the real one")
	}

	for _, part := range []struct{ name, text string }{{"user name", username}, {"password", password}} {
		if !utf8.ValidString(part.text) || strings.ContainsRune(part.text, 0) {
			return errors.New("the " + part.name + " is not text in UTF-8; save it in that encoding")
		}
	}

	return nil
}

// CheckWrittenLogin also refuses what somebody writes who has still to fill in the real one, for manifests that are
// planned only. A password that an engine has may be as weak: those that somebody has set up are not checked so.
func CheckWrittenLogin(username, password string) error {
	if err := CheckLogin(username, password); err != nil {
		return err
	}

	if part, what := findStandIn(username, password, placeholder); what != "" {
		return errors.New("the " + part + " looks like " + what + "; nothing was sent. Give the real one. If it " +
			"is the real one, set OLVM_USERNAME, OLVM_PASSWORD and OLVM_URL")
	}

	return nil
}

// findStandIn says which part of a login stands in for the real one, and what it is; empty for none.
func findStandIn(username, password string, find func(string) string) (part, what string) {
	if what := find(username); what != "" {
		return "user name", what
	}

	return "password", find(password)
}

const (
	aVariable  = "a variable without its value"
	aTemplate  = "a template without its value"
	aReference = "a reference to a secret"
)

// known is a text that stands for a secret, all of it. A user name may have its domain.
type known struct {
	pattern *regexp.Regexp
	what    string
}

// standIns are texts that tools put in the place of a secret, in forms that nobody chooses for a password.
var standIns = []known{
	{regexp.MustCompile(`^ENC\[[A-Za-z0-9_]+,.*\]$`), "encrypted (ENC[...])"},
	{regexp.MustCompile(`^(ENC\(.+\)|\{cipher\}.+)$`), "encrypted"},
	{regexp.MustCompile(`^-----BEGIN (PGP MESSAGE|AGE ENCRYPTED FILE|PKCS7)-----`), "encrypted"},
	{regexp.MustCompile(`^(\$ANSIBLE_VAULT;|age-encryption\.org/|vault:v[0-9]+:)`), "encrypted"},
	{regexp.MustCompile(`^\$\$?\{[A-Za-z_][A-Za-z0-9_.]*([:/#%^,=?+-].*)?\}(@[^@]*)?$`), aVariable},
	{regexp.MustCompile(`^\$\([A-Za-z_][A-Za-z0-9_.]*\)(@[^@]*)?$`), aVariable},
	{regexp.MustCompile(`^\$?\{\{.*\}\}(@[^@]*)?$`), aTemplate},
	{regexp.MustCompile(`^(<%=.*%>|#\{[A-Za-z_][A-Za-z0-9_.]*\}#?)(@[^@]*)?$`), aTemplate},
	{regexp.MustCompile(`^((op|vault|bao|awssm|gcpsm|azkv|doppler|secretref)|ref\+[a-z0-9]+)://`), aReference},
	{regexp.MustCompile(`^(vault:[A-Za-z0-9_./-]+#|<path:[^<>]+>$)`), aReference},
	{regexp.MustCompile(`^(arn:aws:(secretsmanager|ssm|kms):|projects/[^/]+/secrets/[^/]+)`), aReference},
}

// fillIns are those that people and tools put there for somebody to fill in. A weak password may look like one.
var fillIns = []known{
	{regexp.MustCompile(`^\$[A-Z_][A-Z0-9_]{2,}(@[^@]*)?$`), aVariable},
	{regexp.MustCompile(`^(\(\([^()]+\)\)|\[\[[^\[\]]+\]\])(@[^@]*)?$`), aTemplate},
	{regexp.MustCompile(`^(%[A-Za-z_]+%|__[A-Za-z_]+__|@@?[A-Z_]{3,}@@?)(@[^@]*)?$`), aTemplate},
	{regexp.MustCompile(`^<[A-Za-z][^<>]*>(@[^@]*)?$`), "a placeholder"},
	{regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`), aReference},
	{regexp.MustCompile(`^\{?env[:.][A-Za-z_][A-Za-z0-9_]*\}?$`), aVariable},
	{regexp.MustCompile(`^(\*{3,}|[xX]{3,}|\.{3,}|…)$`), "a placeholder"},
}

// placeholders are the letters of words that stand for a secret to be filled in.
var placeholders = []string{
	"changeme", "changethis", "replaceme", "replacethis", "placeholder", "redacted", "todo", "tbd", "fixme", "fillmein",
	"yourpassword", "yourusername", "yourpasswordhere", "insertpasswordhere", "passwordhere", "sensitivevalue",
	"enteryourpassword", "enterpasswordhere", "putpasswordhere", "addpasswordhere", "passwordgoeshere", "setme",
	"editme",
	"insertyourpassword", "replacewithyourpassword", "replacewithpassword", "yoursecret", "yoursecrethere", "masked",
}

// notLetters are what is written between the letters of a placeholder.
var notLetters = regexp.MustCompile(`[^a-z]+`)

func match(text string, among []known) string {
	for _, known := range among {
		if known.pattern.MatchString(strings.TrimSpace(text)) {
			return known.what
		}
	}

	return ""
}

// standIn says what a text is that is evidently no user name and no password; "" if it may be one.
func standIn(text string) string { return match(text, standIns) }

// placeholder says what a text looks like that somebody is to replace; "" if it does not.
func placeholder(text string) string {
	if what := match(text, fillIns); what != "" {
		return what
	}

	before, _, _ := strings.Cut(text, "@")
	if slices.Contains(placeholders, notLetters.ReplaceAllString(strings.ToLower(before), "")) &&
		!strings.ContainsAny(before, "0123456789") {
		return "a placeholder"
	}

	return ""
}
