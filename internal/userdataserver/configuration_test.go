package userdataserver

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// publish stores a configuration for the site's machine. It returns the pointer for the VM, and the VM's report.
func (s *site) publish(configuration string) (bootstrap.Pointer, Report) {
	s.t.Helper()
	var at bootstrap.Pointer
	report, err := s.PublishConfiguration(
		s.t.Context(),
		s.machine,
		[]byte(configuration),
		func(p bootstrap.Pointer) ([]byte, error) {
			at = p
			return []byte("#cloud-config\n# " + p.URL + " " + p.Token), nil
		},
	)
	check.Error(s.t, err, "")

	return at, report
}

// poll sends a VM's periodic request, with the VM's present configuration and the reason of a rejection.
func (s *site) poll(p bootstrap.Pointer, has, problem string) (int, string) {
	s.t.Helper()

	return s.request(p, http.Header{
		"If-None-Match":   {`"` + has + `"`},
		"Capolvm-Problem": {base64.StdEncoding.EncodeToString([]byte(problem))},
	})
}

func (s *site) configuration() *corev1.Secret {
	s.t.Helper()
	var out corev1.Secret
	check.Error(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "ns", Name: "m-support"}, &out), "")

	return &out
}

func TestAVMFollowsItsConfiguration(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	at, report := s.publish("one")
	check.Equal(t, "nothing is used yet", report.Current || report.Ever, false)

	code, body := s.poll(at, "", "")
	check.Equal(t, "the first answer", body, "one")
	check.Equal(t, "its status", code, http.StatusOK)
	code, _ = s.poll(at, hashToken("one"), "")
	check.Equal(t, "what it has already", code, http.StatusNotModified)
	again, report := s.publish("one")
	check.Equal(t, "the token stays", again.Token, at.Token)
	check.Equal(t, "it is used", report.Current && report.Ever, true)

	s.limits = newLimits() // as after a pause
	_, report = s.publish("two")
	check.Equal(t, "the next one is not", report.Current, false)
	code, body = s.poll(at, hashToken("one"), "line 3:\n  no such word")
	check.Equal(t, "what is new", body, "two")
	check.Equal(t, "its status", code, http.StatusOK)
	_, report = s.publish("two")
	check.Equal(t, "what the VM says", report.Problem, "line 3: no such word")
}

func TestAVMIsNotBelievedMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	at, _ := s.publish("one")
	wrong := at
	wrong.Token = strings.Repeat("A", len(at.Token))
	code, _ := s.poll(wrong, "", "")
	check.Equal(t, "another token", code, http.StatusForbidden)
	code, _ = s.poll(at, strings.Repeat("f", 100), "")
	check.Equal(t, "what is no hash", code, http.StatusForbidden)

	s.poll(at, "", strings.Repeat("x", 10_000))
	if told := s.configuration().Annotations[problemAnnotation]; len(told) > maxProblem || told == "" {
		t.Errorf("%d bytes were written down", len(told))
	}

	s.poll(at, hashToken("other"), "")
	check.Equal(t, "a report right after another", s.configuration().Annotations[appliedAnnotation], "")
}

// TestAConfigurationOfAnEarlierMachine verifies that a later machine with the same name gets its own token.
func TestAConfigurationOfAnEarlierMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, _ := s.publish("one")
	s.poll(first, hashToken("one"), "")
	s.machine = s.machine.DeepCopy()
	s.machine.UID = "another"
	second, report := s.publish("one")
	check.Equal(t, "the token is the same", second.Token == first.Token, false)
	check.Equal(t, "the earlier one's report counts", report.Ever, false)
	check.Equal(t, "its owner", metav1.IsControlledBy(s.configuration(), s.machine), true)
	code, _ := s.poll(first, "", "")
	check.Equal(t, "the earlier token", code, http.StatusForbidden)
}

// patching runs a function before each patch.
type patching struct {
	client.Client
	before func()
}

func (p patching) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	p.before()
	return p.Client.Patch(ctx, o, patch, opts...)
}

// TestAReportThatComesLateIsNotThatOfALaterMachine replaces the machine by another machine with the same name. This
// happens after the check of a VM's token, but before the record of its report.
func TestAReportThatComesLateIsNotThatOfALaterMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, _ := s.publish("one")
	late := false
	s.Server.client = patching{s.client, func() {
		if !late {
			late = true
			s.machine = s.machine.DeepCopy()
			s.machine.UID = "another"
			s.publish("one")
		}
	}}

	s.poll(first, hashToken("one"), "")
	check.Equal(t, "the report was late", late, true)
	_, report := s.publish("one")
	check.Equal(t, "the earlier one's report counts", report.Ever, false)
}

// TestAVMThatWasToldOfAnotherManager verifies that the VM's user data does not change, and that the report says the VM
// is stranded.
func TestAVMThatWasToldOfAnotherManager(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish("one")
	s.machine.Annotations = map[string]string{infrav1.CreateRequestedAnnotation: "m"}
	_, report := s.publish("two")
	check.Equal(t, "stranded", report.Stranded, false)
	told := string(s.configuration().Data[dataKey])

	s.url.Path = "/elsewhere"
	_, report = s.publish("two")
	check.Equal(t, "stranded", report.Stranded, true)
	check.Equal(t, "what the VM was told", string(s.configuration().Data[dataKey]), told)

	// A change of the user data would have no effect, because the VM has already read it.
	s.url.Path = "/below"
	report, err := s.PublishConfiguration(
		t.Context(),
		s.machine,
		[]byte("two"),
		func(bootstrap.Pointer) ([]byte, error) {
			return []byte("#cloud-config\n# of a later release"), nil
		},
	)
	check.Error(t, err, "")
	check.Equal(t, "stranded by another release", report.Stranded, false)

	// With the Secret, the VM's token is lost.
	check.Error(t, s.client.Delete(t.Context(), s.configuration()), "")
	_, report = s.publish("two")
	check.Equal(t, "stranded without the Secret", report.Stranded, true)
}

// TestATokenHolderIsLimited repeats a request with the same token.
func TestATokenHolderIsLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	at, _ := s.publish("one")

	limited := false

	for range vmAtOnce + 5 {
		code, _ := s.poll(at, "", "")
		limited = limited || code == http.StatusServiceUnavailable
	}

	check.Equal(t, "it is limited", limited, true)
	code, _ := s.poll(at, hashToken("one"), "")
	check.Equal(t, "what costs nothing is not", code, http.StatusNotModified)
}

func TestReportsAreWrittenDownNowAndThen(t *testing.T) {
	t.Parallel()
	r := newLimits().reports
	vm, now := client.ObjectKey{Name: "vm"}, time.Now()
	check.Equal(t, "first", r.allowClient(vm, now), true)
	check.Equal(t, "at once", r.allowClient(vm, now.Add(time.Second)), false)
	check.Equal(t, "another", r.allowClient(client.ObjectKey{Name: "other"}, now.Add(time.Second)), true)
	check.Equal(t, "later", r.allowClient(vm, now.Add(reportPause+1)), true)
}
