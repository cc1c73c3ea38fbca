package clusterctl

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAKindAloneIsNoProvider has the remains of an installation that was interrupted after it created the kinds.
func TestAKindAloneIsNoProvider(t *testing.T) {
	core := needed[0]
	labelled := metav1.ObjectMeta{
		Namespace: "capi-system", Name: "a", Labels: map[string]string{clusterv1.ProviderNameLabel: core.label},
	}
	of := metav1.ObjectMeta{
		Namespace: "b", Name: "b", Labels: map[string]string{clusterv1.ProviderNameLabel: "bootstrap-kubeadm"},
	}

	byClusterctl := &appsv1.Deployment{ObjectMeta: *labelled.DeepCopy()}
	another := &appsv1.Deployment{ObjectMeta: of}
	byOthers := &appsv1.Deployment{ObjectMeta: labelled}
	inventory := &clusterctlv1.Provider{ObjectMeta: labelled}

	for name, test := range map[string]struct {
		served  bool
		objects []client.Object
		want    bool
	}{
		"nothing is there":                           {false, nil, false},
		"the kind alone":                             {true, nil, false},
		"the kind, and another one":                  {true, []client.Object{another}, false},
		"clusterctl has installed it":                {true, []client.Object{inventory}, true},
		"others have installed its manager":          {true, []client.Object{byOthers}, true},
		"clusterctl was killed before its inventory": {true, []client.Object{byClusterctl}, false},
		"clusterctl has made it, inventory and all":  {true, []client.Object{byClusterctl, inventory}, true},
		"a Deployment whose kinds were lost":         {false, []client.Object{byOthers}, false},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			check.Error(t, appsv1.AddToScheme(scheme), "")
			check.Error(t, clusterctlv1.AddToScheme(scheme), "")

			version := schema.GroupVersion{Group: core.group, Version: "v1beta2"}
			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{version})
			mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
			mapper.Add(clusterctlv1.GroupVersion.WithKind("Provider"), meta.RESTScopeNamespace)

			if test.served {
				mapper.Add(version.WithKind(core.kind), meta.RESTScopeNamespace)
			}

			c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithReturnManagedFields().Build()

			for _, object := range test.objects {
				by := client.FieldOwner("kubectl")
				if object == byClusterctl {
					by = clusterctlManager
				}

				check.Error(t, c.Create(t.Context(), object.DeepCopyObject().(client.Object), by), "")
			}

			got, err := isInstalled(t.Context(), c, core)
			check.Error(t, err, "")
			check.Equal(t, "whether it is installed", got, test.want)
		})
	}
}
