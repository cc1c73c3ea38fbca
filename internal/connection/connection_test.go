package connection_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// certificate returns a certificate in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	served := httptest.NewTLSServer(nil)
	served.Close()

	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw}))
}

// world is an OLVMCluster of namespace team-a, and the objects of its connection.
type world struct {
	cluster *infrav1.OLVMCluster
	objects connection.Objects
}

// server returns the cluster's settings for its engine.
func (w *world) server() *infrav1.OvirtAPIServer { return &w.cluster.Spec.OLVMOvirtAPIServer }

// worldOfOwn returns a world with a Secret and a ConfigMap in the cluster's own namespace.
func worldOfOwn(ca string) *world {
	w := &world{cluster: &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c"}}}
	*w.server() = infrav1.OvirtAPIServer{
		ServerURL:         server,
		CredentialsSecret: infrav1.NamespacedName{Name: "login"},
		CAConfigMap:       &infrav1.NamespacedName{Name: "ca"},
	}
	w.objects.Secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "login"},
		Data: map[string][]byte{
			"username": []byte("admin@internal"), "password": []byte("p\r\n"),
			infrav1.AllowedServerURLsKey: []byte("https://other.example.com,\n" + server),
		},
	}
	w.objects.CA = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "ca"},
		Data:       map[string]string{"ca.crt": ca},
	}

	return w
}

// worldOfVault returns a world with both in namespace vault, shared by annotations.
func worldOfVault(ca string) *world {
	w := worldOfOwn(ca)
	w.server().CredentialsSecret.Namespace, w.server().CAConfigMap.Namespace = "vault", "vault"

	for _, object := range []metav1.Object{w.objects.Secret, w.objects.CA} {
		object.SetNamespace("vault")
		object.SetAnnotations(map[string]string{infrav1.AllowedNamespacesAnnotation: "team-b, team-a"})
	}

	return w
}

// worldOfIdentity returns a world with both in namespace vault, used through an identity.
func worldOfIdentity(ca string) *world {
	w := worldOfVault(ca)
	w.objects.Secret.Annotations, w.objects.CA.Annotations = nil, nil
	delete(w.objects.Secret.Data, infrav1.AllowedServerURLsKey)
	*w.server() = infrav1.OvirtAPIServer{
		ServerURL: server, IdentityRef: &infrav1.OLVMClusterIdentityReference{Name: "production"},
	}
	w.objects.Identity = identity(&infrav1alpha1.AllowedNamespaces{List: []string{"team-a"}})
	w.objects.Identity.Spec.CAConfigMap = &infrav1alpha1.ObjectOfNamespace{Namespace: "vault", Name: "ca"}

	return w
}

func TestTheConnectionToAnEngine(t *testing.T) {
	ca := certificate(t)

	tests := map[string]struct {
		world  func(ca string) *world
		change func(*world)
		want   engine.Config
	}{
		"a Secret and a CA of its own": {
			worldOfOwn, func(*world) {},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte(ca)},
		},
		"those of another namespace that shares them": {
			worldOfVault, func(*world) {},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte(ca)},
		},
		"those of an identity": {
			worldOfIdentity, func(*world) {},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte(ca)},
		},
		"without a CA the system's are trusted": {
			worldOfOwn, func(w *world) { w.server().CAConfigMap = nil },
			engine.Config{URL: server, Username: "admin@internal", Password: "p"},
		},
		"an identity without a CA": {
			worldOfIdentity, func(w *world) { w.objects.Identity.Spec.CAConfigMap, w.objects.CA = nil, nil },
			engine.Config{URL: server, Username: "admin@internal", Password: "p"},
		},
		"credentials of another namespace, and no CA": {
			worldOfVault, func(w *world) { w.server().CAConfigMap = nil },
			engine.Config{URL: server, Username: "admin@internal", Password: "p"},
		},
		"without verification no CA is used": {
			worldOfOwn, func(w *world) { w.server().InsecureSkipTLSVerify = true },
			engine.Config{URL: server, Username: "admin@internal", Password: "p", Insecure: true},
		},
		"several certificates, in the order of their keys": {
			worldOfOwn, func(w *world) {
				w.objects.CA.Data = map[string]string{"ca.crt1": "\n" + ca + "\n\n", "ca.crt": "first\n"}
			},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte("first\n" + ca)},
		},
		"the keys of OpenShift": {
			worldOfOwn, func(w *world) {
				w.objects.Secret.Data = map[string][]byte{
					"username": []byte("\n"), "ovirt_username": []byte("o"), "ovirt_password": []byte("q"),
					"ovirt_url": []byte(server + "/api"),
				}
			},
			engine.Config{URL: server, Username: "o", Password: "q", CA: []byte(ca)},
		},
		"the CA of OpenShift's Secret": {
			worldOfOwn, func(w *world) {
				w.server().CAConfigMap = nil
				w.objects.Secret.Data["ovirt_insecure"] = []byte("False")
				w.objects.Secret.Data["ovirt_cafile"] = []byte("")
				w.objects.Secret.Data["ovirt_ca_bundle"] = []byte("\n" + ca + "\n\n")
			},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte(ca)},
		},
		"no verification, of which Secret and cluster say the same": {
			worldOfOwn, func(w *world) {
				w.server().InsecureSkipTLSVerify = true
				w.objects.Secret.StringData = map[string]string{"ovirt_insecure": "true"}
			},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", Insecure: true},
		},
		"a Secret that names no engine, if the manager allows that": {
			worldOfOwn, func(w *world) {
				delete(w.objects.Secret.Data, infrav1.AllowedServerURLsKey)
				w.objects.AllowAnyEngine = true
			},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte(ca)},
		},
		"one of several URLs, in another case and with the API": {
			worldOfOwn, func(w *world) {
				w.objects.Secret.Data[infrav1.AllowedServerURLsKey] = []byte(
					"https://other.example.com/ovirt-engine, https://ENGINE.example.com/ovirt-engine/api/")
			},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte(ca)},
		},
		"objects of a command line have no namespace and need no consent": {
			worldOfVault, func(w *world) {
				w.objects.Secret.Namespace, w.objects.Secret.Annotations = "", nil
				w.objects.CA.Namespace, w.objects.CA.Annotations = "", nil
				delete(w.objects.Secret.Data, infrav1.AllowedServerURLsKey)
				w.server().CAConfigMap.Namespace = "elsewhere"
			},
			engine.Config{URL: server, Username: "admin@internal", Password: "p", CA: []byte(ca)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := test.world(ca)
			test.change(w)
			got, err := connection.BuildConfig(connection.ClusterEngine(w.cluster), w.objects)
			check.Error(t, err, "")
			check.Equal(t, "connection", got, test.want)
		})
	}
}

// TestAConnectionThatIsRefused makes mistakes that a user must correct. It checks the reason of the condition, the
// field, and the remedy.
func TestAConnectionThatIsRefused(t *testing.T) {
	const (
		prefix   = "spec.olvmOvirtAPIServer."
		secret   = prefix + "credentialsSecret"
		bundle   = prefix + "caConfigMap"
		ref      = prefix + "identityRef"
		notFound = infrav1.CredentialsNotFoundReason
		notMine  = infrav1.CredentialsNotAllowedReason
		badCA    = infrav1.CAConfigMapInvalidReason
	)

	tests := map[string]struct {
		world                  func(ca string) *world
		change                 func(*world)
		reason, field, message string
	}{
		"a URL that is none": {
			worldOfOwn, func(w *world) { w.server().ServerURL = "http://engine" },
			infrav1.EngineUnreachableReason, prefix + "serverURL", "must begin with https://",
		},
		"no Secret": {
			worldOfOwn, func(w *world) { w.objects.Secret = nil },
			notFound, secret, `Secret "login" does not exist; create it with the keys username and password`,
		},
		"no Secret of another namespace: the same as if it were not shared": {
			worldOfVault, func(w *world) { w.objects.Secret = nil },
			notMine, secret, `Secret vault/login does not exist, or does not allow namespace "team-a"; its owner can`,
		},
		"a Secret of another namespace that is not shared": {
			worldOfVault, func(w *world) { w.objects.Secret.Annotations = nil },
			notMine, secret, `Secret vault/login does not exist, or does not allow namespace "team-a"; its owner can`,
		},
		"a Secret for another engine": {
			worldOfOwn, func(w *world) { w.server().ServerURL = "https://evil.example.com" },
			infrav1.EngineNotAllowedReason, secret,
			`Secret "login" does not allow the URL https://evil.example.com/ovirt-engine;`,
		},
		"a Secret for another path of the engine": {
			worldOfOwn, func(w *world) { w.server().ServerURL = "https://engine.example.com/else" },
			infrav1.EngineNotAllowedReason, secret, "https://engine.example.com/else",
		},
		"a Secret for another port of the engine": {
			worldOfOwn, func(w *world) { w.server().ServerURL = "https://engine.example.com:8443/ovirt-engine" },
			infrav1.EngineNotAllowedReason, secret, "https://engine.example.com:8443/ovirt-engine",
		},
		"a Secret that names another engine, though the manager allows those that name none": {
			worldOfOwn, func(w *world) {
				w.server().ServerURL = "https://evil.example.com"
				w.objects.AllowAnyEngine = true
			},
			infrav1.EngineNotAllowedReason, secret, "https://evil.example.com",
		},
		"a Secret that names no engine": {
			worldOfOwn, func(w *world) { delete(w.objects.Secret.Data, infrav1.AllowedServerURLsKey) },
			infrav1.EngineNotAllowedReason, secret, "its owner can add the URL to the key allowedServerURLs",
		},
		"a Secret whose list of engines was emptied, though the manager allows those that name none": {
			worldOfOwn, func(w *world) {
				w.objects.Secret.Data[infrav1.AllowedServerURLsKey] = []byte(" \n")
				w.objects.AllowAnyEngine = true
			},
			infrav1.EngineNotAllowedReason, secret, "its owner can add the URL to the key allowedServerURLs",
		},
		"an identity whose list of engines was emptied": {
			worldOfIdentity, func(w *world) {
				w.objects.Identity.Spec.AllowedServerURLs = []string{}
				w.objects.AllowAnyEngine = true
			},
			infrav1.EngineNotAllowedReason, ref, "can add the URL to its allowedServerURLs",
		},
		"an identity whose namespaces were emptied": {
			worldOfIdentity, func(w *world) {
				w.objects.Identity.Spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{List: []string{}}
			},
			infrav1.CredentialsNotAllowedReason, ref, "add the namespace to its allowedNamespaces",
		},
		"a Secret without a user name": {
			worldOfOwn, func(w *world) { delete(w.objects.Secret.Data, "username") },
			notFound, secret, `Secret "login" has no key username; add it`,
		},
		"a Secret without either": {
			worldOfOwn, func(w *world) {
				delete(w.objects.Secret.Data, "username")
				w.objects.Secret.Data["password"] = []byte("\n")
			},
			notFound, secret, `Secret "login" has no key username and no key password; add it`,
		},
		"a Secret of an identity without a password": {
			worldOfIdentity, func(w *world) { delete(w.objects.Secret.Data, "password") },
			notFound, ref + " (OLVMClusterIdentity production)", `Secret "login" has no key password; add it`,
		},
		"credentials of another namespace and no verification": {
			worldOfVault, func(w *world) { w.server().InsecureSkipTLSVerify = true },
			notMine, prefix + "insecureSkipTLSVerify", "require a verified certificate; remove insecureSkipTLSVerify",
		},
		"credentials of another namespace and a CA of one's own": {
			worldOfVault, func(w *world) { w.server().CAConfigMap.Namespace = "" },
			badCA, bundle, "with credentials of namespace vault, the CA must be a ConfigMap of the same namespace",
		},
		"no ConfigMap": {
			worldOfOwn, func(w *world) { w.objects.CA = nil },
			badCA, bundle, `ConfigMap "ca" does not exist; create it with the engine's CA certificate`,
		},
		"no ConfigMap of another namespace: the same as if it were not shared": {
			worldOfVault, func(w *world) { w.objects.CA = nil },
			badCA, bundle, `ConfigMap vault/ca does not exist, or does not allow namespace "team-a"; its owner can`,
		},
		"a ConfigMap of another namespace that is not shared": {
			worldOfVault, func(w *world) { w.objects.CA.Annotations = nil },
			badCA, bundle, `ConfigMap vault/ca does not exist, or does not allow namespace "team-a"; its owner can`,
		},
		"a ConfigMap without a certificate": {
			worldOfOwn, func(w *world) { w.objects.CA.Data = map[string]string{"ca.crt": "none"} },
			badCA, bundle, `ConfigMap "ca" is invalid: the CA holds no PEM certificate; put the engine's CA`,
		},
		"a ConfigMap of an identity without a certificate": {
			worldOfIdentity, func(w *world) { w.objects.CA.Data = map[string]string{"ca.crt": "none"} },
			badCA, ref + " (OLVMClusterIdentity production)", `ConfigMap "ca" is invalid`,
		},
		"a Secret that turns the verification off": {
			worldOfOwn, func(w *world) { w.objects.Secret.Data["ovirt_insecure"] = []byte("yes\n") },
			notMine, secret, `key ovirt_insecure of Secret "login": a Secret cannot turn off the verification of`,
		},
		"a Secret whose verification is neither on nor off": {
			worldOfOwn, func(w *world) { w.objects.Secret.Data["ovirt_insecure"] = []byte("maybe") },
			notMine, secret, `key ovirt_insecure of Secret "login": "maybe" is not true or false`,
		},
		"a Secret that names a file": {
			worldOfOwn, func(w *world) { w.objects.Secret.Data["ovirt_cafile"] = []byte("/tmp/ca.pem") },
			notMine, secret, `key ovirt_cafile of Secret "login": the manager cannot read the file "/tmp/ca.pem"`,
		},
		"a Secret with a CA beside the ConfigMap": {
			worldOfOwn, func(w *world) { w.objects.Secret.Data["ovirt_ca_bundle"] = []byte(certificate(t)) },
			notMine, secret, `key ovirt_ca_bundle of Secret "login": caConfigMap also contains CA certificates`,
		},
		"a Secret with a CA that is none": {
			worldOfOwn, func(w *world) {
				w.server().CAConfigMap = nil
				w.objects.Secret.Data["ovirt_ca_bundle"] = []byte("none")
			},
			notMine, secret, `key ovirt_ca_bundle of Secret "login" is invalid: the CA holds no PEM certificate`,
		},
		"an identity whose Secret turns the verification off": {
			worldOfIdentity, func(w *world) { w.objects.Secret.Data["ovirt_insecure"] = []byte("true") },
			notMine, ref + " (OLVMClusterIdentity production)", "key ovirt_insecure",
		},
		"an identity that does not exist": {
			worldOfIdentity, func(w *world) { w.objects.Identity = nil },
			notMine, ref, `OLVMClusterIdentity "production" does not exist, or does not allow namespace "team-a"`,
		},
		"an identity for others: the same": {
			worldOfIdentity, func(w *world) { w.objects.Identity.Spec.AllowedNamespaces.List = []string{"team-b"} },
			notMine, ref, `OLVMClusterIdentity "production" does not exist, or does not allow namespace "team-a"`,
		},
		"an identity and a Secret": {
			worldOfIdentity, func(w *world) { w.server().CredentialsSecret.Name = "login" },
			notMine, ref, "remove credentialsSecret, caConfigMap and insecureSkipTLSVerify",
		},
		"an identity and a CA": {
			worldOfIdentity, func(w *world) { w.server().CAConfigMap = &infrav1.NamespacedName{Name: "ca"} },
			notMine, ref, "remove credentialsSecret, caConfigMap and insecureSkipTLSVerify",
		},
		"an identity and no verification": {
			worldOfIdentity, func(w *world) { w.server().InsecureSkipTLSVerify = true },
			notMine, ref, "remove credentialsSecret, caConfigMap and insecureSkipTLSVerify",
		},
		"an identity for another engine, whatever its Secret says": {
			worldOfIdentity, func(w *world) {
				w.server().ServerURL = "https://evil.example.com"
				w.objects.Secret.Data[infrav1.AllowedServerURLsKey] = []byte("https://evil.example.com")
			},
			infrav1.EngineNotAllowedReason, ref,
			`OLVMClusterIdentity "production" does not allow the URL https://evil.example.com/ovirt-engine;`,
		},
		"an identity whose Secret is gone": {
			worldOfIdentity, func(w *world) { w.objects.Secret = nil },
			notFound, ref, `the Secret of OLVMClusterIdentity "production" does not exist;`,
		},
		"an identity whose CA is gone": {
			worldOfIdentity, func(w *world) { w.objects.CA = nil },
			badCA, ref, `the CA's ConfigMap of OLVMClusterIdentity "production" does not exist;`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := test.world(certificate(t))
			test.change(w)
			got, err := connection.BuildConfig(connection.ClusterEngine(w.cluster), w.objects)
			check.Equal(t, "connection", got, engine.Config{})

			var blocked *blocker.Error
			if !errors.As(err, &blocked) {
				t.Fatalf("got %v", err)
			}

			check.Equal(t, "reason", blocked.Reason, test.reason)
			check.Equal(t, "field", blocked.Field, test.field)
			check.Contains(t, "message", blocked.Message, test.message)
		})
	}
}

// TestWhatIsReadOfAConnection reads from an API server with all objects. A caller gets only the objects that it may
// use.
func TestWhatIsReadOfAConnection(t *testing.T) {
	ca := certificate(t)
	failing := apierrors.NewForbidden(corev1.Resource("secrets"), "login", errors.New("vault is secret"))

	tests := map[string]struct {
		world  func(ca string) *world
		change func(*world)
		// fails is an object of the kind that the API server refuses to return.
		fails   client.Object
		problem string
		// hides is a text that the error must not contain.
		hides string
		// secret and ca expect the Secret and the CA to be read.
		secret, ca bool
	}{
		"of its own":     {world: worldOfOwn, secret: true, ca: true},
		"of another":     {world: worldOfVault, secret: true, ca: true},
		"of an identity": {world: worldOfIdentity, secret: true, ca: true},
		"no CA is named": {world: worldOfOwn, change: func(w *world) { w.server().CAConfigMap = nil }, secret: true},
		"no Secret is there": {
			world: worldOfOwn, change: func(w *world) { w.server().CredentialsSecret.Name = "missing" }, ca: true,
		},
		"of an identity for others, nothing": {
			world:  worldOfIdentity,
			change: func(w *world) { w.objects.Identity.Spec.AllowedNamespaces = nil },
		},
		"a Secret that the API server refuses": {
			world: worldOfOwn, fails: &corev1.Secret{}, problem: "vault is secret",
		},
		"a ConfigMap that the API server refuses": {
			world: worldOfOwn, fails: &corev1.ConfigMap{}, problem: "vault is secret", secret: true,
		},
		"an identity that the API server refuses": {
			world: worldOfIdentity, fails: &infrav1alpha1.OLVMClusterIdentity{}, problem: "vault is secret",
		},
		"a Namespace that the API server refuses": {
			world: worldOfIdentity, fails: &corev1.Namespace{}, problem: "vault is secret",
		},
		"a Secret of an identity that the API server refuses: the reason alone, not what it is called": {
			world: worldOfIdentity, fails: &corev1.Secret{},
			problem: "failed to read the references of OLVMClusterIdentity production: Forbidden",
			hides:   "vault",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := test.world(ca)
			if test.change != nil {
				test.change(w)
			}

			got, err := connection.ReadObjects(
				t.Context(), w.reader(t, test.fails, failing), connection.ClusterEngine(w.cluster),
			)
			check.Error(t, err, test.problem)
			check.Equal(t, "the Secret is read", got.Secret != nil, test.secret)
			check.Equal(t, "the ConfigMap is read", got.CA != nil, test.ca)
			if test.hides != "" {
				check.Lacks(t, "error", err.Error(), test.hides)
			}
		})
	}
}

// reader returns a client with the objects of a world. It fails for objects of one type.
func (w *world) reader(t *testing.T, fails client.Object, failing error) client.Reader {
	t.Helper()

	scheme := runtime.NewScheme()
	check.Error(t, errors.Join(corev1.AddToScheme(scheme), api.AddToScheme(scheme)), "")

	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.objects.Secret, w.objects.CA,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	if w.objects.Identity != nil {
		w.objects.Identity.Spec.CredentialsSecret.Name = w.objects.Secret.Name
		builder.WithObjects(w.objects.Identity)
	}

	return builder.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if reflect.TypeOf(o) == reflect.TypeOf(fails) {
				return failing
			}

			return c.Get(ctx, key, o, options...)
		},
	}).Build()
}

// TestTheConnectionOfAnotherUserHasTheSameCA connects as the user of a jump host, with a Secret in the cluster's
// namespace.
func TestTheConnectionOfAnotherUserHasTheSameCA(t *testing.T) {
	ca := certificate(t)

	for name, of := range map[string]func(string) *world{"of its own": worldOfOwn, "of an identity": worldOfIdentity} {
		t.Run(name, func(t *testing.T) {
			w := of(ca)
			jump := w.objects.Secret.DeepCopy()
			jump.Namespace, jump.Name = "team-a", "jump"
			jump.Data = map[string][]byte{"username": []byte("jump"), "password": []byte("j")}
			reader, ok := w.reader(t, nil, nil).(client.Client)
			check.Equal(t, "it is a client", ok, true)
			check.Error(t, reader.Create(t.Context(), jump), "")

			_, err := connection.ReadConfigForUser(
				t.Context(), reader, connection.ClusterEngine(w.cluster), "jump", connection.Policy{},
			)
			check.Error(t, err, `Secret "jump" does not allow the URL`)

			got, err := connection.ReadConfigForUser(
				t.Context(), reader, connection.ClusterEngine(w.cluster), "jump",
				connection.Policy{AllowAnyEngine: true},
			)
			check.Error(t, err, "")
			check.Equal(t, "connection", got,
				engine.Config{URL: server, Username: "jump", Password: "j", CA: []byte(ca)})
		})
	}
}

func TestWhichNamespacesMayUseAnObject(t *testing.T) {
	tests := map[string]struct {
		of, annotation string
		want           bool
	}{
		"its own":                     {"team-a", "", true},
		"an object of a command line": {"", "", true},
		"nobody is listed":            {"vault", "", false},
		"the list was emptied":        {"vault", " , ", false},
		"it is listed":                {"vault", "team-b,team-a", true},
		"it is listed with spaces":    {"vault", "team-b , team-a ", true},
		"another is listed":           {"vault", "team-b", false},
		"a longer name is listed":     {"vault", "team-ab", false},
		"all are":                     {"vault", "*", true},
		"a star is no pattern":        {"vault", "team-*", false},
	}
	for name, test := range tests {
		object := &metav1.ObjectMeta{
			Namespace: test.of, Annotations: map[string]string{infrav1.AllowedNamespacesAnnotation: test.annotation},
		}
		check.Equal(t, name, connection.IsAllowed(object, "team-a"), test.want)
	}
}

func TestWhichObjectsAClusterNames(t *testing.T) {
	identity := worldOfIdentity("").objects.Identity
	withoutCA := identity.DeepCopy()
	withoutCA.Spec.CAConfigMap = nil

	tests := map[string]struct {
		cluster      *infrav1.OLVMCluster
		identity     *infrav1alpha1.OLVMClusterIdentity
		secret, ca   types.NamespacedName
		noSecret, no bool
	}{
		"of its own namespace": {
			cluster: worldOfOwn("").cluster,
			secret:  types.NamespacedName{Namespace: "team-a", Name: "login"},
			ca:      types.NamespacedName{Namespace: "team-a", Name: "ca"},
		},
		"of another": {
			cluster: worldOfVault("").cluster,
			secret:  types.NamespacedName{Namespace: "vault", Name: "login"},
			ca:      types.NamespacedName{Namespace: "vault", Name: "ca"},
		},
		"neither": {
			cluster:  &infrav1.OLVMCluster{},
			noSecret: true, no: true,
		},
		"a CA without a name": {
			cluster: func() *infrav1.OLVMCluster {
				w := worldOfOwn("")
				w.server().CAConfigMap.Name = ""

				return w.cluster
			}(),
			secret: types.NamespacedName{Namespace: "team-a", Name: "login"},
			ca:     types.NamespacedName{Namespace: "team-a"},
			no:     true,
		},
		"of an identity": {
			cluster: worldOfIdentity("").cluster, identity: identity,
			secret: types.NamespacedName{Namespace: "vault", Name: "engine"},
			ca:     types.NamespacedName{Namespace: "vault", Name: "ca"},
		},
		"of an identity without a CA": {
			cluster: worldOfIdentity("").cluster, identity: withoutCA,
			secret: types.NamespacedName{Namespace: "vault", Name: "engine"},
			no:     true,
		},
		"of an identity that is not known": {cluster: worldOfIdentity("").cluster, noSecret: true, no: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			secret, ok := connection.CredentialsKey(connection.ClusterEngine(test.cluster), test.identity)
			check.Equal(t, "Secret", secret, test.secret)
			check.Equal(t, "the Secret is known", ok, !test.noSecret)

			ca, ok := connection.CAKey(connection.ClusterEngine(test.cluster), test.identity)
			check.Equal(t, "ConfigMap", ca, test.ca)
			check.Equal(t, "the ConfigMap is known", ok, !test.no)
		})
	}
}

// TestOneEngineHasOneKey spells the same engine in different ways.
func TestOneEngineHasOneKey(t *testing.T) {
	tests := map[string]struct{ url, want string }{
		"as it should be":                 {"https://engine.example.com/ovirt-engine", "engine.example.com"},
		"with the API":                    {"https://engine.example.com/ovirt-engine/api/", "engine.example.com"},
		"without a scheme":                {"engine.example.com", "engine.example.com"},
		"in capitals":                     {"https://Engine.EXAMPLE.com", "engine.example.com"},
		"with the port of https":          {"https://engine.example.com:443/", "engine.example.com"},
		"another port is another engine":  {"https://engine.example.com:8443", "engine.example.com:8443"},
		"a URL that is none is itself":    {"http://engine.example.com", "http://engine.example.com"},
		"an IPv6 address keeps its parts": {"https://[fd00::443]/", "[fd00::443]"},
	}
	for name, test := range tests {
		w := worldOfOwn("")
		w.server().ServerURL = test.url
		check.Equal(t, name, connection.GetEngineID(w.cluster).Host, test.want)
	}
}

// TestAnEngineHasWhatItLetIn compares objects that name an engine's URL with objects that the engine has accepted, in
// the same namespace and in others.
func TestAnEngineHasWhatItLetIn(t *testing.T) {
	const id, others = "5ea7cafe-0000-4000-8000-000000000001", "5ea7cafe-0000-4000-8000-000000000002"
	used := &infrav1.OLVMDatacenterStatus{ServerURL: server}
	alias := &infrav1.OLVMDatacenterStatus{ServerURL: "https://alias.example.com", EngineID: id}

	tests := map[string]struct {
		status         *infrav1.OLVMDatacenterStatus
		url            string
		inside, beyond bool
	}{
		"never used":                  {nil, server, true, false},
		"used":                        {used, server, true, true},
		"used, with its port written": {used, "https://engine.example.com:443/ovirt-engine", true, true},
		"moves away from it":          {used, "https://new.example.com", true, true},
		"another one":                 {nil, "https://new.example.com", false, false},
		"the status names none":       {&infrav1.OLVMDatacenterStatus{}, server, true, false},
		"used by another name":        {alias, alias.ServerURL, true, true},
		"a URL that is written and not used": {
			&infrav1.OLVMDatacenterStatus{ServerURL: "https://evil.example.com", EngineID: others}, server, true, false,
		},
	}
	for name, test := range tests {
		w := worldOfOwn("")
		w.server().ServerURL, w.cluster.Status.OLVMDatacenter = test.url, test.status
		inventory := &infrav1alpha1.OLVMInventory{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace}}
		inventory.Spec.OLVMOvirtAPIServer = *w.server()
		if test.status != nil {
			inventory.Status.ServerURL, inventory.Status.EngineID = test.status.ServerURL, test.status.EngineID
		}

		where := connection.GetEngineID(w.cluster)
		where.Host, where.Installation = "engine.example.com", id

		check.Equal(
			t,
			"cluster, own namespace: "+name,
			where.IsUsedBy(connection.ClusterEngine(w.cluster), w.cluster.Namespace),
			test.inside,
		)
		check.Equal(
			t, "cluster, another namespace: "+name, where.IsUsedBy(connection.ClusterEngine(w.cluster), "another"),
			test.beyond,
		)
		check.Equal(
			t,
			"inventory, own namespace: "+name,
			where.IsUsedBy(connection.InventoryEngine(inventory), w.cluster.Namespace),
			test.inside,
		)
		check.Equal(
			t, "inventory, another namespace: "+name, where.IsUsedBy(connection.InventoryEngine(inventory), "another"),
			test.beyond,
		)
	}

	check.Equal(t, "engines of which nothing is known", connection.EngineID{}.IsSame(connection.EngineID{}), false)
}

func TestAnInventoryIsConnectedAsAClusterIs(t *testing.T) {
	inventory := &infrav1alpha1.OLVMInventory{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "pool", UID: "7", Generation: 3},
		Spec: infrav1alpha1.OLVMInventorySpec{
			OLVMDatacenterName: "dc", OLVMOvirtAPIServer: *worldOfOwn("").server(),
		},
	}

	got := connection.InventoryEngine(inventory)
	check.Equal(t, "key", got.Key, types.NamespacedName{Namespace: "team-a", Name: "inventory/pool"})
	check.Equal(t, "UID", got.UID, "7")
	check.Equal(t, "generation", got.Generation, 3)
	check.Equal(t, "data center", got.DataCenterName, "dc")
	check.Equal(t, "server", got.Server, inventory.Spec.OLVMOvirtAPIServer)
}

func TestARenderedConnectionIsTheClients(t *testing.T) {
	config := engine.Config{URL: "engine.example.com", CA: []byte(certificate(t)), Username: "u", Password: "p"}
	session, err := engine.New(config)
	check.Error(t, err, "")

	got := connection.RenderEngine(session, config)
	check.Equal(t, "URL", got.URL, "https://engine.example.com/ovirt-engine/api")
	check.Equal(t, "CA", got.CA, string(config.CA))
	check.Equal(t, "user and password", strings.Join([]string{got.Username, got.Password}, " "), "u p")
	check.Equal(t, "verified", got.Insecure, false)
}

// TestAnEngineMustBeTheRecordedOneAndNotEarlier compares an engine's identity with the recorded one.
func TestAnEngineMustBeTheRecordedOneAndNotEarlier(t *testing.T) {
	const one, two = "5ea7cafe-0000-4000-8000-000000000001", "5ea7cafe-0000-4000-8000-000000000002"
	event := func(id int64, gone bool) *infrav1.EngineEvent { return &infrav1.EngineEvent{ID: id, Gone: gone} }

	for name, test := range map[string]struct {
		recorded, machine string
		last              *infrav1.EngineEvent
		accepted          string
		seen              engine.Identity
		want              string
	}{
		"nothing is recorded": {seen: engine.Identity{Installation: one}},
		"the same engine":     {recorded: one, seen: engine.Identity{Installation: one}},
		"another engine": {
			recorded: one, seen: engine.Identity{Installation: two}, want: infrav1.EngineChangedReason,
		},
		"an engine that does not say": {recorded: one, want: infrav1.EngineChangedReason},
		"another engine than the machine's": {
			machine: one, seen: engine.Identity{Installation: two}, want: infrav1.EngineChangedReason,
		},
		"an engine that was accepted": {recorded: one, accepted: two, seen: engine.Identity{Installation: two}},
		"the cluster accepted it, a machine lags": {
			recorded: two, machine: one, seen: engine.Identity{Installation: two},
		},
		"a later event": {
			recorded: one, last: event(7, false), seen: engine.Identity{Installation: one, NewestEvent: 8},
		},
		"a user who sees no events": {recorded: one, last: event(7, false), seen: engine.Identity{Installation: one}},
		"an earlier event": {
			recorded: one, last: event(7, false), seen: engine.Identity{Installation: one, Forgot: true},
			want: infrav1.EngineRestoredReason,
		},
		"it has made as many events again": {
			recorded: one, last: event(7, true), seen: engine.Identity{Installation: one, NewestEvent: 9},
			want: infrav1.EngineRestoredReason,
		},
		"the earlier time is accepted": {
			recorded: one, last: event(7, true), accepted: one + "/7", seen: engine.Identity{
				Installation: one, Forgot: true,
			},
		},
		"another time was accepted once": {
			recorded: one, last: event(9, false), accepted: one + "/7", seen: engine.Identity{
				Installation: one, Forgot: true,
			},
			want: infrav1.EngineRestoredReason,
		},
		"the events of another engine that was accepted": {
			recorded: one, last: event(7, false), accepted: two, seen: engine.Identity{
				Installation: two, NewestEvent: 2,
			},
		},
	} {
		c := &infrav1.OLVMCluster{Status: infrav1.OLVMClusterStatus{
			OLVMDatacenter: &infrav1.OLVMDatacenterStatus{EngineID: test.recorded, LastEvent: test.last},
		}}
		c.Annotations = map[string]string{infrav1.AcceptEngineAnnotation: test.accepted}

		var blocked *blocker.Error

		reason := ""
		if errors.As(connection.CheckEngine(connection.ClusterEngine(c), test.machine, test.seen), &blocked) {
			reason = blocked.Reason
		}

		check.Equal(t, name, reason, test.want)
	}
}
