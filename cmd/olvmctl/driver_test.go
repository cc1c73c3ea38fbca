package main

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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
)

// TestH4 asks which credentials of the engine every node of a cluster would get with the storage driver: not those that
// make and delete machines, unless somebody says so.
func TestH4(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

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
		user        string // in the environment
		password    string
		there       bool // the cluster has a Secret for the driver
		want        string
		problem     string
		early       bool // before anything is made
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
		},
		"with the user of the machines, as asked": {
			credentials: clusterfile.DriverMachines,
			want:        "admin@internal of-the-engine",
		},
		"without a password":   {user: "csi@internal", problem: "OLVM_CSI_PASSWORD"},
		"the cluster has them": {there: true, want: " "},
		"it is not wanted":     {install: ptr.To(false), user: "csi@internal", password: "p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OLVM_CSI_USERNAME", test.user)
			t.Setenv("OLVM_CSI_PASSWORD", test.password)
			var said bytes.Buffer
			o := &start{steps: steps{progress: &said}, kubeconfigOut: filepath.Join(t.TempDir(), "kubeconfig")}
			o.namespace, o.Client = "ocne", fake.NewClientBuilder().WithScheme(scheme).WithObjects(engine).Build()
			source := &clusterfile.Source{}
			source.Providers.OLVM.OvirtAPIServer.CredentialsSecret.Name = "creds"
			source.Providers.OLVM.CSIDriver.Install = test.install
			source.Providers.OLVM.CSIDriver.Credentials = test.credentials
			var objects []client.Object
			if test.there {
				objects = append(objects, drivers)
			}

			workload := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()

			early := o.checkDriver(readCluster{Source: source})
			found, err := o.storageDriver(t.Context(), readCluster{Source: source}, workload)
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

			if got, wanted := credentialsIn(found), test.want; got != wanted {
				t.Errorf("every node gets %q, want %q", got, wanted)
			}

			if test.want == "" && test.install == nil && !strings.Contains(said.String(), "left out") {
				t.Errorf("nobody is told: %q", said.String())
			}
		})
	}
}

// credentialsIn are the user and the password in the add-on; a space where it has none, and nothing where there is no
// add-on.
func credentialsIn(found []addOn) string {
	if len(found) == 0 {
		return ""
	}

	for _, object := range found[0].objects {
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
