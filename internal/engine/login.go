package engine

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// CleanLogin returns the user name and the password without artifacts. It removes the final line break left by echo and
// editors, and the byte order mark left by editors on Windows. It also removes blanks around a user name, but not
// around a password, because they may belong to it.
func CleanLogin(username, password string) (cleanUsername, cleanPassword string) {
	clean := func(text string) string { return strings.TrimRight(strings.TrimPrefix(text, "\ufeff"), "\r\n") }

	return strings.TrimSpace(clean(username)), clean(password)
}

// CheckLogin refuses a user name or a password that is not valid text, because the engine and Terraform would receive
// different ones. It also refuses text nobody chooses as a login, such as ciphertext, because an engine locks a user
// after a few wrong passwords. The error repeats neither.
func CheckLogin(username, password string) error {
	if part, what := findStandIn(username, password, describeStandIn); what != "" {
		return errors.New("the " + part + " is " + what + "; nothing was sent: give the real one")
	}

	for _, part := range []struct{ name, text string }{{"user name", username}, {"password", password}} {
		if !utf8.ValidString(part.text) || strings.ContainsRune(part.text, 0) {
			return errors.New("the " + part.name + " is not text in UTF-8; save it in that encoding")
		}
	}

	return nil
}

// CheckWrittenLogin also refuses placeholders that the user should have replaced. It is only for manifests in a
// preview. An engine's real password may look as weak, so this check does not apply to logins in use.
func CheckWrittenLogin(username, password string) error {
	if err := CheckLogin(username, password); err != nil {
		return err
	}

	if part, what := findStandIn(username, password, describePlaceholder); what != "" {
		return errors.New("the " + part + " looks like " + what + "; nothing was sent. Give the real one. If it " +
			"is the real one, set OLVM_USERNAME, OLVM_PASSWORD and OLVM_URL")
	}

	return nil
}

// findStandIn returns the part of a login that is a stand-in for the real one, and a description of the stand-in. It
// returns "" for both if there is no stand-in.
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

// known is a complete text that stands for a secret. In a user name, a domain may follow it.
type known struct {
	pattern *regexp.Regexp
	what    string
}

// standIns are texts that tools put in place of a secret, in a form nobody chooses as a password.
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

// fillIns are texts that users should replace. A weak password may look like one.
var fillIns = []known{
	{regexp.MustCompile(`^\$[A-Z_][A-Z0-9_]{2,}(@[^@]*)?$`), aVariable},
	{regexp.MustCompile(`^(\(\([^()]+\)\)|\[\[[^\[\]]+\]\])(@[^@]*)?$`), aTemplate},
	{regexp.MustCompile(`^(%[A-Za-z_]+%|__[A-Za-z_]+__|@@?[A-Z_]{3,}@@?)(@[^@]*)?$`), aTemplate},
	{regexp.MustCompile(`^<[A-Za-z][^<>]*>(@[^@]*)?$`), "a placeholder"},
	{regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`), aReference},
	{regexp.MustCompile(`^\{?env[:.][A-Za-z_][A-Za-z0-9_]*\}?$`), aVariable},
	{regexp.MustCompile(`^(\*{3,}|[xX]{3,}|\.{3,}|…)$`), "a placeholder"},
}

// placeholders are the letters of common placeholders for a secret.
var placeholders = []string{
	"changeme", "changethis", "replaceme", "replacethis", "placeholder", "redacted", "todo", "tbd", "fixme", "fillmein",
	"yourpassword", "yourusername", "yourpasswordhere", "insertpasswordhere", "passwordhere", "sensitivevalue",
	"enteryourpassword", "enterpasswordhere", "putpasswordhere", "addpasswordhere", "passwordgoeshere", "setme",
	"editme",
	"insertyourpassword", "replacewithyourpassword", "replacewithpassword", "yoursecret", "yoursecrethere", "masked",
}

// notLetters matches the text between the letters of a placeholder.
var notLetters = regexp.MustCompile(`[^a-z]+`)

func describeMatch(text string, among []known) string {
	for _, known := range among {
		if known.pattern.MatchString(strings.TrimSpace(text)) {
			return known.what
		}
	}

	return ""
}

// describeStandIn describes a text that cannot be a user name or a password. It returns "" if it can.
func describeStandIn(text string) string { return describeMatch(text, standIns) }

// describePlaceholder describes a text that the user should have replaced, or returns "".
func describePlaceholder(text string) string {
	if what := describeMatch(text, fillIns); what != "" {
		return what
	}

	before, _, _ := strings.Cut(text, "@")
	if slices.Contains(placeholders, notLetters.ReplaceAllString(strings.ToLower(before), "")) &&
		!strings.ContainsAny(before, "0123456789") {
		return "a placeholder"
	}

	return ""
}
