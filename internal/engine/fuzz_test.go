package engine

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

type answer func(*http.Request) *http.Response

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// FuzzAnswer checks that no answer of an engine confuses the client. Each call returns an error of the package, or the
// readable part.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`<vms><vm id="11111111-1111-4111-8111-111111111111"><name>a</name><status>up</status><nics/><cpu><topology><cores>x</cores></topology></cpu><start_time>yesterday</start_time></vm></vms>`,
		`<vms><vm/></vms>`, `<fault><reason>r</reason><detail>d</detail></fault>`,
		`<action><fault><reason>r</reason></fault></action>`, `<html><body>502</body></html>`, `{"vm":[]}`, `<vms><vm`,
		"",
		`<reported_devices><reported_device><ips><ip><address>fe80::1%eth0</address></ip><ip><address>300.1.1.1</address></ip></ips></reported_device></reported_devices>`,
		`<disks><disk id="11111111-1111-4111-8111-111111111111"><provisioned_size>-1</provisioned_size><storage_domains><storage_domain/></storage_domains></disk></disks>`,
		`<data_centers><data_center id="11111111-1111-4111-8111-111111111111"><name>Default</name></data_center></data_centers>`,
		`<api><product_info><version><major>four</major></version></product_info></api>`,
	} {
		for _, status := range []int{200, 404, 409, 500} {
			f.Add(status, "application/xml", seed)
		}
	}

	f.Add(200, "text/html", "<html/>")
	f.Fuzz(func(t *testing.T, status int, media, body string) {
		if status < 200 || status > 599 || status >= 300 && status < 400 {
			return // the transport handles this
		}

		c, err := New(Config{URL: "https://engine.example.com", Username: "u", Password: "p"})
		if err != nil {
			t.Fatal(err)
		}

		c.http.Transport = answer(func(r *http.Request) *http.Response {
			response := &http.Response{
				StatusCode: status,
				Header:     http.Header{"Content-Type": {media}},
				Body:       io.NopCloser(strings.NewReader(body)),
				Request:    r,
			}
			if strings.HasSuffix(r.URL.Path, "/token") {
				response.StatusCode, response.Body = http.StatusOK, io.NopCloser(
					bytes.NewReader([]byte(`{"access_token":"t"}`)),
				)
			}

			return response
		})
		ctx := t.Context()
		dc := &DataCenter{ID: "11111111-1111-4111-8111-111111111111"}

		for name, call := range map[string]func() error{
			"VM":       func() error { _, err := c.FetchVM(ctx, "1"); return err },
			"VMs":      func() error { _, err := c.ListVMs(ctx); return err },
			"guests":   func() error { _, err := c.ListAllGuestInterfaces(ctx); return err },
			"find":     func() error { _, err := c.FindVM(ctx, &DataCenter{ID: "x"}, "a"); return err },
			"disks":    func() error { _, err := c.FindDisks(ctx, nil, "a"); return err },
			"attached": func() error { _, err := c.ListDiskAttachments(ctx, "1"); return err },
			"NICs":     func() error { _, err := c.ListNICs(ctx, "1"); return err },
			"groups":   func() error { _, err := c.ListAffinityGroups(ctx, "1"); return err },
			"cluster":  func() error { _, err := c.FindCluster(ctx, dc, "a"); return err },
			"product":  func() error { _, err := c.FetchProduct(ctx); return err },
		} {
			err := call()
			var fault *Fault
			var away *UnreachableError
			var unknown *NameError
			if err != nil && !errors.As(err, &fault) && !errors.As(err, &away) && !errors.As(err, &unknown) {
				t.Errorf("%s: an error of no kind: %T %v", name, err, err)
			}
		}
	})
}
