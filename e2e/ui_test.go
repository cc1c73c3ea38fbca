package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/browser"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// ui starts olvmctl ui in the namespace of the journey, and returns the URL that olvmctl prints. At the end of the
// test, Ctrl-C ends olvmctl.
func (j *journey) ui(args ...string) (url string) {
	j.t.Helper()
	read, write, err := os.Pipe()
	check.Error(j.t, err, "")

	command := j.command(write, io.Discard, append([]string{"ui", "-n", j.namespace}, args...)...)
	check.Error(j.t, command.Start(), "")
	check.Error(j.t, write.Close(), "")
	j.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGINT)
		if err := command.Wait(); err != nil {
			j.t.Errorf("olvmctl ui after Ctrl-C: %v", err)
		}
	})

	line, err := bufio.NewReader(read).ReadString('\n')
	check.Error(j.t, err, "")

	return strings.TrimSpace(line)
}

// TestThePageFollowsAManagementCluster shows a management cluster in a browser. Meanwhile, a user creates a cluster,
// and an administrator of the engine stops a VM.
func TestThePageFollowsAManagementCluster(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster for a browser to look at")
	t.Parallel()
	j := newJourney(t, suite.plane)
	j.clusterFile("page", 86, 1, "\n    serviceLoadBalancers: {ipAddresses: 127.20.86.200-127.20.86.209}")

	v := browser.OpenPage(t, j.ui("--engine", "--kubeconfig", suite.plane.Kubeconfig), 1400, 900)
	v.WaitUntil(`document.querySelector('#clusters').innerText.includes('There are no clusters')`)

	t.Cleanup(func() {
		j.does(
			"delete", j.name, "-n", j.namespace, "--kubeconfig", suite.plane.Kubeconfig, "--timeout", patience, "--yes",
		)
	})
	_, said := j.does("start", "-f", j.file, "--kubeconfig", suite.plane.Kubeconfig, "--timeout", patience)
	check.Contains(t, "start", said, "Installing load balancers for Services: ok")

	// It appeared without a reload: the running machines, the engine's view of their VMs, and the events.
	v.WaitUntil(
		`document.querySelectorAll('a.machine').length === 2 && document.querySelector('.cluster').innerText.includes('Available')`,
	)
	v.WaitUntil(
		`[...document.querySelectorAll('a.machine')].every(m => m.innerText.includes('VM up') && m.innerText.includes('engine: up'))`,
	)
	v.WaitUntil(`document.querySelector('#engine-list').innerText.includes('2 VMs of ours')`)
	v.WaitUntil(`document.querySelector('#event-list').innerText.includes('SuccessfulApply')`)

	var worker engine.VM

	for _, vm := range j.vms() {
		if strings.Contains(vm.Name, "-md-") {
			worker = vm
		}
	}

	v.RunScript(fmt.Sprintf(`location.hash = '#Machine/%s/%s'`, j.namespace, worker.Name))
	v.WaitUntil(`document.querySelector('#details-steps').innerText.includes('Terraform apply')`)
	v.WaitUntil(
		`[...document.querySelectorAll('.change')].some(c => c.innerText.includes('ovirt_vm.this') && c.dataset.action === 'create')`,
	)
	v.WaitUntil(`document.querySelector('#details-steps').innerText.includes('WaitingForBootstrapData')`) // transient

	check.Error(t, j.engine.StopVM(t.Context(), worker.ID, false), "")
	v.WaitUntil(`document.querySelector('#trouble').innerText.includes('` + worker.Name + `')`)
	v.WaitUntil(`document.querySelector('#details-conditions').innerText.includes('VirtualMachineNotRunning')`)
	v.WaitUntil(
		`document.querySelector('#details-commands').innerText.includes('kubectl delete machine.cluster.x-k8s.io ` +
			worker.Name + `')`,
	)

	check.Length(t, "what the console has", v.ListComplaints(), 0)
}

// TestThePageHasTheRightsOfTheKubeconfig opens the page for users with limited rights, and for users without rights.
func TestThePageHasTheRightsOfTheKubeconfig(t *testing.T) {
	t.Parallel()
	j := newJourney(t, suite.plane)
	j.namespace = "page-rights"

	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: "viewer"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"},
			Resources: []string{"*"},
			Verbs:     []string{"get", "list", "watch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: "viewer"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "viewer"},
			Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "viewer"}},
		},
	} {
		if err := suite.plane.Client.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}

	url := j.ui("--kubeconfig", j.as("viewer"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"events", nil)
	check.Error(t, err, "")
	response, err := http.DefaultClient.Do(request)
	check.Error(t, err, "")
	defer response.Body.Close()

	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: {") { //nolint:revive // up to the first state
	}

	check.Contains(t, "the state", lines.Text(), "No events: ")
	check.Contains(t, "the state", lines.Text(), "No KubeadmControlPlanes: ")
	check.Lacks(t, "the state", lines.Text(), "No Machines: ")
	check.Contains(t, "the state", lines.Text(), `{"kind":"Machines","state":"live"}`)
	check.Contains(t, "the state", lines.Text(), `{"kind":"events","state":"not watched","why":`)

	code, _, problems := j.olvmctl("ui", "-A", "--kubeconfig", j.as("viewer"))
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "stderr", problems, "failed to list Clusters in all namespaces; use -n to select one")

	code, _, problems = j.olvmctl("ui", "--address", "0.0.0.0:0", "-n", j.namespace, "--kubeconfig", j.as("viewer"))
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "stderr", problems, "loopback")
}

// as returns a kubeconfig of the plane for another user.
func (j *journey) as(user string) (path string) {
	j.t.Helper()
	content, err := os.ReadFile(suite.plane.Kubeconfig)
	check.Error(j.t, err, "")

	var config map[string]any
	check.Error(j.t, yaml.Unmarshal(content, &config), "")

	for _, entry := range config["users"].([]any) {
		entry.(map[string]any)["user"].(map[string]any)["as"] = user
	}

	content, err = yaml.Marshal(config)
	check.Error(j.t, err, "")

	return j.write(user+".kubeconfig", string(content))
}
