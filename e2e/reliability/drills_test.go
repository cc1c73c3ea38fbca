package reliability

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// drill runs the commands of a section of docs/operate/emergencies.md for a site. Commands about finalizers also list
// objects that are already deleted, so only the remaining objects show the result.
func drill(t *testing.T, s *testsite.Site, section, machine string) {
	t.Helper()
	commands := strings.Join(testenv.ReadSection(t, "docs/operate/emergencies.md", section), "")
	kubectl, err := suite.Tools.Path("plane", "kubectl")
	check.Error(t, err, "")

	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	user, err := suite.API.Env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	check.Error(t, err, "")
	content, err := user.KubeConfig()
	check.Error(t, err, "")
	check.Error(t, os.WriteFile(kubeconfig, content, 0o600), "")

	text := strings.NewReplacer("NAMESPACE", s.Namespace, "NAME-ovirt-credentials", "creds", "NAME-ovirt-ca", "ca",
		"NAME", "demo", "MACHINE", machine).Replace(commands)
	command := exec.CommandContext(t.Context(), "sh", "-ux", "-c", text)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+dir,
		"PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	t.Logf("%s\n%v", out, err)
}

// packed compresses a state in the way of its Secret.
func packed(t *testing.T, state string) []byte {
	t.Helper()

	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, err := writer.Write([]byte(state))
	check.Error(t, errors.Join(err, writer.Close()), "")

	return out.Bytes()
}

// TestDrillOfAStateThatCannotBeUsed gives up a state as documented: once because of unreadable data, and once because
// of another lineage. The manager finds the VM again, but does not change it.
func TestDrillOfAStateThatCannotBeUsed(t *testing.T) {
	testenv.SkipInShort(t, "runs the commands of docs/operate/emergencies.md")
	t.Parallel()

	for name, spoil := range map[string]func(*testing.T, *corev1.Secret){
		"no state": func(_ *testing.T, secret *corev1.Secret) { secret.Data["tfstate"] = []byte("spoiled") },
		"another lineage": func(t *testing.T, secret *corev1.Secret) {
			t.Helper()
			state, err := tfstate.DecodeSecret(secret)
			check.Error(t, err, "")
			other := strings.ReplaceAll(string(state.Raw), state.Lineage, "00000000-1111-2222-3333-444444444444")
			secret.Data["tfstate"] = packed(t, other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, withoutGroups)
			s := b.site.ForSubtest(t)
			m := s.CreateMachine("one", full)
			b.expectReady(s, m)
			provider := m.Spec.ProviderID

			secret := &corev1.Secret{ObjectMeta: s.NewMeta(tfstate.SecretName(m))}
			testsite.UpdateObject(s, secret, func(secret *corev1.Secret) { spoil(t, secret) })
			testsite.UpdateObject(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Memory = "5GB" })
			s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.StateInvalidReason)

			drill(t, s, "A state that cannot be used", m.Name)
			s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "True/"+infrav1.AppliedReason)
			check.Equal(t, "the provider ID", m.Spec.ProviderID, provider)
			b.expectOne(s, m)
			s.Delete(m)
			s.ExpectGone(m)
			b.expectNone(s)
		})
	}
}

// TestDrillOfAnEngineThatIsLost releases a cluster whose engine is unreachable, while a manager runs. It does so with
// and without a deletion in progress. The VMs stay, but none of the provider's objects for the cluster is left.
func TestDrillOfAnEngineThatIsLost(t *testing.T) {
	testenv.SkipInShort(t, "runs the commands of docs/operate/emergencies.md")
	t.Parallel()

	for name, begun := range map[string]bool{"it is in use": false, "its deletion hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, withoutGroups)
			s := b.site.ForSubtest(t)
			m := s.CreateMachine("one", full)
			b.expectReady(s, m)
			s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
			b.engine.cut(all)

			if begun {
				s.Delete(m)
				s.ExpectCondition(m, infrav1.DeletingCondition, "True/"+infrav1.WaitingForEngineReason)
			}

			drill(t, s, "Finalizers, in order", m.Name)
			b.expectLetGo(s, m)
			b.engine.cut(nil)
			check.Length(t, "VMs", s.Sim.ListVMs(), 1)
		})
	}
}

// TestDrillOfFinalizersWithoutAManager releases a cluster while no manager runs.
func TestDrillOfFinalizersWithoutAManager(t *testing.T) {
	testenv.SkipInShort(t, "runs the commands of docs/operate/emergencies.md")
	t.Parallel()
	b := newBench(t, nil)
	s := b.site.ForSubtest(t)
	s.Label = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	m := s.CreateMachine("one", full)
	b.expectReady(s, m)
	s.ExpectCondition(s.OLVM, infrav1.ReadyCondition, "True/Ready")
	b.Process.Kill()

	drill(t, s, "Finalizers, in order", m.Name)
	b.expectLetGo(s, m)
	check.Length(t, "VMs", s.Sim.ListVMs(), 1)
}

// expectLetGo waits until no object with one of our finalizers is left.
func (b *bench) expectLetGo(s *testsite.Site, m *infrav1.OLVMMachine) {
	s.T.Helper()
	s.ExpectGone(m)
	s.ExpectGone(s.OLVM)
	s.ExpectGone(s.Cluster)
	s.Eventually("the states are gone", func() error {
		if left := s.ListAllStates(); len(left) > 0 {
			return fmt.Errorf("%s is left", left[0].Name)
		}

		return nil
	})

	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: s.NewMeta("creds")}, &corev1.ConfigMap{ObjectMeta: s.NewMeta("ca")},
	} {
		s.Eventually(fmt.Sprintf("%T %s is let go", object, object.GetName()), func() error {
			err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				return errors.New("it is gone")
			}

			if err == nil && slices.ContainsFunc(object.GetFinalizers(), func(name string) bool {
				return strings.Contains(name, infrav1.GroupVersion.Group)
			}) {
				err = fmt.Errorf("it has the finalizers %v", object.GetFinalizers())
			}

			return err
		})
	}
}
