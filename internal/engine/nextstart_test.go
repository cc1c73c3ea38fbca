package engine

import (
	"encoding/base64"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// ovfOf returns a VM's OVF as written by an engine 4.5.8, without irrelevant parts.
func ovfOf(snapshots string, kinds ...string) string {
	items := ""
	for _, kind := range kinds {
		items += "<Item><rasd:ResourceType>0</rasd:ResourceType><Type>" + kind + "</Type></Item>"
	}

	return `<?xml version="1.0" encoding="UTF-8"?><ovf:Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1/" ` +
		`xmlns:rasd="r" xmlns:xsi="x"><References></References><Content ovf:id="out"><Name>a</Name>` +
		`<Section xsi:type="ovf:VirtualHardwareSection_Type">` + items + `</Section>` +
		`<Section xsi:type="ovf:SnapshotsSection_Type"><Snapshot><Type>ACTIVE</Type></Snapshot>` + snapshots +
		`</Section></Content></ovf:Envelope>`
}

func TestDevicesThatWaitAreReadFromTheConfigurationForTheNextStart(t *testing.T) {
	t.Parallel()
	next := func(configuration string) string {
		return ovfOf("<Snapshot><Type>NEXT_RUN</Type><VmConfiguration>"+configuration+
			"</VmConfiguration></Snapshot>", "tpm")
	}
	encoded := func(ovf string) string { return base64.StdEncoding.EncodeToString([]byte(ovf)) }

	for name, test := range map[string]struct {
		ovf  string
		want *devices
	}{
		"a sound card":             {next(encoded(ovfOf("", "disk", "sound"))), &devices{soundcard: true}},
		"a console and a TPM":      {next(encoded(ovfOf("", "console", "tpm"))), &devices{console: true, tpm: true}},
		"no device":                {next(encoded(ovfOf(""))), &devices{}},
		"nothing waits":            {ovfOf("", "sound"), nil},
		"a configuration in clear": {next("&lt;Envelope/&gt;"), nil},
		"one that is no OVF":       {next(encoded("<Envelope")), nil},
		"no OVF":                   {"", nil},
		"one that is too long":     {next(encoded(ovfOf("", "sound"))) + strings.Repeat(" ", maxOVF), nil},
	} {
		have := devicesAtNextStart(test.ovf)
		check.Equal(t, name, have == nil, test.want == nil)
		if have != nil && test.want != nil {
			check.Equal(t, name, *have, *test.want)
		}
	}
}

func TestTheOVFOfAnAnswerIsNotSentBack(t *testing.T) {
	t.Parallel()
	var vm VM
	answer := "<vm><initialization><host_name>a</host_name><configuration><data>secret</data></configuration>" +
		"</initialization></vm>"
	if err := xml.Unmarshal([]byte(answer), &vm); err != nil {
		t.Fatal(err)
	}

	request, err := xml.Marshal(&VM{Initialization: vm.dropOVF().Initialization})
	if err != nil {
		t.Fatal(err)
	}

	check.Equal(t, "the request", string(request), "<vm><initialization><host_name>a</host_name></initialization></vm>")
}
