package engine

import (
	"encoding/xml"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// read decodes a VM like FetchFullVM.
func read(t *testing.T, answer string) *VM {
	t.Helper()
	var vm wholeVM
	check.Error(t, xml.Unmarshal([]byte(answer), &vm), "")

	return vm.toVM()
}

// TestARequestSaysAgainWhatWaits has pending settings, and a request that changes the comment. No recording of an
// engine has these settings pending. The fields come from the engine's source.
func TestARequestSaysAgainWhatWaits(t *testing.T) {
	t.Parallel()
	now := `<vm><cpu><mode>host_passthrough</mode></cpu><type>server</type>` +
		`<display><type>vnc</type><monitors>1</monitors><address>10.0.0.1</address></display>` +
		`<time_zone><name>Etc/GMT</name></time_zone><custom_properties><custom_property><name>a</name><value>b</value>` +
		`</custom_property></custom_properties><os><type>other</type><boot><devices><device>hd</device></devices></boot></os>` +
		`<usb><enabled>false</enabled></usb></vm>`

	for name, test := range map[string]struct{ next, want string }{
		"nothing waits": {now, ``},
		"a boot order": {
			`<vm><cpu><mode>host_passthrough</mode></cpu><os><type>other</type><boot><devices>` +
				`<device>network</device></devices></boot></os><custom_properties><custom_property><name>a</name>` +
				`<value>b</value></custom_property></custom_properties></vm>`,
			`<os><type>other</type><boot><devices><device>network</device></devices></boot></os>`,
		},
		"another mode, and no properties": {
			`<vm><cpu></cpu></vm>`,
			`<cpu><mode>custom</mode></cpu><custom_properties></custom_properties>`,
		},
		"the monitors alone of a display": {
			`<vm><cpu><mode>host_passthrough</mode></cpu><display><type>vnc</type><monitors>2</monitors>` +
				`<address>10.0.0.2</address></display><custom_properties><custom_property><name>a</name><value>b</value>` +
				`</custom_property></custom_properties></vm>`,
			`<display><monitors>2</monitors></display>`,
		},
		"a time zone and USB": {
			`<vm><cpu><mode>host_passthrough</mode></cpu><time_zone><name>Europe/Rome</name></time_zone>` +
				`<usb>` + "\n  " + `<enabled>true</enabled>` + "\n" + `</usb><custom_properties><custom_property><name>a</name>` +
				`<value>b</value></custom_property></custom_properties></vm>`,
			`<time_zone><name>Europe/Rome</name></time_zone><usb><enabled>true</enabled></usb>`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			again, _ := Settings{Now: read(t, now), Next: read(t, test.next)}.PendingChanges()
			comment := "c"
			change := &VM{Comment: &comment}
			change.FillPending(again)
			request, err := xml.Marshal(&wholeVM{*change, change.others})
			check.Error(t, err, "")
			check.Equal(t, "the request", string(request), "<vm><comment>c</comment>"+test.want+"</vm>")
		})
	}
}
