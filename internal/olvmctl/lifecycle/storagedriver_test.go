package lifecycle

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// TestTheStorageDriverGetsItsOwnCredentials (row H4 of docs/operate/security.md) checks the storage driver's
// credentials, because every node of a cluster gets them. They must not be those for creating and deleting machines,
// unless the cluster file says so.
func TestTheStorageDriverGetsItsOwnCredentials(t *testing.T) {
	engine := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ocne", Name: "creds"},
		Data:       map[string][]byte{"username": []byte("admin@internal"), "password": []byte("of-the-engine")},
	}
	drivers := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ovirt-csi", Name: "ovirt-csi-creds"},
		Data:       map[string][]byte{"ovirt_password": []byte("its-own")},
	}

	for name, test := range map[string]struct {
		install     *bool
		credentials string
		user        string // given by the user
		password    string
		there       bool // the cluster has a Secret for the driver
		want        string
		problem     string
		early       bool // before creating anything
	}{
		"nothing is said": {},
		"it is asked for": {
			install: ptr.To(true),
			problem: "OLVM_CSI_USERNAME and OLVM_CSI_PASSWORD",
			early:   true,
		},
		"with a user of its own": {user: "csi@internal", password: "p", want: "csi@internal p"},
		"with the user of the machines": {
			user:     "admin@internal",
			password: "of-the-engine",
			problem:  "is the user of the machines",
			early:    true,
		},
		"with the user of the machines, as asked": {
			credentials: clusterfile.DriverMachines,
			want:        "admin@internal of-the-engine",
		},
		"without a password":   {user: "csi@internal", problem: "OLVM_CSI_PASSWORD", early: true},
		"the cluster has them": {there: true, want: " "},
		"it is not wanted":     {install: ptr.To(false), user: "csi@internal", password: "p"},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			c := &creation{management: &management{}, workload: &management{}}
			c.Display, c.KubeconfigOut = progress.NewDisplay(&said), filepath.Join(t.TempDir(), "kubeconfig")
			o := &OLVM{
				Engine:        preview.Credentials{Username: "admin@internal", Password: "of-the-engine"},
				StorageDriver: Login{Username: test.user, Password: test.password},
			}
			c.management.Cluster = clusterWith(t, engine)
			c.workload.Cluster = clusterWith(t)
			if test.there {
				c.workload.Cluster = clusterWith(t, drivers)
			}

			c.Management.Namespace, c.File.Source = "ocne", &clusterfile.Source{}
			olvm := &c.File.Providers.OLVM
			olvm.OvirtAPIServer.CredentialsSecret.Name = "creds"
			olvm.CSIDriver.Install, olvm.CSIDriver.Credentials = test.install, test.credentials

			early := o.checkStorageDriver(c)
			err := o.findStorageDriver(t.Context(), c)
			if (early != nil) != test.early {
				t.Errorf("at the beginning: %v", early)
			}

			if test.problem != "" {
				if err := errors.Join(early, err); err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got %v, want %q", err, test.problem)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			if got, wanted := credentialsIn(o.driver), test.want; got != wanted {
				t.Errorf("every node gets %q, want %q", got, wanted)
			}

			if test.want == "" && test.install == nil && !strings.Contains(said.String(), "skipping the oVirt CSI "+
				"driver") {
				t.Errorf("it is left out without a word: %q", said.String())
			}
		})
	}
}

// clusterWith returns a cluster with these objects.
func clusterWith(t *testing.T, objects ...client.Object) *mgmtcluster.Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		controlplanev1.AddToScheme(scheme), api.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}

	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()

	return &mgmtcluster.Cluster{Client: c, Namespace: "ocne"}
}

// credentialsIn returns the user and the password in the add-on. It returns a space if the add-on has no credentials,
// and "" without an add-on.
func credentialsIn(driver *addon.AddOn) string {
	if driver == nil {
		return ""
	}

	for _, object := range driver.Objects() {
		if object.GetKind() == "Secret" {
			var secret corev1.Secret
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &secret); err != nil {
				return err.Error()
			}

			return string(secret.Data["ovirt_username"]) + " " + string(secret.Data["ovirt_password"])
		}
	}

	return " "
}
