package engine

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAURLThatCanMeanNothingElseIsAccepted has URLs as users write them.
func TestAURLThatCanMeanNothingElseIsAccepted(t *testing.T) {
	const host = "https://engine.example.com"

	for name, test := range map[string]struct{ url, want string }{
		"as it should be":         {host + "/ovirt-engine", host + "/ovirt-engine"},
		"a trailing slash":        {host + "/ovirt-engine/", host + "/ovirt-engine"},
		"several":                 {host + "//ovirt-engine///", host + "/ovirt-engine"},
		"with the API":            {host + "/ovirt-engine/api", host + "/ovirt-engine"},
		"with the API, and slash": {host + "/ovirt-engine/api/", host + "/ovirt-engine"},
		"with the API's version":  {host + "/ovirt-engine/api/v4", host + "/ovirt-engine"},
		"the API alone":           {host + "/api", host + "/ovirt-engine"},
		"the host alone":          {host, host + "/ovirt-engine"},
		"the host and a slash":    {host + "/", host + "/ovirt-engine"},
		"no scheme":               {"engine.example.com/ovirt-engine", host + "/ovirt-engine"},
		"no scheme, with slashes": {"//engine.example.com/ovirt-engine", host + "/ovirt-engine"},
		"no scheme, with a port":  {"engine.example.com:8443", host + ":8443/ovirt-engine"},
		"blanks and a line break": {" \t" + host + "/ovirt-engine \r\n", host + "/ovirt-engine"},
		"an empty query":          {host + "/ovirt-engine?", host + "/ovirt-engine"},
		"an empty fragment":       {host + "/ovirt-engine/#", host + "/ovirt-engine"},
		"the scheme in capitals":  {"HTTPS://engine.example.com/ovirt-engine", host + "/ovirt-engine"},
		"an IPv6 address":         {"https://[2001:db8::1]:443/ovirt-engine", "https://[2001:db8::1]:443/ovirt-engine"},
		"a path of a proxy":       {host + "/lab", host + "/lab"},
		"and the API":             {host + "/lab/api/", host + "/lab"},
		"a path that is unknown":  {host + "/ovirt-engine/other", host + "/ovirt-engine/other"},
		"a path before it":        {host + "/lab/ovirt-engine/api", host + "/lab/ovirt-engine"},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := ParseBaseURL(test.url)
			check.Error(t, err, "")
			check.Equal(t, "URL", base.String(), test.want)

			again, err := ParseBaseURL(base.String())
			check.Error(t, err, "")
			check.Equal(t, "what is accepted stays", again.String(), test.want)
		})
	}
}

// TestARefusedURLIsToldTheOneToWrite has URLs pasted from a browser. The URL named by the error is accepted.
func TestARefusedURLIsToldTheOneToWrite(t *testing.T) {
	const host = "https://engine.example.com"

	for name, test := range map[string]struct{ url, problem, write string }{
		"the web interface": {host + "/ovirt-engine/webadmin", "leads to a page", host + "/ovirt-engine"},
		"with its state": {
			host + "/ovirt-engine/webadmin/?locale=en_US#vms", "leads to a page", host + "/ovirt-engine",
		},
		"a collection": {host + "/ovirt-engine/api/vms", "leads to a page", host + "/ovirt-engine"},
		"an object of it": {
			host + "/ovirt-engine/api/vms/123;current", "leads to a page", host + "/ovirt-engine",
		},
		"the portal": {
			host + ":8443/ovirt-engine/web-ui/", "leads to a page", host + ":8443/ovirt-engine",
		},
		"the login": {
			host + "/ovirt-engine/sso/login.html", "leads to a page", host + "/ovirt-engine",
		},
		"the web interface, shorter": {host + "/webadmin/", "leads to a page", host + "/ovirt-engine"},
		"a page behind a proxy":      {host + "/lab/webadmin", "leads to a page", host + "/lab"},
		"no scheme": {
			"engine.example.com/ovirt-engine/webadmin", "leads to a page", host + "/ovirt-engine",
		},
		"a query": {host + "/ovirt-engine?locale=de", "has a query", host + "/ovirt-engine"},
		"a fragment": {
			host + "/ovirt-engine/#vms", "has a query or a fragment", host + "/ovirt-engine",
		},
		"plain HTTP":               {"http://engine.example.com", "must begin with https://", host + "/ovirt-engine"},
		"plain HTTP with its port": {"http://engine.example.com:80/ovirt-engine", "https://", host + "/ovirt-engine"},
		"a user and a password":    {"https://admin:s3cret@engine.example.com", "has a user", host + "/ovirt-engine"},
		"a user with a domain": {
			"https://admin@internal:s3cret@engine.example.com/", "has a user", host + "/ovirt-engine",
		},
		"a user alone": {
			"https://s3cret@engine.example.com/ovirt-engine/api", "has a user", host + "/ovirt-engine",
		},
		"a user without a scheme":  {"admin:s3cret@engine.example.com", "has a user", host + "/ovirt-engine"},
		"a user with plain HTTP":   {"http://admin:s3cret@engine.example.com", "https://", host + "/ovirt-engine"},
		"a password with a slash":  {"https://admin:s3/cret@engine.example.com", "cannot be read", exampleURL},
		"a password of digits":     {"https://admin:12/s3cret@engine.example.com", "cannot be read", exampleURL},
		"with a question mark":     {"https://admin:s3?cret@engine.example.com", "cannot be read", exampleURL},
		"with a hash":              {"https://admin:12#s3cret@engine.example.com", "cannot be read", exampleURL},
		"with a percent sign":      {"https://admin:s3cret%zz@engine.example.com", "cannot be read", exampleURL},
		"with a blank":             {"https://admin:s3 cret@engine.example.com", "cannot be read", exampleURL},
		"a token in the query":     {host + "/ovirt-engine/api?token=s3cret", "has a query", host + "/ovirt-engine"},
		"one slash":                {"https:/engine.example.com/ovirt-engine", "cannot be read", exampleURL},
		"twice the scheme":         {"https://https://engine.example.com", "cannot be read", exampleURL},
		"a blank within":           {"https://engine.example.com/ovirt engine", "cannot be read", exampleURL},
		"in quotes":                {`"https://engine.example.com"`, "cannot be read", exampleURL},
		"in brackets":              {"<https://engine.example.com>", "cannot be read", exampleURL},
		"two of them":              {host + " " + host, "cannot be read", exampleURL},
		"no host":                  {"https:///ovirt-engine", "cannot be read", exampleURL},
		"nothing":                  {"", "is empty", exampleURL},
		"blanks":                   {" \n", "is empty", exampleURL},
		"a port that is none":      {host + ":99999", "port", exampleURL},
		"a port that is no number": {host + ":https", "cannot be read", exampleURL},
		"another protocol":         {"ssh://engine.example.com", "not ssh://", host + "/ovirt-engine"},
		"a control character":      {"https://engine.example.com/\x1b[31m", "cannot be read", exampleURL},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseBaseURL(test.url)
			check.Error(t, err, test.problem)

			_, write, _ := strings.Cut(err.Error(), "; write ")
			write = strings.TrimPrefix(write, "for example ")
			check.Equal(t, "the URL to write", write, test.write)
			check.Lacks(t, "the error", err.Error(), "s3")
			check.Lacks(t, "the error", err.Error(), "cret")
			check.Lacks(t, "what is shown", RedactURL(test.url), "s3")

			_, err = ParseBaseURL(write)
			check.Error(t, err, "")
		})
	}
}
