package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzDocument verifies for any readable document that its written form reads the same, and that its JSON is valid.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{"<vm/>", `<vm id="1"><name>a &lt; b</name><x> </x></vm>`, "<a><b/><b/></a>",
		"<a>&#0;</a>", "<?xml version='1.0'?><a xmlns='u'>\r\n</a>", "<a/><b/>", "<a"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		first, err := ParseXML(strings.NewReader(text))
		if err != nil {
			return
		}

		var written bytes.Buffer
		first.writeXML(&written)
		second, err := ParseXML(&written)
		if err != nil {
			t.Fatalf("%q was read and cannot be read again: %v", text, err)
		}

		if !reflect.DeepEqual(first, second) {
			t.Errorf("%q came back as %+v, not %+v", text, second, first)
		}

		var out bytes.Buffer
		first.writeJSON(&out)
		if !json.Valid(out.Bytes()) {
			t.Errorf("%q became %s", text, out.Bytes())
		}
	})
}

// FuzzJSON checks that no JSON confuses the reader.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"{}", `{"name":"a","cpu":{"topology":{"cores":1}},"x":[1,"2",{"id":"3"}]}`,
		`{"a":[[1]]}`, `{"a":null}`, "[]", `{"id":{"id":1}}`} {
		f.Add(seed)
	}

	f.Fuzz(func(_ *testing.T, text string) {
		if document, err := ParseJSON(strings.NewReader(text), "vm"); err == nil {
			_ = API().NormalizeDocument(document, "Vm")
		}
	})
}
