package engine

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestErrorsOfTheEngineItself sends a create for each error. It checks whether the object may exist all the same, and
// whether another try is worthwhile.
func TestErrorsOfTheEngineItself(t *testing.T) {
	tests := map[string]struct {
		status          int
		media, body     string
		lost, transient bool
		text            string
	}{
		"a validation that failed with a 500": {
			500,
			"application/xml",
			`<fault><detail>[General command validation failure.]</detail><reason>Operation Failed</reason></fault>`,
			false,
			false,
			"General command validation failure",
		},
		"an exception": {
			500,
			"application/xml",
			`<fault><detail>java.lang.NullPointerException</detail><reason>Operation Failed</reason></fault>`,
			true,
			true,
			"NullPointerException",
		},
		"an exception as a page": {
			500,
			"text/html;charset=UTF-8",
			`<html><head><title>Error</title></head><body>Internal Server Error</body></html>`,
			true,
			true,
			"engine refused POST /vms (HTTP 500): Internal Server Error",
		},
		"a page of a proxy": {
			503, "text/html", `<html><body>Service Unavailable</body></html>`,
			true, true, "a server in front of the engine",
		},
		"a refusal": {
			409,
			"application/xml",
			`<fault><detail>[Cannot add VM. The VM name is already in use.]</detail><reason>Operation Failed</reason></fault>`,
			false,
			false,
			"already in use",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{URL: "https://engine.example.com", Username: "u", Password: "p"})
			if err != nil {
				t.Fatal(err)
			}

			c.http.Transport = answer(func(r *http.Request) *http.Response {
				status, media, body := test.status, test.media, test.body
				if strings.HasSuffix(r.URL.Path, "/token") {
					status, media, body = http.StatusOK, "application/json", `{"access_token":"t"}`
				}

				return &http.Response{
					StatusCode: status,
					Header:     http.Header{"Content-Type": {media}},
					Body:       io.NopCloser(strings.NewReader(body)),
					Request:    r,
				}
			})

			_, err = c.CreateVM(t.Context(), &VM{Name: "a"}, nil)
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("the error is %v, want %q", err, test.text)
			}

			if IsAnswerLost(err) != test.lost || IsTransient(err) != test.transient {
				t.Errorf("%v: lost %t, transient %t", err, IsAnswerLost(err), IsTransient(err))
			}
		})
	}
}

// TestAConflictOfUnknownWordsIsTriedAgain has an engine refuse a request with an unknown message for a while, and with
// a permanent one.
func TestAConflictOfUnknownWordsIsTriedAgain(t *testing.T) {
	refuse := func(detail string) error { return &Fault{StatusCode: http.StatusConflict, Detail: detail} }
	looks := 0
	err := Wait(t.Context(), "it", func(context.Context) (bool, string, error) {
		looks++
		if looks < 3 {
			return false, "", refuse("[Cannot add VM. The moon is not right.]")
		}

		return true, "", nil
	}, nil)
	if err != nil || looks != 3 {
		t.Errorf("%v after %d looks", err, looks)
	}

	looks = 0
	err = Wait(t.Context(), "it", func(context.Context) (bool, string, error) {
		looks++

		return false, "", refuse(
			"[Cannot add VM. The VM name is already in use, please choose a unique name and try again.]",
		)
	}, nil)
	if !IsConflict(err) || looks != 1 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

// TestWhichConflictsPass has messages of a running engine 4.5.8: M4, D13, P7, P8, P12. Wait tolerates conflicts that
// end without a user's action. It neither waits for lasting conflicts, nor retries them like unknown ones.
func TestWhichConflictsPass(t *testing.T) {
	passing := []string{
		"[Cannot run VM: VM is locked. Please try again in a few minutes.]",
		"[Cannot remove VM: The following disks are locked: golden_Disk1. Please try again in a few minutes.]",
		"[Cannot add VM. Related operation is currently in progress. Please try again later.]",
		"[Cannot add VM. Template ${TemplateName} is being created.]",
		"[Cannot edit VM. VM is being updated.]",
		"[Cannot remove VM. VM is being updated.]",
		"[Cannot remove Template. Template ${TemplateName} is being created.]",
		"[Cannot transfer Virtual Disk. Disk rec-up2 is being transferred.]",
		"[Cannot remove Virtual Disk. Disk rec-up2 is being transferred.]",
		"[Cannot remove Template. This template is currently in use to create VM rec-of6., VM rec-of7.]",
		"[Cannot remove Template. The following Disk(s) are based on it: rec_Disk1.]",
		"[Cannot run VM because the VM is in Wait for Launch status.]",
		"[Cannot attach Virtual Disk because the VM is in Powering Up status.]",
		"[Cannot migrate VM. VM is hibernating.]",
		"[Cannot add VM. Unknown Data Center status.]",
	}
	lasting := []string{
		"[Cannot add VM. The VM name is already in use, please choose a unique name and try again.]",
		"[MAC Address 56:6f:1a:00:00:01 is already in use by VM or snapshot: x.]",
		"[Cannot remove VM. Delete protection is enabled. In order to delete, disable Delete protection first.]",
		"[Cannot remove Interface. The VM Network Interface is plugged to a running VM.]",
		"[Cannot add Virtual Disk. Low disk space on Storage Domain nfs-1.]",
		"[Cannot remove VNIC Profile. The following VMs are being used by it]",
	}

	fault := func(detail string) error {
		return &Fault{
			Method:     "POST",
			Path:       "/vms",
			StatusCode: http.StatusConflict,
			Reason:     "Operation Failed",
			Detail:     detail,
		}
	}
	for _, text := range passing {
		if err := fault(text); !IsTransient(err) {
			t.Errorf("%s is not waited out", text)
		}
	}

	for _, text := range lasting {
		if err := fault(text); IsTransient(err) {
			t.Errorf("%s is waited out", text)
		}
	}

	for _, text := range lasting[:len(lasting)-1] {
		if err := fault(text); isWorthRetrying(err) {
			t.Errorf("%s is tried again", text)
		}
	}
}
