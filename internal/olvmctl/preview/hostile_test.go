package preview

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// thief is a server that a stranger's manifests name as the engine. It stores the credentials it receives.
type thief struct {
	*httptest.Server
	got []string
}

func newThief(t *testing.T) *thief {
	t.Helper()

	out := &thief{}
	out.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if password := r.PostFormValue("password"); password != "" {
			out.got = append(out.got, r.PostFormValue("username")+" "+password)
		}

		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error_code": "access_denied", "error": "Cannot authenticate"})
	}))
	t.Cleanup(out.Close)

	return out
}

func (s *thief) engine() string { return s.URL + "/ovirt-engine" }

// ca returns the certificate of the server in PEM.
func (s *thief) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// caMap returns the manifest of a ConfigMap with the certificate.
func (s *thief) caMap(t *testing.T, namespace, name string) string {
	t.Helper()

	encoded, err := json.Marshal(s.ca())
	check.Error(t, err, "")

	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: " + namespace +
		"}\ndata: {ca.crt: " + string(encoded) + "}\n"
}

// plan renders manifests with a management cluster, or without one if live is nil. It returns the error.
func plan(t *testing.T, manifests string, live client.Reader, credentials Credentials) error {
	t.Helper()

	m, err := load([]string{"-"}, strings.NewReader(manifests))
	check.Error(t, err, "")

	if live != nil {
		check.Error(t, m.AddLive(t.Context(), live, ""), "")
	}

	machines, err := m.Machines()
	check.Error(t, err, "")

	_, _, err = Render(t.Context(), m, machines, credentials, &engine.Sessions{})

	return err
}

// liveWith returns a management cluster with these objects and without machines.
func liveWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()

	scheme := runtime.NewScheme()
	check.Error(t, clientgoscheme.AddToScheme(scheme), "")
	check.Error(t, api.AddToScheme(scheme), "")

	for _, kind := range planinput.LiveKinds {
		if kind.Group == infrav1.GroupVersion.Group {
			continue
		}

		list := kind
		list.Kind += "List"
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
	}

	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestCredentialsOfTheEnvironmentGoOnlyToTheEngineTheyAreFor(t *testing.T) {
	for name, test := range map[string]struct {
		// urls is the value of OLVM_URL. THIEF stands for the server in the manifests.
		urls []string
		// server is the URL in the manifests.
		server, want string
		sent         bool
	}{
		"nothing says which engine they are for": {nil, "THIEF", "set OLVM_URL", false},
		"they are for another engine": {[]string{"https://engine.example.com"}, "THIEF",
			", not to https://127.", false},
		"they are for another port": {[]string{"https://127.0.0.1:1/ovirt-engine"}, "THIEF", ", not to ",
			false},
		"they are for another path": {[]string{"THIEF/else"}, "THIEF", ", not to ", false},
		"the engine is the path of another": {[]string{"https://engine.example.com"},
			"THIEF/https://engine.example.com", ", not to ", false},
		"no verification is asked for": {[]string{"THIEF"}, "THIEF\n    insecureSkipTLSVerify: true",
			"insecureSkipTLSVerify", false},
		"it is their engine":       {[]string{"https://engine.example.com", "THIEF"}, "THIEF", "access_denied", true},
		"it is written with /api/": {[]string{"THIEF/api/"}, "THIEF", "access_denied", true},
	} {
		t.Run(name, func(t *testing.T) {
			stranger := newThief(t)
			fill := func(text string) string { return strings.ReplaceAll(text, "THIEF", stranger.engine()) }

			credentials := Credentials{Username: "ci@internal", Password: "canary", CA: []byte(stranger.ca())}
			for _, url := range test.urls {
				credentials.ServerURLs = append(credentials.ServerURLs, fill(url))
			}

			err := plan(
				t, fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+fill(test.server)), nil,
				credentials,
			)
			check.Error(t, err, test.want)
			check.Equal(t, "the server has the password", len(stranger.got) > 0, test.sent)
		})
	}
}

// secretOf returns a Secret of the management cluster, allowed for some engines.
func secretOf(namespace, name, urls string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{
		"username": []byte("admin@internal"), "password": []byte("canary"), infrav1.AllowedServerURLsKey: []byte(urls),
	}}
}

// identityIn returns the OLVMClusterIdentity of a pull request. It allows all namespaces, and names a stranger's
// server.
func identityIn(s *thief) string {
	return "---\napiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: OLVMClusterIdentity\nmetadata: {name: evil}\n" +
		"spec:\n  credentialsSecret: {namespace: prod, name: credentials}\n" +
		"  caConfigMap: {namespace: default, name: evil-ca}\n  allowedServerURLs: [" + s.engine() + "]\n" +
		"  allowedNamespaces: {selector: {}}\n"
}

const baitCluster = `---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: OLVMCluster
metadata: {name: bait, namespace: default}
spec:
  olvmDatacenterName: Default
  olvmOvirtAPIServer: {serverURL: https://engine.example.com/ovirt-engine, credentialsSecret: {namespace: prod, name: credentials}}
`

const ownCredentials = "    credentialsSecret:\n      name: demo-ovirt-credentials\n    caConfigMap:\n      name: demo-ovirt-ca\n"

func TestAPullRequestReachesNoSecretOfTheManagementCluster(t *testing.T) {
	const real = "https://engine.example.com/ovirt-engine"

	for name, test := range map[string]struct {
		live      func(s *thief) []client.Object
		manifests func(t *testing.T, s *thief) string
		want      string
	}{
		"by an identity that only the pull request has": {
			func(*thief) []client.Object { return []client.Object{secretOf("prod", "credentials", real)} },
			func(t *testing.T, s *thief) string {
				t.Helper()

				return fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+s.engine()+"\n    identityRef: {name: evil}",
					ownCredentials, "") + identityIn(s) + s.caMap(t, "default", "evil-ca") + baitCluster
			},
			`OLVMClusterIdentity "evil" does not exist`,
		},
		"by an identity that the pull request widens": {
			func(*thief) []client.Object {
				return []client.Object{secretOf("prod", "credentials", real), &infrav1alpha1.OLVMClusterIdentity{
					ObjectMeta: metav1.ObjectMeta{Name: "evil"}, Spec: infrav1alpha1.OLVMClusterIdentitySpec{
						CredentialsSecret: infrav1alpha1.ObjectOfNamespace{Namespace: "prod", Name: "credentials"},
						AllowedServerURLs: []string{real}, AllowedNamespaces: &infrav1alpha1.AllowedNamespaces{
							Selector: &infrav1.LabelSelector{}},
					}}}
			},
			func(t *testing.T, s *thief) string {
				t.Helper()

				return fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+s.engine()+"\n    identityRef: {name: evil}",
					ownCredentials, "") + identityIn(s) + s.caMap(t, "default", "evil-ca")
			},
			"does not allow the URL",
		},
		"by a namespace that the pull request labels": {
			func(s *thief) []client.Object {
				return []client.Object{secretOf("prod", "credentials", real), &corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: "default"}}, &infrav1alpha1.OLVMClusterIdentity{
					ObjectMeta: metav1.ObjectMeta{Name: "evil"}, Spec: infrav1alpha1.OLVMClusterIdentitySpec{
						CredentialsSecret: infrav1alpha1.ObjectOfNamespace{Namespace: "prod", Name: "credentials"},
						AllowedServerURLs: []string{s.engine()}, AllowedNamespaces: &infrav1alpha1.AllowedNamespaces{
							Selector: &infrav1.LabelSelector{MatchLabels: map[string]string{"team": "prod"}}},
					}}}
			},
			func(t *testing.T, s *thief) string {
				t.Helper()

				return fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+s.engine()+"\n    identityRef: {name: evil}",
					ownCredentials, "") + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {team: prod}}\n"
			},
			"does not allow namespace",
		},
		"by the name of the Secret": {
			func(*thief) []client.Object {
				return []client.Object{secretOf("default", "demo-ovirt-credentials", real)}
			},
			func(t *testing.T, s *thief) string {
				t.Helper()

				return fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+s.engine()) + s.caMap(t, "default", "demo-ovirt-ca")
			},
			"does not allow the URL",
		},
		"by a Secret of the same name that names another engine": {
			func(*thief) []client.Object {
				return []client.Object{secretOf("default", "demo-ovirt-credentials", real)}
			},
			func(t *testing.T, s *thief) string {
				t.Helper()

				return fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+s.engine()) + s.caMap(t, "default", "demo-ovirt-ca") +
					"---\napiVersion: v1\nkind: Secret\nmetadata: {name: demo-ovirt-credentials, namespace: default}\n" +
					"stringData: {allowedServerURLs: " + s.engine() + "}\n"
			},
			"does not allow the URL",
		},
		"without verification of its engine": {
			func(s *thief) []client.Object {
				return []client.Object{secretOf("default", "demo-ovirt-credentials", s.engine())}
			},
			func(t *testing.T, s *thief) string {
				t.Helper()

				return fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+s.engine()+"\n    insecureSkipTLSVerify: true")
			},
			"insecureSkipTLSVerify",
		},
		"with a CA of the pull request": {
			func(s *thief) []client.Object {
				return []client.Object{secretOf("default", "demo-ovirt-credentials", s.engine())}
			},
			func(t *testing.T, s *thief) string {
				t.Helper()

				return fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+s.engine()) + s.caMap(t, "default", "demo-ovirt-ca")
			},
			`ConfigMap "demo-ovirt-ca" does not exist`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			stranger := newThief(t)
			err := plan(t, test.manifests(t, stranger), liveWith(t, test.live(stranger)...), Credentials{})
			check.Error(t, err, test.want)
			check.Length(t, "what the stranger has", stranger.got, 0)
		})
	}
}

func TestASecretOfTheManagementClusterIsUsedWithItsOwnCA(t *testing.T) {
	named := newThief(t)
	live := liveWith(t, secretOf("default", "demo-ovirt-credentials", named.engine()), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      "demo-ovirt-ca",
		},
		Data: map[string]string{"ca.crt": named.ca()},
	})

	for name, beside := range map[string]string{
		"alone": "",
		"beside one that sops has encrypted": "---\napiVersion: v1\nkind: Secret\n" +
			"metadata: {name: demo-ovirt-credentials, namespace: default}\n" +
			"stringData: {username: x, password: 'ENC[AES256_GCM,data:Zm9v,iv:YmFy,tag:cXV4,type:str]'}\nsops: {version: 3.9.0}\n",
	} {
		t.Run(name, func(t *testing.T) {
			named.got = nil
			err := plan(
				t, fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+named.engine())+beside, live,
				Credentials{},
			)
			check.Error(t, err, "access_denied")
			check.Equal(t, "what the engine has", strings.Join(named.got, ""), "admin@internal canary")
		})
	}
}

func TestWhatIsEvidentlyNoPasswordIsNotSent(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"a document of sops": {"stringData: {username: admin@internal, password: hunter2, allowedServerURLs: ENGINE}\n" +
			"sops: {version: 3.9.0}\n", "Secret default/demo-ovirt-credentials is encrypted by sops; decrypt it"},
		"a value of sops": {"stringData: {username: admin@internal, allowedServerURLs: ENGINE, password: " +
			"'ENC[AES256_GCM,data:Zm9v,iv:YmFy,tag:cXV4,type:str]'}\n", "the password is encrypted"},
		"a variable": {"stringData: {username: admin@internal, password: '${OLVM_PASSWORD}', allowedServerURLs: ENGINE}\n",
			"the password is a variable"},
		"a placeholder": {"stringData: {username: admin@internal, password: <password>, allowedServerURLs: ENGINE}\n",
			"the password looks like a placeholder"},
		"a word": {"stringData: {username: admin@internal, password: changeme, allowedServerURLs: ENGINE}\n",
			"the password looks like a placeholder"},
	} {
		t.Run(name, func(t *testing.T) {
			named := newThief(t)
			secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: demo-ovirt-credentials, namespace: default}\n" +
				strings.ReplaceAll(
					test.data, "ENGINE", named.engine(),
				)
			err := plan(t, fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+named.engine())+secret+
				named.caMap(t, "default", "demo-ovirt-ca"), nil, Credentials{})
			check.Error(t, err, test.want)
			check.Length(t, "what the engine has", named.got, 0)
		})
	}
}

// TestAWeakPasswordThatIsInUseIsUsed plans with a weak password in the management cluster, and with a weak password
// given by the user.
func TestAWeakPasswordThatIsInUseIsUsed(t *testing.T) {
	named := newThief(t)
	secret := secretOf("default", "demo-ovirt-credentials", named.engine())
	secret.Data["password"] = []byte("changeme")

	live := liveWith(t, secret, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      "demo-ovirt-ca",
		},
		Data: map[string]string{"ca.crt": named.ca()},
	})
	manifests := fixture.SampleManifests(t, "serverURL: ENGINE_URL", "serverURL: "+named.engine())
	given := Credentials{
		Username:   "admin@internal",
		Password:   "changeme",
		CA:         []byte(named.ca()),
		ServerURLs: []string{named.engine()},
	}

	check.Error(t, plan(t, manifests, live, Credentials{}), "access_denied")
	check.Error(t, plan(t, manifests, nil, given), "access_denied")
	check.Equal(
		t, "what the engine has", strings.Join(named.got, ", "), "admin@internal changeme, admin@internal changeme",
	)
}

func TestNamesThatTheAPIServerRefusesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ manifest, want string }{
		"a path": {"apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: ../../home}\n",
			`MachineDeployment: metadata.name: invalid value "../../home"`},
		"a path as namespace": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: ../b}\n",
			`Secret: metadata.namespace: invalid value "../b"`},
		"a name with a line break": {"apiVersion: infrastructure.cluster.x-k8s.io/v1\nkind: OLVMCluster\n" +
			"metadata: {name: \"a\\n::stop-commands::x\"}\n", "metadata.name: "},
		"no name":                   {"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {}\n", "metadata.name: "},
		"a name in capitals":        {"apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata: {name: A}\n", "metadata.name: "},
		"a namespace with a dot":    {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a.b}\n", "metadata.name: "},
		"a name of another kind":    {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a/b}\n", "metadata.name: "},
		"a name that is too long":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + strings.Repeat("a", 254) + "}\n", "metadata.name: "},
		"a path in a List":          {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: a/b}}]\n", "metadata.name: "},
		"a role of RBAC is allowed": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:a'}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load([]string{"-"}, strings.NewReader(test.manifest))
			check.Error(t, err, test.want)
		})
	}
}

func TestAFolderIsWrittenNowhereElse(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	check.Error(t, os.Symlink(outside, filepath.Join(dir, "linked")), "")

	for _, namespace := range []string{"../elsewhere", "linked"} {
		machine := Rendered{Machine: Machine{Namespace: namespace, Name: "a"}}
		machine.Files = render.Files{"main.tf": []byte("# a\n")}
		_, err := machine.WriteFolder(dir)
		check.Error(t, err, "failed to create the folder")
	}

	entries, err := os.ReadDir(outside)
	check.Error(t, err, "")
	check.Length(t, "what is written outside", entries, 0)
}

// TestAKindThatNoServerHasIsNoKindOfAnother has kinds that a careless plan would ignore, but an API server rejects.
func TestAKindThatNoServerHasIsNoKindOfAnother(t *testing.T) {
	for name, test := range map[string]struct{ object, want string }{
		"another case": {"apiVersion: cluster.x-k8s.io/v1beta2\nkind: machinedeployment\n",
			"use apiVersion: cluster.x-k8s.io/v1beta2 and kind: MachineDeployment"},
		"another case of the group": {"apiVersion: Infrastructure.cluster.x-k8s.io/v1\nkind: OLVMCluster\n",
			"use apiVersion: infrastructure.cluster.x-k8s.io/v1 and kind: OLVMCluster"},
		"a version that was":                {"apiVersion: cluster.x-k8s.io/v1alpha4\nkind: Cluster\n", "use apiVersion: cluster.x-k8s.io/v1beta2"},
		"a version of our own that is none": {"apiVersion: infrastructure.cluster.x-k8s.io/v9\nkind: OLVMCluster\n", "unsupported apiVersion"},
		"the version before":                {"apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\n", ""},
		"a kind of others":                  {"apiVersion: example.com/v1\nkind: cluster\n", ""},
		"a typing error": {
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeploymnet\n",
			"no such kind; did you mean MachineDeployment?",
		},
		"one of our own": {
			"apiVersion: infrastructure.cluster.x-k8s.io/v1\nkind: OLVMMachineTemplates\n",
			"did you mean OLVMMachineTemplate?",
		},
		"a kind of another provider": {
			"apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: OCIMachine\n",
			"",
		},
	} {
		_, err := load([]string{"-"}, strings.NewReader(test.object+"metadata: {name: a}\nspec: {}\n"))
		check.Error(t, err, test.want)
		check.Equal(t, name, err == nil, test.want == "")
	}
}

// TestManifestsAskForNoMillionMachines has a hundred owners, each within the limit.
func TestManifestsAskForNoMillionMachines(t *testing.T) {
	text := fixture.SampleManifests(t)
	_, md, _ := strings.Cut(text, "kind: MachineDeployment\n")

	for i := range 100 {
		text += "\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\n" +
			strings.Replace(
				strings.Replace(md, "name: demo-md-0", "name: other-"+strings.Repeat("a", i+1), 1), "replicas: 2",
				"replicas: 9999", 1,
			)
	}

	m, err := load([]string{"-"}, strings.NewReader(text))
	check.Error(t, err, "")
	_, err = m.Machines()
	check.Error(t, err, "the manifests request more than 20000 machines in total")
}

// TestCredentialsGoToNoURLThatLooksLikeTheirs has URLs of a stranger, and other spellings of the engine's URL.
func TestCredentialsGoToNoURLThatLooksLikeTheirs(t *testing.T) {
	own := Credentials{Username: "u", Password: "p", ServerURLs: []string{"https://engine.example.com/ovirt-engine"}}

	for _, url := range []string{
		"https://engine.example.com.evil.org/ovirt-engine", "https://engine.example.com@evil.org/ovirt-engine",
		"https://evil.org/engine.example.com/ovirt-engine", "https://evil.org#@engine.example.com/ovirt-engine",
		"https://evil.org?engine.example.com/ovirt-engine", `https://evil.org\\@engine.example.com/ovirt-engine`,
		"https://engine.example.com:8443/ovirt-engine", "https://engine.example.com./ovirt-engine",
		"https://engine.example.com%2eevil.org/ovirt-engine", "https://engine.example.com/ovirt-engine/../evil",
		"https://engine.example.com%00.evil.org/ovirt-engine", "https://engine.example.com\t.evil.org/ovirt-engine",
		"http://engine.example.com/ovirt-engine", "//evil.org/ovirt-engine", "https:evil.org", "https://[::1]/ovirt-engine",
		"https://engine.example.com:443@evil.org/ovirt-engine", "https://еngine.example.com/ovirt-engine", "https://engine.example.com。evil.org/ovirt-engine",
		"https://user:x@engine.example.com/ovirt-engine", "https://engine.example.com,evil.org/ovirt-engine", "",
	} {
		err := own.CheckServer(url)
		check.Equal(t, url+" is refused", err != nil, true)
	}

	for _, url := range []string{"https://engine.example.com", "https://ENGINE.example.com/ovirt-engine/", "https://engine.example.com/ovirt-engine/api",
		" https://engine.example.com/ovirt-engine ", "engine.example.com"} {
		check.Error(t, own.CheckServer(url), "")
	}
}
