package ovirtsim

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzDocument checks that whatever is read as a document is written so that it reads the same, and that its JSON is JSON.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{"<vm/>", `<vm id="1"><name>a &lt; b</name><x> </x></vm>`, "<a><b/><b/></a>", "<a>&#0;</a>", "<?xml version='1.0'?><a xmlns='u'>\r\n</a>", "<a/><b/>", "<a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := parseXML(strings.NewReader(text))
		if err != nil {
			return
		}
		var written bytes.Buffer
		first.writeXML(&written)
		second, err := parseXML(&written)
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
	for _, seed := range []string{"{}", `{"name":"a","cpu":{"topology":{"cores":1}},"x":[1,"2",{"id":"3"}]}`, `{"a":[[1]]}`, `{"a":null}`, "[]", `{"id":{"id":1}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if document, err := parseJSON(strings.NewReader(text), "vm"); err == nil {
			_ = api().shape(document, "Vm")
		}
	})
}

// FuzzSearch checks that a query is either refused or can be applied.
func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"name=a*", `name="a b" and status!=up or tag=x sortby name desc page 2`, "Vms: a", `"`, "= =", "and", "name=\\"} {
		f.Add(seed)
	}
	of := fields[string]{"name": val(func(s string) string { return s })}
	f.Fuzz(func(_ *testing.T, text string) {
		if q, err := parseSearch(text); err == nil && q.knows(of) {
			_ = applyQuery(q, []string{"a", "b"}, of)
		}
	})
}

// FuzzInventory checks that an inventory that is accepted can be served.
func FuzzInventory(f *testing.F) {
	f.Add([]byte("dataCenters: [{name: a, clusters: [], networks: [], storageDomains: []}]"))
	f.Add([]byte("dataCenters: [{name: a, storageDomains: [{name: d}], networks: [{name: n, vnicProfiles: [n]}], clusters: [{name: c, hosts: [{name: h}]}], templates: [{name: t, disks: [{size: 1Gi}], nics: [{name: x, network: n}]}], vms: [{name: v, cluster: c, template: t, up: true}]}]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		inventory, err := ParseInventory(content)
		if err != nil {
			return
		}
		sim, err := New(Options{Inventory: inventory})
		if err != nil {
			t.Fatalf("accepted, but: %v", err)
		}
		sim.Close()
	})
}
