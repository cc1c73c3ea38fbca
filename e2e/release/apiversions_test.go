package release

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/otherprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// expectOldObjectsToValidate verifies that a real API server with the present CRDs accepts the objects of users of each
// release series. There is no release yet: testdata contains the objects of a hypothetical v0.1.0.
func (m *management) expectOldObjectsToValidate(t *testing.T) {
	files, err := filepath.Glob("testdata/v*/objects.yaml")
	check.Error(t, err, "")
	check.Equal(t, "series with objects", len(files) > 0, true)

	kinds := map[string]bool{}

	for _, path := range files {
		content, err := os.ReadFile(path)
		check.Error(t, err, "")
		objects, err := manifest.Read(content)
		check.Error(t, err, "")

		for _, object := range objects {
			kinds[object.GetKind()] = true
			what := path + ": " + object.GetKind() + " " + object.GetName()
			sent := object.DeepCopy()
			create := func() error {
				*object = *sent.DeepCopy()
				return m.client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
			}

			wait.For(t, what+" is served", func() error {
				if err := create(); apierrors.IsNotFound(err) {
					return err
				}

				return nil
			})
			check.Error(t, create(), "")
			check.Equal(t, what, object.Object["spec"], sent.Object["spec"])
		}
	}

	check.Equal(t, "kinds", len(kinds), 10)
}

// oraclesProvider contains the objects that the chart of Oracle's provider installs. They show that this provider is
// present.
const oraclesProvider = `
{apiVersion: v1, kind: Namespace, metadata: {name: cluster-api-provider-olvm}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: cluster-api-provider-olvm, name: olvm-capi-controller-manager}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: manager, image: example.com/old}]}
`

// expectNothingBesideOraclesProvider adds the Deployment of Oracle's provider to an empty management cluster for a
// while. It expects that olvmctl then refuses to install anything.
func (m *management) expectNothingBesideOraclesProvider(t *testing.T) {
	objects, err := manifest.Read([]byte(oraclesProvider))
	check.Error(t, err, "")

	for _, object := range objects {
		check.Error(t, m.client.Create(t.Context(), object), "")
	}

	p := &clusterctl.Providers{Config: m.config, Timeout: wait.Limit}
	to := clusterctl.Management{Kubeconfig: m.kubeconfig, Client: m.client}
	installed, err := p.EnsureInstalled(t.Context(), to, clusterctl.OLVM)
	check.Error(t, err, "kubectl -n "+otherprovider.Manager.Namespace+" scale deployment "+otherprovider.Manager.Name)
	check.Length(t, "what was installed", installed, 0)

	var namespace corev1.Namespace

	for _, name := range []string{"cluster-api-system", "capolvm-system"} {
		err := m.client.Get(t.Context(), client.ObjectKey{Name: name}, &namespace)
		check.Equal(t, name+" is not there", apierrors.IsNotFound(err), true)
	}

	check.Error(t, m.client.Delete(t.Context(), objects[len(objects)-1]), "")
}
