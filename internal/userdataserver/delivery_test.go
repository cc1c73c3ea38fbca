package userdataserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/servingcert"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

var authorityKey = client.ObjectKey{Namespace: "capolvm-system", Name: "authority"}

// site is a running server and a machine.
type site struct {
	*Server
	t       *testing.T
	client  client.Client
	machine *infrav1.OLVMMachine
}

func newSite(t *testing.T) *site {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}

	m := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "uid"}}
	s := &site{t: t, machine: m, client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).Build()}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	s.Server, err = New(t.Context(), Options{
		Client:    s.client,
		Metadata:  s.client,
		Recorder:  events.NewFakeRecorder(10),
		URL:       "https://" + listener.Addr().String() + "/below",
		Authority: authorityKey,
		Lifetime:  time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.NewRunnable(listener).Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	return s
}

func (s *site) offer(data string) bootstrap.Pointer {
	s.t.Helper()
	pointer, err := s.OfferUserData(s.t.Context(), s.machine, []byte(data))
	if err != nil {
		s.t.Fatal(err)
	}

	return pointer
}

// fetch uses a pointer in the way of a VM.
func (s *site) fetch(p bootstrap.Pointer) (int, string) {
	s.t.Helper()

	return s.request(p, http.Header{})
}

// request is like fetch with additional headers.
func (s *site) request(p bootstrap.Pointer, headers http.Header) (int, string) {
	s.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CA)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, p.URL, nil)
	if err != nil {
		s.t.Fatal(err)
	}

	request.Header = headers
	request.Header.Set("Authorization", "Bearer "+p.Token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}

	return response.StatusCode, string(body)
}

func (s *site) secret() *corev1.Secret {
	s.t.Helper()
	var out corev1.Secret
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "ns", Name: "m-user-data"}, &out); err != nil {
		s.t.Fatal(err)
	}

	return &out
}

func TestAPointerIsGoodForOneVM(t *testing.T) {
	s := newSite(t)
	first := s.offer("data")
	if again := s.offer("data"); again.Token != first.Token || again.URL != first.URL {
		t.Errorf("the same data has another pointer: %+v, %+v", first, again)
	}

	guessed := first
	guessed.Token = strings.Repeat("A", len(first.Token))
	if code, body := s.fetch(guessed); code != http.StatusForbidden || strings.Contains(body, "token") {
		t.Errorf("a token that is guessed: %d %s", code, body)
	}

	none := first
	none.URL += "x"
	if code, _ := s.fetch(none); code != http.StatusForbidden {
		t.Errorf("a machine that is none: %d", code)
	}

	changed := s.offer(strings.Repeat("other data\n", 50000))
	if changed.Token != first.Token {
		t.Error("other data has another token: a VM that is made just now could not use it")
	}

	if code, body := s.fetch(changed); code != http.StatusOK || body != strings.Repeat("other data\n", 50000) {
		t.Fatalf("the VM gets %d with %d bytes", code, len(body))
	}

	// The VM has its data before the server knows that the transfer is complete.
	wait.For(t, "what was delivered is dropped", func() error {
		if keys := len(s.secret().Data); keys > 0 {
			return fmt.Errorf("%d keys are kept", keys)
		}

		return nil
	})
	check.Contains(t, "who got it", s.secret().Annotations[deliveredAnnotation], " 127.0.0.1:")

	if code, _ := s.fetch(changed); code != http.StatusForbidden {
		t.Errorf("the second one gets %d", code)
	}

	if next := s.offer("data"); next.Token == first.Token {
		t.Error("a VM that is made anew has the old token")
	} else if code, body := s.fetch(next); code != http.StatusOK || body != "data" {
		t.Errorf("a VM that is made anew gets %d %s", code, body)
	}
}

func TestATokenExpires(t *testing.T) {
	s := newSite(t)
	p := s.offer("data")
	secret := s.secret()
	secret.Annotations[expiresAnnotation] = time.Now().Add(-time.Second).Format(time.RFC3339)
	if err := s.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}

	if code, _ := s.fetch(p); code != http.StatusForbidden {
		t.Errorf("an old token: %d", code)
	}

	if again := s.offer("data"); again.Token != p.Token { // the VM may be created only now
		t.Error("the token is another")
	}

	if code, _ := s.fetch(p); code != http.StatusOK {
		t.Errorf("a token that was renewed: %d", code)
	}
}

// broken is a connection that fails while the server writes the response.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func TestAVMThatIsCutOffMayAskAgain(t *testing.T) {
	s := newSite(t)
	p := s.offer("data")
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, p.URL, nil)
	request.SetPathValue("namespace", "ns")
	request.SetPathValue("name", "m")
	request.Header.Set("Authorization", "Bearer "+p.Token)
	s.ServeHTTP(broken{httptest.NewRecorder()}, request)
	if code, body := s.fetch(p); code != http.StatusOK || body != "data" {
		t.Errorf("%d %s", code, body)
	}
}

func TestASecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	s := newSite(t)
	err := s.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-user-data"},
		Data:       map[string][]byte{tokenKey: []byte("mine")},
	})
	if err != nil {
		t.Fatal(err)
	}

	p := bootstrap.Pointer{URL: s.url.JoinPath("v1/user-data/ns/m").String(), Token: "mine", CA: s.authority.PEM}
	if code, _ := s.fetch(p); code != http.StatusForbidden {
		t.Errorf("it is served: %d", code)
	}

	_, err = s.OfferUserData(t.Context(), s.machine, []byte("data"))
	if err == nil || !strings.Contains(err.Error(), "is not of this machine") {
		t.Errorf("it is overwritten: %v", err)
	}
}

func TestReplicasHaveOneAuthority(t *testing.T) {
	s := newSite(t)
	other, err := New(t.Context(), Options{
		Client:    s.client,
		URL:       "https://[fd00::5]:9445",
		Authority: authorityKey,
		Lifetime:  time.Hour,
	})
	if err != nil || string(other.authority.PEM) != string(s.authority.PEM) {
		t.Fatalf("another authority: %v", err)
	}

	first, err := other.authority.getCertificate(nil)
	if err != nil || first.Leaf.VerifyHostname("fd00::5") != nil {
		t.Errorf("the certificate: %v", err)
	}

	first.Leaf.NotAfter = time.Now().Add(servingcert.Lifetime / 4)
	if second, err := other.authority.getCertificate(nil); err != nil || second == first {
		t.Errorf("it is not renewed: %v", err)
	}

	for _, url := range []string{"", "http://10.0.0.1", "10.0.0.1:9445", "https://", "https://u:p@10.0.0.1"} {
		if _, err := New(t.Context(), Options{Client: s.client, URL: url, Authority: authorityKey}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}

	var secret corev1.Secret
	if err := s.client.Get(t.Context(), authorityKey, &secret); apierrors.IsNotFound(err) || err != nil {
		t.Fatal(err)
	}

	secret.Data[corev1.TLSPrivateKeyKey] = []byte("none")
	if err := s.client.Update(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}

	_, err = New(t.Context(), Options{Client: s.client, URL: "https://10.0.0.1", Authority: authorityKey})
	if err == nil || !strings.Contains(err.Error(), "delete it to have a new one") {
		t.Errorf("an authority that is spoilt: %v", err)
	}
}

// TestAHundredMachinesJoinHoweverLongTheyWait simulates a queue of 100 VMs with copied disks. Each copy takes two
// minutes, and four VMs are created at once. All machines get their pointers when their runs are submitted.
func TestAHundredMachinesJoinHoweverLongTheyWait(t *testing.T) {
	const machines, atOnce, copying = 100, 4, 2 * time.Minute

	for renewed, joins := range map[bool]int{true: machines, false: 88} { // those of the first 44 minutes
		s := newSite(t)
		s.lifetime = 45 * time.Minute
		begin := time.Now()
		now := begin
		s.now = func() time.Time { return now }

		var pointers []bootstrap.Pointer

		for i := range machines {
			s.machine = &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprintf("m%d", i), UID: "uid",
			}}
			pointers = append(pointers, s.offer("data"))
		}

		joined := 0

		for i, p := range pointers {
			now = begin.Add(time.Duration(i/atOnce) * copying)
			if renewed {
				check.Error(
					t, s.RenewPointer(t.Context(), client.ObjectKey{Namespace: "ns", Name: fmt.Sprintf("m%d", i)}), "",
				)
			}

			now = now.Add(copying)
			if code, _ := s.fetch(p); code == http.StatusOK {
				joined++
			}
		}

		check.Equal(t, fmt.Sprintf("machines that join, renewed %t", renewed), joined, joins)
	}
}

// TestAPointerThatWasUsedIsNotRenewed verifies that a delivery ends a pointer for good.
func TestAPointerThatWasUsedIsNotRenewed(t *testing.T) {
	s := newSite(t)
	check.Error(t, s.RenewPointer(t.Context(), client.ObjectKeyFromObject(s.machine)), "") // no user data was offered
	p := s.offer("data")
	code, _ := s.fetch(p)
	check.Equal(t, "the first one", code, http.StatusOK)
	check.Error(t, s.RenewPointer(t.Context(), client.ObjectKeyFromObject(s.machine)), "")
	code, _ = s.fetch(p)
	check.Equal(t, "the second one", code, http.StatusForbidden)
}
