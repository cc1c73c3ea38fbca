package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// operatorProvider is a provider of the operator, and the ConfigMap of its release.
const operatorProvider = `
{apiVersion: v1, kind: Namespace, metadata: {name: %[3]s}}
---
apiVersion: operator.cluster.x-k8s.io/v1alpha2
kind: %[1]s
metadata: {name: %[2]s, namespace: %[3]s}
spec:
  version: %[4]s
  fetchConfig: {selector: {matchLabels: {provider: %[2]s}}}
`

// TestTheOperatorOfClusterAPIInstallsARelease runs the operator's real manager. It finds releases in ConfigMaps, as on
// sites without internet access. Nothing runs the installed objects.
func TestTheOperatorOfClusterAPIInstallsARelease(t *testing.T) {
	testenv.SkipInShort(t, "the operator is a program of its own, whose build takes minutes")
	m := newManagement(t)
	m.others()
	m.release("v0.1.0")
	m.startOperator()

	m.addProvider("CoreProvider", "cluster-api", "capi-system", "v1.14.2", "cluster-api/v1.14.2/core-components.yaml")
	m.becomesInstalled("CoreProvider", "cluster-api", "capi-system")
	m.setReady("CoreProvider", "cluster-api", "capi-system")
	m.addProvider("InfrastructureProvider", "olvm", "capolvm-system", "v0.1.0",
		"infrastructure-olvm/v0.1.0/infrastructure-components.yaml")
	m.becomesInstalled("InfrastructureProvider", "olvm", "capolvm-system")

	var crd apiextensionsv1.CustomResourceDefinition
	key := client.ObjectKey{Name: "olvmmachines.infrastructure.cluster.x-k8s.io"}
	check.Error(t, m.client.Get(t.Context(), key, &crd), "")
	check.Equal(t, "contract", crd.Labels["cluster.x-k8s.io/v1beta2"], "v1")

	var deployment appsv1.Deployment
	key = client.ObjectKey{Namespace: "capolvm-system", Name: "capolvm-controller-manager"}
	check.Error(t, m.client.Get(t.Context(), key, &deployment), "")

	check.Equal(t, "image", deployment.Spec.Template.Spec.Containers[0].Image,
		"ghcr.io/capolvm/cluster-api-provider-olvm:v0.1.0")

	args := strings.Join(deployment.Spec.Template.Spec.Containers[0].Args, " ")
	check.Contains(t, "flags", args, "--diagnostics-address=:8443")
	check.Contains(t, "flags", args, "--tls-min-version=VersionTLS12")

	m.expectPolicies("while it is installed", "InfrastructureProvider")
	m.removeProvider()
	m.expectPolicies("after it", "InfrastructureProvider")
}

// expectPolicies expects the admission policies to exist, without an owner in a namespace. The API server here has no
// garbage collector, but that would leave them as well.
func (m *management) expectPolicies(when, owner string) {
	m.t.Helper()

	var policies admissionv1.ValidatingAdmissionPolicyList
	check.Error(m.t, m.client.List(m.t.Context(), &policies), "")
	check.Length(m.t, "policies "+when, policies.Items, 3)

	for _, policy := range policies.Items {
		check.Length(m.t, "owners of "+policy.Name, policy.OwnerReferences, 1)
		check.Equal(m.t, "owner of "+policy.Name, policy.OwnerReferences[0].Kind, owner)
	}
}

// removeProvider deletes the InfrastructureProvider, and waits until the manager is gone.
func (m *management) removeProvider() {
	m.t.Helper()
	provider := m.provider("InfrastructureProvider", "olvm", "capolvm-system")
	check.Error(m.t, m.client.Delete(m.t.Context(), provider), "")
	wait.For(m.t, "the manager is removed", func() error {
		var deployment appsv1.Deployment
		err := m.client.Get(m.t.Context(), client.ObjectKey{
			Namespace: "capolvm-system", Name: "capolvm-controller-manager",
		}, &deployment)

		if apierrors.IsNotFound(err) || err == nil && !deployment.DeletionTimestamp.IsZero() {
			return nil
		}

		return errors.Join(err, errors.New("the Deployment is there"))
	})
}

// startOperator installs the CRDs of the operator, and runs its manager until the test ends.
func (m *management) startOperator() {
	m.t.Helper()
	check.Error(m.t, m.tools.Build(m.t.Context(), "operator"), "")
	program, err := m.tools.Path("operator", "capi-operator")
	check.Error(m.t, err, "")
	source, err := m.tools.ModuleSource(m.t.Context(), "operator", "sigs.k8s.io/cluster-api-operator")
	check.Error(m.t, err, "")

	files, err := filepath.Glob(filepath.Join(source, "config", "crd", "bases", "*.yaml"))
	check.Error(m.t, err, "")
	check.Equal(m.t, "there are CRDs of the operator", len(files) > 0, true)

	for _, file := range files {
		content, err := os.ReadFile(file)
		check.Error(m.t, err, "")
		m.create(string(content))
	}

	webhooks := envtest.WebhookInstallOptions{}
	check.Error(m.t, webhooks.PrepWithoutInstalling(), "")
	m.t.Cleanup(func() { _ = webhooks.Cleanup() })

	ports, err := localplane.FreePorts(2)
	check.Error(m.t, err, "")

	log, err := os.Create(filepath.Join(m.dir, "operator.log"))
	check.Error(m.t, err, "")

	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "--kubeconfig="+m.kubeconfig, "--profiler-address=",
		fmt.Sprintf("--health-addr=127.0.0.1:%d", ports[0]), "--diagnostics-address=127.0.0.1:0",
		"--insecure-diagnostics", fmt.Sprintf("--webhook-port=%d", ports[1]),
		"--webhook-cert-dir="+webhooks.LocalServingCertDir, "--v=2")
	command.Env = m.environment()
	command.Stdout, command.Stderr = log, log
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	check.Error(m.t, command.Start(), "")
	m.t.Cleanup(func() {
		stop()

		_ = command.Wait()

		if content, err := os.ReadFile(log.Name()); err == nil && m.t.Failed() {
			m.t.Logf("the operator:\n%s", content)
		}
	})
}

// create creates the objects of manifests as soon as their kinds are served.
func (m *management) create(manifests string) {
	m.t.Helper()
	objects, err := manifest.Read([]byte(manifests))
	check.Error(m.t, err, "")

	for _, object := range objects {
		wait.For(m.t, object.GetKind()+" "+object.GetName()+" is made", func() error {
			return client.IgnoreAlreadyExists(m.client.Create(m.t.Context(), object.DeepCopy()))
		})
	}
}

// addProvider gives the operator a release from the repository, and requests it.
func (m *management) addProvider(kind, name, namespace, version, components string) {
	m.t.Helper()
	m.create(fmt.Sprintf(operatorProvider, kind, name, namespace, version))

	path := filepath.Join(m.dir, "repository", components)
	content, err := os.ReadFile(path)
	check.Error(m.t, err, "")
	metadata, err := os.ReadFile(filepath.Join(filepath.Dir(path), "metadata.yaml"))
	check.Error(m.t, err, "")

	release := &corev1.ConfigMap{Data: map[string]string{"components": string(content), "metadata": string(metadata)}}
	release.Namespace, release.Name = namespace, version
	release.Labels = map[string]string{"provider": name}

	if len(content) > 1000_000 {
		compressed, err := compress(content)
		check.Error(m.t, err, "")
		delete(release.Data, "components")

		release.BinaryData = map[string][]byte{"components": compressed}
		release.Annotations = map[string]string{"provider.cluster.x-k8s.io/compressed": "true"}
	}

	check.Error(m.t, m.client.Create(m.t.Context(), release), "")
}

func (m *management) provider(kind, name, namespace string) *unstructured.Unstructured {
	provider := &unstructured.Unstructured{}
	provider.SetAPIVersion("operator.cluster.x-k8s.io/v1alpha2")
	provider.SetKind(kind)
	provider.SetName(name)
	provider.SetNamespace(namespace)

	return provider
}

// becomesInstalled waits until the operator sets its condition for this.
func (m *management) becomesInstalled(kind, name, namespace string) {
	m.t.Helper()
	provider := m.provider(kind, name, namespace)
	wait.For(m.t, kind+" "+name+" is installed", func() error {
		if err := m.client.Get(m.t.Context(), client.ObjectKeyFromObject(provider), provider); err != nil {
			return err
		}

		list, _, _ := unstructured.NestedSlice(provider.Object, "status", "conditions")
		for _, entry := range list {
			condition, _ := entry.(map[string]any)
			if condition["type"] == "ProviderInstalled" && condition["status"] == "True" {
				return nil
			}
		}

		return fmt.Errorf("conditions %v", list)
	})
}

// setReady marks the Deployments of a provider as running.
func (m *management) setReady(kind, name, namespace string) {
	m.t.Helper()
	provider := m.provider(kind, name, namespace)
	wait.For(m.t, "the condition Ready is set", func() error {
		if err := m.client.Get(m.t.Context(), client.ObjectKeyFromObject(provider), provider); err != nil {
			return err
		}

		list, _, _ := unstructured.NestedSlice(provider.Object, "status", "conditions")
		list = append(list, map[string]any{
			"type": "Ready", "status": "True", "reason": "Test", "message": "",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		})

		if err := unstructured.SetNestedSlice(provider.Object, list, "status", "conditions"); err != nil {
			return err
		}

		return m.client.Status().Update(m.t.Context(), provider)
	})
}

// compress packs components for the operator, because they may exceed the size of a ConfigMap.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer

	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}

	err := writer.Close()

	return out.Bytes(), err
}
