package otherprovider

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func deployment(namespace, name string, replicas *int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: replicas},
	}
}

// TestOraclesProviderIsRefusedUnlessItIsStopped covers each state of the Deployment of Oracle's provider.
func TestOraclesProviderIsRefusedUnlessItIsStopped(t *testing.T) {
	for what, c := range map[string]struct {
		deployment *appsv1.Deployment
		want       string
	}{
		"it runs": {
			deployment(Manager.Namespace, Manager.Name, ptr.To[int32](1)),
			"kubectl -n cluster-api-provider-olvm scale deployment olvm-capi-controller-manager --replicas=0",
		},
		"its replicas are the default": {
			deployment(Manager.Namespace, Manager.Name, nil), "of Oracle's provider manages the same kinds",
		},
		"it is stopped":          {deployment(Manager.Namespace, Manager.Name, ptr.To[int32](0)), ""},
		"ours runs":              {deployment("capolvm-system", "capolvm-controller-manager", ptr.To[int32](1)), ""},
		"another one is beside":  {deployment(Manager.Namespace, "other", ptr.To[int32](1)), ""},
		"one of its name is not": {deployment("other", Manager.Name, ptr.To[int32](1)), ""},
	} {
		t.Log(what)
		check.Error(t, CheckAbsent(t.Context(), fake.NewClientBuilder().WithObjects(c.deployment).Build()), c.want)
	}
}

// TestWhatCannotBeAskedIsNotRefused uses a manager for one namespace, which may not read the Deployment.
func TestWhatCannotBeAskedIsNotRefused(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, Manager.Name, nil)
	reader := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
	}).Build()
	check.Error(t, CheckAbsent(t.Context(), reader), "")
}
