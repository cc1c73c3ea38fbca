package ovirtsim_test

import (
	"fmt"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// These tests cover behavior that third-party clients expect but internal/engine does not use.

const xmlType = "application/xml"

// id returns the ID of the first element with a name in a document.
func id(t *testing.T, element, document string) string {
	t.Helper()
	found := regexp.MustCompile(`<` + element + ` href="[^"]*" id="([^"]*)"`).FindStringSubmatch(document)
	if found == nil {
		t.Fatalf("there is no %s in %s", element, document)
	}

	return found[1]
}

func (r *raw) xml(method, path, body string) string {
	r.t.Helper()
	status, answer := r.call(method, path, xmlType, body)
	if status > 202 {
		r.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}

	return answer
}

// has waits until a document contains a text.
func (r *raw) has(path, want string) {
	r.t.Helper()
	r.eventually(path+" has "+want, func() error {
		if _, answer := r.call("GET", path, "", ""); !strings.Contains(answer, want) {
			return fmt.Errorf("it is %s", answer)
		}

		return nil
	})
}

func TestUserDataIsShownAndThePasswordIsNot(t *testing.T) {
	r := newRaw(t)
	made := r.xml(
		"POST",
		"/api/vms",
		`<vm><name>a</name><cluster><name>Default</name></cluster><template><name>Blank</name></template><console><enabled>true</enabled></console>
		<initialization><custom_script>a &amp;&amp; b</custom_script><root_password>secret</root_password></initialization></vm>`,
	)
	path := "/api/vms/" + id(t, "vm", made)

	plain, full := r.xml("GET", path, ""), r.xml("GET", path+"?all_content=true", "")
	for _, document := range []string{made, plain, full} {
		if !strings.Contains(document, "<custom_script>a &amp;&amp; b</custom_script>") ||
			strings.Contains(document, "secret") {
			t.Errorf("the initialization is wrong in %s", document)
		}
	}

	for name, document := range map[string]string{"made": made, "full": full} {
		if !strings.Contains(
			document,
			"<console><enabled>true</enabled></console><soundcard_enabled>true</soundcard_enabled>",
		) {
			t.Errorf("devices are missing in the %s document %s", name, document)
		}
	}

	if strings.Contains(plain, "<console>") || strings.Contains(plain, "soundcard") {
		t.Errorf("devices are in the plain document %s", plain)
	}
}

func TestADiskIsAttachedByItsIDAlone(t *testing.T) {
	r := newRaw(t)
	vm := id(
		t,
		"vm",
		r.xml(
			"POST",
			"/api/vms",
			`<vm><name>a</name><cluster><name>Default</name></cluster><template><name>Blank</name></template></vm>`,
		),
	)
	disk := id(
		t,
		"disk",
		r.xml(
			"POST",
			"/api/disks",
			`<disk><provisioned_size>1048576</provisioned_size><format>cow</format><storage_domains><storage_domain><name>olvm-data</name></storage_domain></storage_domains></disk>`,
		),
	)
	r.has("/api/disks/"+disk, "<status>ok</status>")
	attached := r.xml("POST", "/api/vms/"+vm+"/diskattachments",
		`<disk_attachment><disk id="`+disk+`"/><interface>virtio</interface></disk_attachment>`)
	if !strings.Contains(attached, "<active>false</active><bootable>false</bootable>") {
		t.Errorf("the attachment is %s", attached)
	}

	status, answer := r.call("POST", "/api/vms/"+vm+"/diskattachments", xmlType,
		`<disk_attachment><interface>virtio</interface></disk_attachment>`)
	if status != 500 {
		t.Errorf("no disk: %d %s", status, answer)
	}
}

func TestATransferTellsItsURLAtOnceAndEndsAsItWasEnded(t *testing.T) {
	for end, want := range map[string]struct{ phase, disk string }{
		"cancel":   {"finished_failure", ""},                    // the user cancels, and the engine deletes the disk
		"finalize": {"finished_success", "<status>ok</status>"}, // nobody uploaded data, and nobody checks
	} {
		t.Run(end, func(t *testing.T) {
			r := newRaw(t)
			disk := id(
				t,
				"disk",
				r.xml(
					"POST",
					"/api/disks",
					`<disk><provisioned_size>1048576</provisioned_size><format>cow</format><storage_domains><storage_domain><name>olvm-data</name></storage_domain></storage_domains></disk>`,
				),
			)
			r.has("/api/disks/"+disk, "<status>ok</status>")
			made := r.xml("POST", "/api/imagetransfers",
				`<image_transfer><image id="`+disk+`"/><direction>upload</direction></image_transfer>`)
			check.Contains(t, "made", made, "<phase>transferring</phase>")
			check.Contains(t, "made", made, "<transfer_url>https://")
			check.Contains(t, "made", made, "<proxy_url>https://")

			path := "/api/imagetransfers/" + id(t, "image_transfer", made)
			r.has(path, "<phase>transferring</phase>")
			r.xml("POST", path+"/"+end, "<action/>")
			r.has(path, "<phase>"+want.phase+"</phase>")
			if want.disk != "" {
				r.has("/api/disks/"+disk, want.disk)
				return
			}

			r.gone("/api/disks/" + disk)
		})
	}
}

func TestATemplatesDiskIsCopiedToAnotherDomainUnderItsID(t *testing.T) {
	r := newRaw(t)
	template := id(t, "template", r.xml("GET", "/api/templates?search=name%3Dol9-k8s", ""))
	disk := id(t, "disk", r.xml("GET", "/api/templates/"+template+"/diskattachments", ""))
	second := id(t, "storage_domain", r.xml("GET", "/api/storagedomains?search=name%3Dolvm-data-2", ""))
	path := fmt.Sprintf("/api/storagedomains/%s/disks/%s", second, disk)
	if status, _ := r.call("GET", path, "", ""); status != 404 {
		t.Errorf("a disk that is elsewhere: %d", status)
	}

	copy := `<action><storage_domain id="` + second + `"/></action>`
	r.xml("POST", "/api/disks/"+disk+"/copy", copy)
	r.has(path, "<status>ok</status>")
	if status, answer := r.call("POST", "/api/disks/"+disk+"/copy", xmlType, copy); status != 409 {
		t.Errorf("a second copy: %d %s", status, answer)
	}
}

func TestVNICProfilesComeAndGo(t *testing.T) {
	r := newRaw(t)
	network := id(t, "network", r.xml("GET", "/api/networks", ""))
	profile := `<vnic_profile><name>extra</name><network id="` + network + `"/></vnic_profile>`
	made := id(t, "vnic_profile", r.xml("POST", "/api/vnicprofiles", profile))
	if status, answer := r.call("POST", "/api/vnicprofiles", xmlType, profile); status != 409 {
		t.Errorf("the same name: %d %s", status, answer)
	}

	vm := id(
		t,
		"vm",
		r.xml(
			"POST",
			"/api/vms",
			`<vm><name>a</name><cluster><name>Default</name></cluster><template><name>Blank</name></template></vm>`,
		),
	)
	nic := id(
		t,
		"nic",
		r.xml("POST", "/api/vms/"+vm+"/nics", `<nic><name>nic1</name><vnic_profile id="`+made+`"/></nic>`),
	)
	if status, answer := r.call("DELETE", "/api/vnicprofiles/"+made, "", ""); status != 409 {
		t.Errorf("a profile in use: %d %s", status, answer)
	}

	r.xml("DELETE", "/api/vms/"+vm+"/nics/"+nic, "")
	r.xml("DELETE", "/api/vnicprofiles/"+made, "")
	if status, _ := r.call("GET", "/api/vnicprofiles/"+made, "", ""); status != 404 {
		t.Errorf("a profile that is gone: %d", status)
	}
}

func TestAURLWithoutTheAPILeadsToTheLoginPage(t *testing.T) {
	r := newRaw(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}

	r.http.Jar = jar
	response, body := r.ask("GET", "", nil)
	if response.StatusCode != 200 || !strings.Contains(body, "<html>") {
		t.Errorf("a browser got %d %s", response.StatusCode, body)
	}
}
