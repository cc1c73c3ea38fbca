package engine

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestErrorsOfTheEngineItself sends a create and looks at what comes back: whether it may have been done all the same, and
// whether it is worth another try.
func TestErrorsOfTheEngineItself(t *testing.T) {
	tests := map[string]struct {
		status          int
		media, body     string
		lost, transient bool
		text            string
	}{
		"a validation that failed with a 500": {
			500, "application/xml", `<fault><detail>[General command validation failure.]</detail><reason>Operation Failed</reason></fault>`,
			false, false, "General command validation failure",
		},
		"an exception": {
			500, "application/xml", `<fault><detail>java.lang.NullPointerException</detail><reason>Operation Failed</reason></fault>`,
			true, true, "NullPointerException",
		},
		"an exception as a page": {
			500, "text/html;charset=UTF-8", `<html><head><title>Error</title></head><body>Internal Server Error</body></html>`,
			true, true, "engine refused POST /vms (HTTP 500): Internal Server Error",
		},
		"a page of a proxy": {
			503, "text/html", `<html><body>Service Unavailable</body></html>`,
			true, true, "something before the engine",
		},
		"a refusal": {
			409, "application/xml", `<fault><detail>[Cannot add VM. The VM name is already in use.]</detail><reason>Operation Failed</reason></fault>`,
			false, false, "already in use",
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
				return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
			})

			_, err = c.CreateVM(t.Context(), &VM{Name: "a"}, nil)
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("the error is %v, want %q", err, test.text)
			}
			if AnswerLost(err) != test.lost || IsTransient(err) != test.transient {
				t.Errorf("%v: lost %t, transient %t", err, AnswerLost(err), IsTransient(err))
			}
		})
	}
}

// TestAConflictOfUnknownWordsIsTriedAgain has an engine that refuses for a while in words that nobody has seen, and one that
// refuses in words that stay.
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
		return false, "", refuse("[Cannot add VM. The VM name is already in use, please choose a unique name and try again.]")
	}, nil)
	if !IsConflict(err) || looks != 1 {
		t.Errorf("%v after %d looks", err, looks)
	}
}
