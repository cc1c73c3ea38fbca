package clusterctl

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// crd returns a CRD of a provider.
func crd(kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: plural + "." + clusterv1.GroupVersion.Group, Labels: map[string]string{clusterctlv1.ClusterctlLabel: ""},
	}}
	out.Spec.Group, out.Spec.Scope = clusterv1.GroupVersion.Group, apiextensionsv1.NamespaceScoped
	out.Spec.Names.Kind, out.Spec.Names.Plural = kind, plural
	out.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1beta1", Served: true},
		{Name: clusterv1.GroupVersion.Version, Served: true, Storage: true},
	}

	return out
}

// with returns a management cluster with the objects of a Cluster, and with a Secret that does not move. Objects whose
// names have no kind are Machines.
func with(t *testing.T, unmoved string, names ...string) Management {
	t.Helper()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		check.Error(t, add(scheme), "")
	}

	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "prod", UID: "1"}
	owned := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "prod", Name: name, OwnerReferences: []metav1.OwnerReference{owner}}
	}

	objects := []client.Object{
		crd("Cluster", "clusters"), crd("Machine", "machines"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: unmoved}},
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: names[0]}},
	}

	for _, name := range names {
		switch name {
		case "cluster":
			objects = append(objects,
				&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "prod"}})
		case "other":
			objects = append(objects,
				&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "other"}},
				&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
					Namespace: "prod", Name: "other-a", Labels: map[string]string{clusterv1.ClusterNameLabel: "other"},
				}},
				&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
					Namespace: "prod", Name: "other-b", OwnerReferences: []metav1.OwnerReference{
						{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "other", UID: "2"},
					},
				}})
		case "secret":
			objects = append(objects, &corev1.Secret{ObjectMeta: owned("keys")})
		default:
			objects = append(objects, &clusterv1.Machine{ObjectMeta: owned(name)})
		}
	}

	return Management{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
}

func TestCopied(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		from, to []string
		want     bool
	}{
		"the first objects are copied": {[]string{"cluster", "a", "b", "secret"}, []string{"cluster", "a"}, false},
		"a Secret is missing":          {[]string{"cluster", "a", "secret"}, []string{"cluster", "a"}, false},
		"all are copied": {
			[]string{"cluster", "a", "secret"}, []string{"cluster", "a", "secret"}, true,
		},
		"the first are deleted":           {[]string{"cluster", "a"}, []string{"cluster", "a", "b", "secret"}, true},
		"nothing but the Cluster is left": {[]string{"cluster"}, []string{"cluster", "a", "secret"}, true},
		"the target has another cluster": {
			[]string{"cluster", "a", "secret"}, []string{"cluster", "a", "other"}, false,
		},
		"beside another cluster all are copied": {
			[]string{"cluster", "a"}, []string{"cluster", "a", "other"}, true,
		},
		"beside another cluster the first are deleted": {
			[]string{"cluster", "a", "late"}, []string{"cluster", "a", "b", "other"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := IsCopyComplete(t.Context(), with(t, "of-the-source", test.from...),
				with(t, "of-the-target", test.to...), "prod", []string{"prod"})
			check.Error(t, err, "")
			check.Equal(t, "whether all is copied", got, test.want)
		})
	}
}
