package bootstrap

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta3"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// strictly decodes a document with kubeadm's own types. It fails if the document has unknown fields.
func strictly(t *testing.T, document string) any {
	t.Helper()
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := decoder.Decode([]byte(document), nil, nil)
	check.Error(t, err, "")

	return object
}

// TestKubeletArgumentsHaveTheShapeOfKubeadmsVersion decodes the result with kubeadm's types of both versions.
func TestKubeletArgumentsHaveTheShapeOfKubeadmsVersion(t *testing.T) {
	guest := Guest{NodeIPs: []netip.Addr{netip.MustParseAddr("10.0.0.7")}}
	want := "map[node-ip:10.0.0.7 provider-id:olvm://__OLVM_VM_UUID__]"

	for _, kind := range []string{"InitConfiguration", "JoinConfiguration"} {
		for name, registration := range map[string]string{
			"no registration":      "",
			"an empty one":         "nodeRegistration: {}\n",
			"a null one":           "nodeRegistration:\n",
			"one without any":      "nodeRegistration: {name: a}\n",
			"one with null":        "nodeRegistration: {kubeletExtraArgs: null}\n",
			"one that is empty":    "nodeRegistration: {kubeletExtraArgs: EMPTY}\n",
			"one with one already": "nodeRegistration: {kubeletExtraArgs: ONE}\n",
		} {
			for version, shapes := range map[string]*strings.Replacer{
				"v1beta3": strings.NewReplacer("EMPTY", "{}", "ONE", "{node-ip: 10.0.0.7}"),
				"v1beta4": strings.NewReplacer("EMPTY", "[]", "ONE", "[{name: node-ip, value: 10.0.0.7}]"),
			} {
				t.Run(strings.Join([]string{kind, name, version}, " "), func(t *testing.T) {
					edit, err := editKubeadm("apiVersion: kubeadm.k8s.io/"+version+"\nkind: "+kind+"\n"+
						shapes.Replace(registration), guest)
					check.Error(t, err, "")
					check.Equal(t, "arguments", fmt.Sprint(argumentsIn(strictly(t, edit.text))), want)
				})
			}
		}
	}
}

// argumentsIn returns the kubelet's arguments from one of kubeadm's types.
func argumentsIn(object any) map[string]string {
	list := []v1beta4.Arg{}

	switch object := object.(type) {
	case *v1beta3.InitConfiguration:
		return object.NodeRegistration.KubeletExtraArgs
	case *v1beta3.JoinConfiguration:
		return object.NodeRegistration.KubeletExtraArgs
	case *v1beta4.InitConfiguration:
		list = object.NodeRegistration.KubeletExtraArgs
	case *v1beta4.JoinConfiguration:
		list = object.NodeRegistration.KubeletExtraArgs
	}

	out := map[string]string{}
	for _, argument := range list {
		out[argument.Name] = argument.Value
	}

	return out
}

func TestKubeletArgumentsOfTheOtherShapeAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ document, want string }{
		"a list for an older kubeadm": {
			"apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\n" +
				"nodeRegistration: {kubeletExtraArgs: [{name: v, value: '2'}]}\n",
			"nodeRegistration.kubeletExtraArgs is not a mapping, which kubeadm.k8s.io/v1beta3 asks for",
		},
		"a mapping for a newer one": {
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: {v: '2'}}\n",
			"nodeRegistration.kubeletExtraArgs is not a list of name and value, which kubeadm.k8s.io/v1beta4 asks for",
		},
		"a text": {
			"apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: v=2}\n",
			"nodeRegistration.kubeletExtraArgs is not a mapping",
		},
		"a registration that is none": {
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: []\n",
			"nodeRegistration is no mapping",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := editKubeadm(tt.document, Guest{})
			check.Error(t, err, tt.want)
		})
	}
}

// TestKubeVIPUsesTheKubeconfigThatKubeadmWrites covers kubeadm's files. Since 1.29, kubeadm writes super-admin.conf on
// the node that initialises the cluster.
func TestKubeVIPUsesTheKubeconfigThatKubeadmWrites(t *testing.T) {
	services := &Services{API: &APIEndpoint{KubeVIPImage: "vip"}}

	for version, want := range map[string]string{
		"kubernetesVersion: v1.28.15": "admin.conf", "kubernetesVersion: 1.27.0": "admin.conf",
		"kubernetesVersion: v1.29.0": "super-admin.conf", "kubernetesVersion: v1.36.1": "super-admin.conf",
		"kubernetesVersion: v1.29.0+k3s1": "super-admin.conf", "{}": "super-admin.conf",
	} {
		t.Run(version, func(t *testing.T) {
			data := "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n  content: |\n" +
				"    apiVersion: kubeadm.k8s.io/v1beta3\n    kind: ClusterConfiguration\n    " +
				strings.Replace(version, "{}", "clusterName: a", 1) +
				"\n    ---\n    apiVersion: kubeadm.k8s.io/v1beta3\n    kind: InitConfiguration\n"
			merged, err := Merge([]byte(data), CloudConfig, Guest{Services: services})
			check.Error(t, err, "")
			check.Contains(t, "the user data", string(merged), "path: /etc/kubernetes/"+want)
		})
	}
}
