package security

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// liar returns a gate that rewrites the engine's reports of guests. Each report then also claims these addresses.
func liar(claims ...string) func(http.Handler) http.Handler {
	var more strings.Builder
	for _, claim := range claims {
		fmt.Fprintf(&more, "<ip><address>%s</address><version>v4</version></ip>", claim)
	}

	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ofOne := strings.HasSuffix(r.URL.Path, "/reporteddevices")
			if !ofOne && r.URL.Query().Get("follow") != "reported_devices" {
				next.ServeHTTP(w, r)
				return
			}

			truth := httptest.NewRecorder()
			next.ServeHTTP(truth, r)

			for name, values := range truth.Header() {
				if name != "Content-Length" {
					w.Header()[name] = values
				}
			}

			w.WriteHeader(truth.Code)
			_, _ = w.Write(bytes.ReplaceAll(truth.Body.Bytes(), []byte("</ips>"), []byte(more.String()+"</ips>")))
		})
	}
}

// requestFor returns the request of a node's kubelet for a serving certificate with the given address.
func requestFor(t *testing.T, node, address string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames:    []string{node},
		IPAddresses: []net.IP{net.ParseIP(address)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}

	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
}

// TestAGuestGetsNoCertificatesForOtherAddresses (row H2 of docs/operate/security.md) uses a guest with an address from
// a DHCP server. The guest also reports the addresses of the Service "kubernetes" and of another machine. The guest's
// kubelet requests serving certificates for these addresses. In this test, the API server is its own workload cluster.
func TestAGuestGetsNoCertificatesForOtherAddresses(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	inventory.DataCenters[0].Networks = append(inventory.DataCenters[0].Networks, ovirtsim.Network{
		Name:         "dynamic",
		VNICProfiles: []string{"dynamic"},
		DHCP:         &ovirtsim.DHCP{First: "10.50.0.10", Last: "10.50.0.99", Bits: 24, Gateway: "10.50.0.1"},
	})
	s := testsite.New(t, suite.API.Client, testsite.Options{Inventory: inventory, Gate: liar("10.96.0.1", "10.0.0.10")})
	admin, err := suite.API.Env.AddUser(envtest.User{Name: "kubernetes-admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}

	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}

	s.UseEndpoint("https://" + strings.TrimPrefix(suite.API.Config.Host, "https://"))
	s.Create(&corev1.Secret{
		ObjectMeta: s.NewMeta("demo-kubeconfig"),
		Type:       "cluster.x-k8s.io/secret",
		Data:       map[string][]byte{"value": kubeconfig},
	})
	s.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	})
	m := start(t, s, "")
	victim := s.CreateMachine("victim", nil)
	guest := s.CreateMachine("guest", func(spec *infrav1.OLVMMachineSpec) {
		spec.OLVMNetwork = infrav1.OLVMNetwork{NetworkName: "dynamic", VNICProfileName: "dynamic"}
		spec.VirtualMachine.Network = infrav1.GuestNetwork{
			Addressing: infrav1.Addressing{IPv4: &infrav1.IPv4Network{DHCP: true}},
		}
	})
	s.ExpectProvisioned(victim)
	s.ExpectProvisioned(guest)
	own := ""

	for _, address := range guest.Status.Addresses {
		if strings.HasPrefix(address.Address, "10.50.") {
			own = address.Address
		}
	}

	if len(guest.Status.Addresses) < 4 || own == "" {
		t.Fatalf("the guest has the addresses %v, and was to claim more", guest.Status.Addresses)
	}

	config := rest.CopyConfig(suite.API.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:guest",
		Groups:   []string{"system:nodes", "system:authenticated"},
	}
	kubelet, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	stolen := []string{"10.96.0.1", "10.0.0.10"}

	requests := map[string]*certificatesv1.CertificateSigningRequest{}
	for _, address := range append(stolen, own) {
		requests[address] = requestFor(t, "guest", address)
		if err := kubelet.Create(t.Context(), requests[address]); err != nil {
			t.Fatal(err)
		}
	}

	approved := func(address string) bool {
		csr := requests[address]
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
			t.Fatal(err)
		}

		return len(csr.Status.Conditions) > 0
	}
	s.Eventually("the request for the guest's own address is approved", func() error {
		if !approved(own) {
			return errors.New("it is not")
		}

		return nil
	})
	s.Eventually("both others are told of", func() error {
		log, err := os.ReadFile(m.Process.LogFile)
		if err == nil && (!strings.Contains(string(log),
			"of the Cluster's Services") || !strings.Contains(string(log), "also an address of OLVMMachine victim")) {
			err = errors.New("the log has no word of it")
		}

		return err
	})

	for _, address := range stolen {
		if approved(address) {
			t.Errorf("the guest got a certificate for %s", address)
		}
	}
}
