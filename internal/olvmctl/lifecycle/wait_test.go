package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestStartWaitsForANamespaceThatIsBeingDeleted(t *testing.T) {
	t.Parallel()

	going := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "going"}}
	going.Status.Phase = corev1.NamespaceTerminating
	going.Status.Conditions = []corev1.NamespaceCondition{
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Message: "a Machine is left"},
	}
	there := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
	there.Status.Phase = corev1.NamespaceActive
	in := &mgmtcluster.Cluster{Client: fake.NewClientBuilder().WithObjects(going, there).Build()}

	for namespace, want := range map[string]string{
		"going": "namespace going is still being deleted: a Machine is left", "there": "", "never-made": "",
	} {
		check.Error(t, checkNotTerminating(t.Context(), in, namespace), want)
	}
}
