package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/redact"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const (
	password = `p"a$%&+ß/ss word`
	userData = "#cloud-config\nruncmd:\n- kubeadm join --token abcdef.0123456789abcdef\n- short\n"
)

// TestEachFormOfASecretIsFound writes secrets in the forms that programs use. The rest of the text must stay readable.
func TestEachFormOfASecretIsFound(t *testing.T) {
	quoted, err := json.Marshal(password)
	if err != nil {
		t.Fatal(err)
	}

	short := "hunter-2-hunter"

	r := redact.New([]string{password, userData, short})
	for name, text := range map[string]string{
		"as it is":                             password,
		"a line":                               "- kubeadm join --token abcdef.0123456789abcdef",
		"a long word":                          "abcdef.0123456789abcdef",
		"JSON":                                 strings.Trim(string(quoted), `"`),
		"a query":                              "password=" + url.QueryEscape(short+"/?"),
		"HTML":                                 html.EscapeString(password),
		"HTML by names":                        `p&quot;a$%&amp;+ß/ss word`,
		"XML":                                  xmlOf(password),
		"a CDATA section":                      "<![CDATA[" + password + "]]>",
		"entities":                             "&#104;&#x75;nter-2-hunter",
		"an attribute":                         `<user password="hunter&#45;2&#45;hunter"/>`,
		"hexadecimal":                          hex.EncodeToString([]byte(password)),
		"HEXADECIMAL":                          strings.ToUpper(hex.EncodeToString([]byte(short))),
		"hexadecimal digits that were cut off": hex.EncodeToString([]byte("x" + short + "y"))[1:32],
		"base64":                               base64.StdEncoding.EncodeToString([]byte(short)),
		"base64 of a URL":                      base64.RawURLEncoding.EncodeToString([]byte(short)),
		"base64 of credentials": "Basic " +
			base64.StdEncoding.EncodeToString([]byte("admin@internal:"+short)),
		"base64 that was cut off":          base64.StdEncoding.EncodeToString([]byte("x" + userData))[3:90],
		"base64 of user data, as in a log": base64.StdEncoding.EncodeToString([]byte(userData)),
	} {
		got := r.RemoveSecrets("the engine says: " + text + " and no more")
		check.Contains(t, name+": got", got, redact.Mark)
		check.Lacks(t, name+": got", got, text)
		check.Equal(t, name+`: strings.HasPrefix(got, "the engine says: ")`, strings.HasPrefix(got, "the engine says: "), true)
		check.Equal(t, name+`: strings.HasSuffix(got, " and no more")`, strings.HasSuffix(got, " and no more"), true)
	}

	for _, text := range []string{
		"VM 11111111-1111-4111-8111-111111111111 is down", "ovirt_vm.this: 100% of memory", `the path C:\new`,
		"default/demo-control-plane-0", "short", "#cloud-config is not read",
	} {
		if got := r.RemoveSecrets(text); got != text && text != "#cloud-config is not read" {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func xmlOf(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text))

	return out.String()
}

// TestNamesAreNoSecrets uses user data that contains the name of its VM, and a password that is also a name.
func TestNamesAreNoSecrets(t *testing.T) {
	const name = "demo-control-plane-x7k2p"
	r := redact.New([]string{"hostname: " + name + "\n" + name + "\n", "demo-control-plane"}, name)
	if got := r.RemoveSecrets(`failed to create VM "` + name + `"`); strings.Contains(got, name) {
		t.Errorf("a password that is part of the name is shown: %s", got)
	}

	got := redact.New([]string{"hostname: " + name + "\n" + name + "\n"}, name).
		RemoveSecrets(`failed to create VM "` + name + `"`)
	if !strings.Contains(got, name) {
		t.Errorf("the name is hidden: %s", got)
	}
}
