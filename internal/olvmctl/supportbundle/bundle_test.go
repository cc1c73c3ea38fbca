package supportbundle

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatIsShown has objects with secrets of users in many places. The test lists the shown fields. All other fields
// are hidden.
func TestWhatIsShown(t *testing.T) {
	const before = `
kind: KubeadmConfig
metadata:
  name: one
  labels: {cluster.x-k8s.io/cluster-name: demo, team: a}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"content":"a secret"}'
    note: a secret
    cluster.x-k8s.io/paused: "yes"
  managedFields: [{manager: kubectl}]
spec:
  files: [{path: /etc/login, permissions: "0600", content: a secret}, {path: /etc/empty, content: ""}]
  users: [{name: ops, passwd: a secret, sshAuthorizedKeys: [a secret], lockPassword: true}]
  preKubeadmCommands: ["podman login -u robot -p hunter2 registry.example.com"]
  mounts: [[LABEL=etcd, /var/lib/etcd]]
  ignition: {containerLinuxConfig: {additionalConfig: "passwd: a secret"}}
  initConfiguration: {certificateKey: a secret, bootstrapTokens: [{token: a secret, description: mine}]}
  joinConfiguration:
    discovery:
      bootstrapToken: {token: a secret, apiServerEndpoint: "10.0.0.5:6443"}
      tlsBootstrapToken: a secret
      file: {kubeConfig: {user: {exec: {command: a secret, args: [a secret], env: [{name: TOKEN, value: a secret}]}}}}
    nodeRegistration: {kubeletExtraArgs: [{name: cloud-provider, value: external}]}
  clusterConfiguration:
    apiServer: {extraArgs: [{name: oidc-client-secret, value: a secret}], certSANs: [api.example.com]}
    featureGates: {some: true}
  proxy: {httpProxy: "http://me:secret@proxy", noProxy: [10.0.0.0/8]}
  variables: [{name: registry, value: {password: a secret, host: registry.example.com}}]
  userData: {extra: [{inline: a secret}, {secretKeyRef: {name: login, key: user-data}}]}
  somethingNew: a secret
  olvmOvirtAPIServer: {serverURL: "https://me:a secret@engine.example.com:8443/ovirt-engine"}
  verbosity: 5
`

	const want = `
kind: KubeadmConfig
metadata:
  name: one
  labels: {cluster.x-k8s.io/cluster-name: demo, team: a}
  annotations: {note: (redacted), cluster.x-k8s.io/paused: "yes"}
spec:
  files: [{path: /etc/login, permissions: "0600", content: (redacted)}, {path: /etc/empty, content: ""}]
  users: [{name: ops, passwd: (redacted), sshAuthorizedKeys: [(redacted)], lockPassword: true}]
  preKubeadmCommands: [(redacted)]
  mounts: [[(redacted), (redacted)]]
  ignition: {containerLinuxConfig: {additionalConfig: (redacted)}}
  initConfiguration: {certificateKey: (redacted), bootstrapTokens: [{token: (redacted), description: mine}]}
  joinConfiguration:
    discovery:
      bootstrapToken: {token: (redacted), apiServerEndpoint: "10.0.0.5:6443"}
      tlsBootstrapToken: (redacted)
      file: {kubeConfig: {user: {exec: {command: (redacted), args: [(redacted)], env: [{name: TOKEN, value: (redacted)}]}}}}
    nodeRegistration: {kubeletExtraArgs: [{name: cloud-provider, value: (redacted)}]}
  clusterConfiguration:
    apiServer: {extraArgs: [{name: oidc-client-secret, value: (redacted)}], certSANs: [api.example.com]}
    featureGates: {some: true}
  proxy: {httpProxy: (redacted), noProxy: [10.0.0.0/8]}
  variables: [{name: registry, value: {password: (redacted), host: (redacted)}}]
  userData: {extra: [{inline: (redacted)}, {secretKeyRef: {name: login, key: user-data}}]}
  somethingNew: (redacted)
  olvmOvirtAPIServer: {serverURL: "https://(redacted)@engine.example.com:8443/ovirt-engine"}
  verbosity: 5
`

	read := func(text string) map[string]any {
		var out map[string]any
		check.Error(t, yaml.Unmarshal([]byte(text), &out), "")

		return out
	}

	object := &unstructured.Unstructured{Object: read(before)}
	HideSecrets(object)
	check.Equal(t, "what is left", object.Object, read(want))
}

// TestSecretsAreTakenOutOfEverything has values of Secrets in files and in problems. Only some of the values are
// secret.
func TestSecretsAreTakenOutOfEverything(t *testing.T) {
	const (
		password = "correct horse battery"
		token    = "abcdef.0123456789abcdef"
		key      = "MIIEpAIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyz+/"
	)

	g := &gathering{}
	g.noteSecret(&corev1.Secret{Data: map[string][]byte{
		"username": []byte("admin@internal"),
		"password": []byte(password),
		"value": []byte("#cloud-config\nkubeletExtraArgs: {volume-plugin-dir: /var/lib/kubelet/volumeplugins}\n" +
			"token: " + token + "\nkey: |\n  " + key + "\n"),
	}})
	g.addFile(
		"log",
		[]byte("admin@internal with "+password+", kubeletExtraArgs, /var/lib/kubelet/volumeplugins\n"+token+" "+key),
	)
	g.addProblem("the engine", errors.New("refuses "+password))
	g.redactFiles()

	check.Equal(t, "log", string(g.bundle.Files[0].Content),
		"admin@internal with (redacted), kubeletExtraArgs, /var/lib/kubelet/volumeplugins\n(redacted) (redacted)")
	check.Error(t, g.bundle.Problems[0], "the engine: refuses (redacted)")
}

func TestTheSummaryOfAState(t *testing.T) {
	out, err := summaryOf(
		[]byte(`{"version": 4, "serial": 7, "lineage": "abc", "terraform_version": "1.11.4", "resources": [
		{"module": "module.machine", "mode": "managed", "type": "ovirt_vm", "name": "this", "instances": [{"attributes":
		{"id": "one", "name": "prod-1", "initialization_custom_script": "a secret", "comment": null}}]},
		{"type": "ovirt_nic", "name": "nics", "instances": [{"index_key": "nic1", "status": "tainted", "attributes":
		{"id": "two", "mac": "56:6f:00:00:00:01"}}]}]}`),
	)
	check.Error(t, err, "")
	check.Equal(t, "summary", string(out), `serial 7, lineage abc, Terraform 1.11.4

module.machine ovirt_vm.this
  id = one
  name = prod-1

 ovirt_nic.nics[nic1] (tainted)
  id = two
`)

	_, err = summaryOf([]byte("no state"))
	check.Error(t, err, "invalid character")
}

// secretFields are the text fields in objects of this provider that a bundle hides.
var secretFields = []string{
	"authorizedKeys", "httpProxy", "httpsProxy", "inline", "value", "values",
}

// TestEveryFieldOfOursIsDecided checks each text field in objects of this provider: it is either shown or known to be
// secret.
func TestEveryFieldOfOursIsDecided(t *testing.T) {
	seen := map[reflect.Type]bool{}

	var walk func(kind reflect.Type, field string)

	walk = func(kind reflect.Type, field string) {
		switch kind.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(kind.Elem(), field)
		case reflect.String:
			if !shownFields.Has(field) && !slices.Contains(secretFields, field) {
				t.Errorf("the field %s is neither shown nor known to be secret", field)
			}
		case reflect.Struct:
			if seen[kind] || !strings.HasSuffix(kind.PkgPath(), "/api/v1") {
				return
			}

			seen[kind] = true

			for i := range kind.NumField() {
				name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
				walk(kind.Field(i).Type, name)
			}
		}
	}
	for _, object := range []any{
		infrav1.OLVMCluster{}, infrav1.OLVMClusterTemplate{}, infrav1.OLVMMachine{}, infrav1.OLVMMachineTemplate{},
		infrav1alpha1.OLVMInventory{}, infrav1alpha1.OLVMInventoryVM{}, infrav1alpha1.OLVMSupportServices{},
	} {
		walk(reflect.TypeOf(object), "")
	}
}
