package supportbundle

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatIsHidden takes files, passwords, tokens and user data out of objects, and leaves the rest.
func TestWhatIsHidden(t *testing.T) {
	const before = `
kind: KubeadmConfig
metadata:
  name: one
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"content":"a secret"}', other: kept}
  managedFields: [{manager: kubectl}]
spec:
  files: [{path: /etc/login, content: a secret}, {path: /etc/empty, content: ""}]
  users: [{name: ops, passwd: a secret}]
  joinConfiguration: {discovery: {bootstrapToken: {token: a secret, apiServerEndpoint: "10.0.0.5:6443"}}}
  userData: {extra: [{inline: a secret}, {secret: {name: login, key: user-data}}]}
`

	const want = `
kind: KubeadmConfig
metadata:
  name: one
  annotations: {other: kept}
spec:
  files: [{path: /etc/login, content: (redacted)}, {path: /etc/empty, content: ""}]
  users: [{name: ops, passwd: (redacted)}]
  joinConfiguration: {discovery: {bootstrapToken: {token: (redacted), apiServerEndpoint: "10.0.0.5:6443"}}}
  userData: {extra: [{inline: (redacted)}, {secret: {name: login, key: user-data}}]}
`

	read := func(text string) map[string]any {
		var out map[string]any
		check.Error(t, yaml.Unmarshal([]byte(text), &out), "")

		return out
	}

	object := &unstructured.Unstructured{Object: read(before)}
	hide(object)
	check.Equal(t, "what is left", object.Object, read(want))
}

// TestSecretsAreTakenOutOfEverything has values of Secrets in files and problems, where only some are secret.
func TestSecretsAreTakenOutOfEverything(t *testing.T) {
	const (
		password = "correct horse battery"
		token    = "abcdef.0123456789abcdef"
		key      = "MIIEpAIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyz+/"
	)

	g := &gathering{}
	g.note(&corev1.Secret{Data: map[string][]byte{
		"username": []byte("admin@internal"),
		"password": []byte(password),
		"value": []byte("#cloud-config\nkubeletExtraArgs: {volume-plugin-dir: /var/lib/kubelet/volumeplugins}\n" +
			"token: " + token + "\nkey: |\n  " + key + "\n"),
	}})
	g.add("log", []byte("admin@internal with "+password+", kubeletExtraArgs, /var/lib/kubelet/volumeplugins\n"+token+" "+key))
	g.problem("the engine", errors.New("refuses "+password))
	g.redact()

	check.Equal(t, "log", string(g.bundle.Files[0].Content),
		"admin@internal with (redacted), kubeletExtraArgs, /var/lib/kubelet/volumeplugins\n(redacted) (redacted)")
	check.Error(t, g.bundle.Problems[0], "the engine: refuses (redacted)")
}

func TestTheSummaryOfAState(t *testing.T) {
	out, err := summaryOf([]byte(`{"version": 4, "serial": 7, "lineage": "abc", "terraform_version": "1.11.4", "resources": [
		{"module": "module.machine", "mode": "managed", "type": "ovirt_vm", "name": "this", "instances": [{"attributes":
		{"id": "one", "name": "prod-1", "initialization_custom_script": "a secret", "comment": null}}]},
		{"type": "ovirt_nic", "name": "nics", "instances": [{"index_key": "nic1", "status": "tainted", "attributes":
		{"id": "two", "mac": "56:6f:00:00:00:01"}}]}]}`))
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
