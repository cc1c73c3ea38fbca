package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// journey is a user with a cluster file, olvmctl, a home folder and an own engine.
type journey struct {
	t          *testing.T
	dir, file  string
	name       string
	namespace  string
	connection ovirtsim.Connection
	engine     *engine.Client
	env        []string
	// log receives olvmctl's progress messages.
	log *os.File
}

// newJourney starts an engine. The engine's workload clusters use the API server of the plane behind. The parameter
// more contains flags of the simulator.
func newJourney(t *testing.T, behind *simplane.Plane, more ...string) *journey {
	t.Helper()
	j := &journey{t: t, dir: t.TempDir()}
	var err error
	if j.log, err = os.Create(filepath.Join(filepath.Dir(suite.binDir), t.Name()+".log")); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = j.log.Close() })
	path := filepath.Join(j.dir, "ovirtsim.json")
	inventory := ovirtsim.DefaultInventory()
	templates := &inventory.DataCenters[0].Templates
	next := (*templates)[1] // this image supports Ignition
	next.Name, next.Kubernetes = "ock-1.37", "v1.37.0"
	*templates = append(*templates, next)
	content, err := yaml.Marshal(inventory)
	if err != nil {
		t.Fatal(err)
	}

	sim, err := localplane.StartProcess(
		"sim",
		j.dir,
		filepath.Join(suite.binDir, "ovirtsim"),
		append([]string{
			"--connection=" + path,
			"--speed=3",
			"--verbose",
			"--inventory=" + j.write("inventory.yaml", string(content)),
			"--workload-kubeconfig=" + behind.Kubeconfig,
		}, more...),
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(j.dir, "sim.log")); t.Failed() && err == nil {
			t.Logf("the simulator says:\n%s", log)
		}

		sim.Stop(10 * time.Second)
	})
	err = sim.WaitUntil(t.Context(), "serving", func() bool { _, err := os.Stat(path); return err == nil })
	if err != nil {
		t.Fatal(err)
	}

	if content, err = os.ReadFile(path); err == nil {
		err = json.Unmarshal(content, &j.connection)
	}

	if err != nil {
		t.Fatal(err)
	}

	ca, err := os.ReadFile(j.connection.CAFile)
	if err != nil {
		t.Fatal(err)
	}

	j.engine, err = engine.New(engine.Config{
		URL:      j.connection.URL,
		Username: j.connection.Username,
		Password: j.connection.Password,
		CA:       ca,
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = j.engine.Logout(context.Background()) })
	executable, err := suite.tools.FindExecutor(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	j.env = append(
		os.Environ(),
		"HOME="+j.dir,
		"XDG_CONFIG_HOME="+j.dir,
		"XDG_STATE_HOME="+j.dir,
		"XDG_CACHE_HOME="+filepath.Dir(toolchain.CacheDir()),
		"KUBECONFIG=",
		testenv.WriteDefaults(t, j.dir),
		"CAPOLVM_TERRAFORM="+executable.Path,
		"GOPROXY=off",
		"OLVM_USERNAME="+j.connection.Username,
		"OLVM_PASSWORD="+j.connection.Password,
		"OLVM_URL="+j.connection.URL,
	)

	return j
}

// write writes a file in the home folder.
func (j *journey) write(name, content string) string {
	j.t.Helper()
	path := filepath.Join(j.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		j.t.Fatal(err)
	}

	return path
}

// clusterFile writes the cluster file for a cluster in 127.20.<subnet>.0/24.
func (j *journey) clusterFile(name string, subnet, workers int, more string) {
	j.t.Helper()
	j.name, j.namespace = name, "journey-"+name
	machine := func(first int) string {
		return fmt.Sprintf(`
      olvmOvirtClusterName: Default
      vmTemplateName: ock-1.36
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        memory: 4GB
        network:
          ipv4: {subnet: 127.20.%d.0/24, ipAddresses: 127.20.%d.%d-127.20.%d.%d}`, subnet, subnet, first, subnet, first+
			9)
	}
	j.file = j.write("cluster.yaml", fmt.Sprintf(`name: %s
provider: olvm
virtualIp: 127.20.%d.5
kubernetesVersion: 1.36.1
workerNodes: %d
providers:
  olvm:
    namespace: %s
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: %s, serverCAPath: %s}%s
    controlPlaneMachine:%s
    workerMachine:%s
`, name, subnet, workers, j.namespace, j.connection.URL, j.connection.CAFile, more, machine(10), machine(20)))
}

// olvmctl runs the command, and returns its exit code and its output.
func (j *journey) olvmctl(args ...string) (code int, out, problems string) {
	j.t.Helper()

	var stdout, stderr bytes.Buffer
	command := j.command(&stdout, &stderr, args...)
	err := command.Run()
	if exited := (&exec.ExitError{}); err != nil && !errors.As(err, &exited) {
		j.t.Fatal(err)
	}

	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// command returns a call of olvmctl that is not started yet.
func (j *journey) command(stdout, stderr io.Writer, args ...string) *exec.Cmd {
	// This also runs at the end of the test.
	command := exec.CommandContext(
		context.WithoutCancel(j.t.Context()),
		filepath.Join(suite.binDir, "olvmctl"),
		args...)
	command.Env, command.Dir = j.env, j.dir
	command.Stdout, command.Stderr = stdout, io.MultiWriter(stderr, j.log)

	return command
}

// does runs olvmctl and returns its output. The command must succeed.
func (j *journey) does(args ...string) (out, problems string) {
	j.t.Helper()
	code, out, problems := j.olvmctl(args...)
	if code != 0 {
		j.t.Fatalf("olvmctl %s: exit code %d\n%s\n%s", strings.Join(args, " "), code, out, problems)
	}

	return out, problems
}

// vms returns the engine's VMs by ID, without the VMs that exist from the beginning.
func (j *journey) vms() map[string]engine.VM {
	j.t.Helper()
	list, err := j.engine.ListVMs(j.t.Context())
	if err != nil {
		j.t.Fatal(err)
	}

	out := map[string]engine.VM{}
	for _, vm := range list {
		out[vm.ID.String()] = vm
	}

	return out
}

// change replaces texts in the cluster file.
func (j *journey) change(texts ...string) {
	j.t.Helper()
	content, err := os.ReadFile(j.file)
	if err != nil {
		j.t.Fatal(err)
	}

	j.write(filepath.Base(j.file), strings.NewReplacer(texts...).Replace(string(content)))
}

// chart writes a chart. It also writes a list of add-ons with this chart and a value for it.
func (j *journey) chart(name, text string) string {
	j.t.Helper()
	if err := os.MkdirAll(filepath.Join(j.dir, name, "templates"), 0o755); err != nil {
		j.t.Fatal(err)
	}

	j.write(name+"/Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: 1.0.0\n")
	j.write(
		name+"/templates/a.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ "+
			".Values.text | quote }}}\n",
	)

	return j.write(
		"add-ons.yaml",
		fmt.Sprintf("- name: said\n  chart: %s\n  namespace: talk\n  values: {text: %s}\n", name, text),
	)
}

// neighbour creates another Cluster, which waits for its infrastructure forever. The function remove deletes this
// Cluster.
func (j *journey) neighbour(in *simplane.Plane, namespace string) (remove func()) {
	j.t.Helper()
	err := in.Client.Create(j.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		j.t.Fatal(err)
	}

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "neighbour"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind:     "OLVMCluster",
		Name:     "neighbour",
	}
	if err := in.Client.Create(j.t.Context(), cluster); err != nil {
		j.t.Fatal(err)
	}

	return func() {
		j.t.Helper()
		if err := in.Client.Delete(j.t.Context(), cluster); err != nil {
			j.t.Fatal(err)
		}

		wait.For(j.t, "the neighbour is gone", func() error {
			err := in.Client.Get(j.t.Context(), client.ObjectKeyFromObject(cluster), cluster)
			if err == nil {
				return errors.New("it is there")
			}

			return client.IgnoreNotFound(err)
		})
	}
}

// expectRelease checks the objects of a chart, and the number of revisions of its release.
func (j *journey) expectRelease(in *simplane.Plane, text string, revisions int) {
	j.t.Helper()
	var made corev1.ConfigMap
	err := in.Client.Get(j.t.Context(), client.ObjectKey{Namespace: "talk", Name: "said"}, &made)
	if err != nil || made.Data["text"] != text {
		j.t.Errorf("the chart has made %v, %v", made.Data, err)
	}

	var list corev1.SecretList
	err = in.Client.List(j.t.Context(), &list, client.InNamespace("talk"), client.MatchingLabels{
		"owner": "helm",
		"name":  "said",
	})
	if err != nil || len(list.Items) != revisions {
		j.t.Errorf("%d revisions, %v", len(list.Items), err)
	}
}

// expectUpgrade changes the version and the template in the cluster file, and waits until all machines are replaced.
func (j *journey) expectUpgrade(kubeconfig string) {
	j.t.Helper()
	j.change("kubernetesVersion: 1.36.1", "kubernetesVersion: 1.37.0", "ock-1.36", "ock-1.37")
	if code, _, problems := j.olvmctl("start", "-f", j.file, "--kubeconfig",
		kubeconfig); code != 1 || !strings.Contains(problems, "olvmctl upgrade "+j.name) {
		j.t.Errorf("start replaces machines: %d, %s", code, problems)
	}

	upgrade := []string{
		"upgrade",
		j.name,
		"-n",
		j.namespace,
		"--kubeconfig",
		kubeconfig,
		"-f",
		j.file,
		"--timeout",
		patience,
	}
	code, out, problems := j.olvmctl(append(upgrade, "--dry-run")...)
	if code != 2 || strings.Count(out, " rolls out 1 of 1 machines (version v1.36.1 becomes v1.37.0)\n") != 2 {
		j.t.Errorf("exit code %d\n%s\n%s", code, out, problems)
	}

	if code, _, problems := j.olvmctl("upgrade", j.name, "-n", j.namespace, "--kubeconfig", kubeconfig, "--vm-template",
		"no-such", "--dry-run"); code != 1 || !strings.Contains(problems, `"no-such"`) {
		j.t.Errorf("a template that the engine has not: %d, %s", code, problems)
	}

	if code, _, problems := j.olvmctl(upgrade...); code != 1 || !strings.Contains(problems, "--yes") {
		j.t.Errorf("nobody was asked: %d, %s", code, problems)
	}

	j.expectUpgradeStopsAtAnOldImage(kubeconfig)

	before := j.vms()
	j.does(append(upgrade, "--yes")...)

	after := j.vms()
	for id, vm := range after {
		if _, old := before[id]; old || len(after) != len(before) {
			j.t.Errorf("VM %s is not replaced: %d VMs, before %d", vm.Name, len(after), len(before))
		}
	}

	if out, _ := j.does(upgrade...); out != j.name+" is up to date\n" {
		j.t.Errorf("a second time:\n%s", out)
	}

	j.does("start", "-f", j.file, "--kubeconfig", kubeconfig)

	for id := range j.vms() {
		if _, there := after[id]; !there {
			j.t.Error("start has replaced a machine")
		}
	}
}

// expectNoWarnings verifies that our manager has recorded no warnings, because there was no problem.
func (j *journey) expectNoWarnings(in *simplane.Plane) {
	j.t.Helper()
	var list eventsv1.EventList
	if err := in.Client.List(j.t.Context(), &list, client.InNamespace(j.namespace)); err != nil {
		j.t.Fatal(err)
	}

	ours := 0

	for i := range list.Items {
		e := &list.Items[i]
		if !strings.HasPrefix(e.Regarding.Kind, "OLVM") {
			continue
		}

		if ours++; e.Type == corev1.EventTypeWarning {
			j.t.Errorf("a warning about %s %s: %s: %s", e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
		}
	}

	if ours == 0 {
		j.t.Error("there are no events at all")
	}
}

// expectUpgradeStopsAtAnOldImage requests the next version, but keeps an image with a kubelet of the old version.
func (j *journey) expectUpgradeStopsAtAnOldImage(kubeconfig string) {
	j.t.Helper()
	on := []string{j.name, "-n", j.namespace, "--kubeconfig", kubeconfig}

	code, _, problems := j.olvmctl(append([]string{"upgrade", "--kubernetes-version", "1.37.0", "--yes", "--timeout", patience},
		on...)...)
	check.Equal(j.t, "the exit code of an upgrade with an old image", code, 1)
	check.Contains(j.t, "what upgrade says", problems, "cannot make progress: Machine ")
	check.Contains(j.t, "what upgrade says", problems, "its node has kubelet v1.36.1, but v1.37.0 is requested; VM template "+
		"ock-1.36 contains another version")

	out, _ := j.does(append([]string{"describe"}, on...)...)
	check.Contains(j.t, "the tree", out, " up to date, v1.37.0\n")
	check.Contains(j.t, "the tree", out, "! OtherKubelet: ")
}

// expectRefusal starts the cluster with a wrong password. The management cluster must stay unchanged.
func (j *journey) expectRefusal(in *simplane.Plane) {
	j.t.Helper()
	secret := func() (out corev1.Secret) {
		if in != nil {
			err := in.Client.Get(j.t.Context(), client.ObjectKey{
				Namespace: j.namespace,
				Name:      j.name + "-ovirt-credentials",
			}, &out)
			if err != nil {
				j.t.Error(err)
			}
		}

		return out
	}
	before, env := secret(), j.env
	j.env = append(slices.Clone(env), "OLVM_PASSWORD=wrong")
	code, _, problems := j.olvmctl("start", "-f", j.file)
	if code != 1 || !strings.Contains(problems, "OLVM_USERNAME and OLVM_PASSWORD: engine refuses user") ||
		strings.Contains(problems, "Applying the manifests") {
		j.t.Errorf("a wrong password: %d, %s", code, problems)
	}

	j.env = env
	if secret().ResourceVersion != before.ResourceVersion {
		j.t.Error("the credentials are changed")
	}
}

// foreignKubeconfig writes the kubeconfig of another cluster in place of the cluster's own.
func (j *journey) foreignKubeconfig() (path string) {
	j.t.Helper()
	if err := os.MkdirAll(filepath.Join(j.dir, ".kube"), 0o700); err != nil {
		j.t.Fatal(err)
	}

	return j.write(
		".kube/kubeconfig."+j.name,
		"apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: "+
			"https://127.20.99.5:6443}}]\nusers: [{name: a}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n",
	)
}

// expectRest verifies that another delete removes what an interrupted delete has left.
func (j *journey) expectRest(in *simplane.Plane) {
	j.t.Helper()
	j.name, j.namespace = "gone", "journey-gone"
	foreign := j.foreignKubeconfig()
	made := map[string]string{"app.kubernetes.io/managed-by": "olvmctl"}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace, Labels: made}}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: "gone-ovirt-credentials"}}
	for _, object := range []client.Object{namespace, secret} {
		if err := in.Client.Create(j.t.Context(), object); err != nil {
			j.t.Fatal(err)
		}
	}

	run := []string{"delete", "gone", "-n", j.namespace, "--kubeconfig", in.Kubeconfig, "--yes"}
	if code, _, problems := j.olvmctl(run...); code != 1 || !strings.Contains(problems, "Cluster gone not found") {
		j.t.Errorf("start has not made the Secret: %d, %s", code, problems)
	}

	secret.Labels = made
	if err := in.Client.Update(j.t.Context(), secret); err != nil {
		j.t.Fatal(err)
	}

	_, problems := j.does(run...)
	if !strings.Contains(problems, "kept "+foreign) || !strings.Contains(problems, "deleted namespace journey-gone") {
		j.t.Errorf("what it says of the rest:\n%s", problems)
	}

	if err := in.Client.Get(j.t.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
		j.t.Errorf("the credentials are left: %v", err)
	}

	if _, err := os.Stat(foreign); err != nil {
		j.t.Errorf("the kubeconfig of another cluster: %v", err)
	}

	if code, _, problems := j.olvmctl(run...); code != 1 || !strings.Contains(problems, "Cluster gone not found") {
		j.t.Errorf("nothing is left: %d, %s", code, problems)
	}
}

// expectLogs verifies that the logs contain each machine's run that created its VM.
func (j *journey) expectLogs(kubeconfig string) {
	j.t.Helper()
	var tree struct {
		Children []struct{ Children []struct{ Name string } }
	}
	out, _ := j.does("describe", j.name, "-n", j.namespace, "--kubeconfig", kubeconfig, "-o", "json")
	if err := json.Unmarshal([]byte(out), &tree); err != nil {
		j.t.Fatal(err)
	}

	shown := 0

	for _, owner := range tree.Children {
		for _, machine := range owner.Children {
			shown++
			out, _ := j.does("logs", machine.Name, "-n", j.namespace, "--kubeconfig", kubeconfig)
			if !strings.Contains(out, " OLVMMachine SuccessfulApply: ") {
				j.t.Errorf("the logs of %s:\n%s", machine.Name, out)
			}
		}
	}

	if shown != 2 {
		j.t.Errorf("%d machines", shown)
	}

	code, _, problems := j.olvmctl("logs", "none", "-n", j.namespace, "--kubeconfig", kubeconfig)
	if code != 1 || !strings.Contains(problems, "Machine none not found") {
		j.t.Errorf("a machine that is none: %d, %s", code, problems)
	}
}

// expectBundle collects all diagnostics of the cluster, and verifies that they contain no secrets.
func (j *journey) expectBundle(in *simplane.Plane) {
	j.t.Helper()
	path := filepath.Join(j.dir, "bundle.tar.gz")
	run := []string{"support-bundle", j.name, "-n", j.namespace, "--kubeconfig", in.Kubeconfig, "--engine", "--out", path}

	if code, _, problems := j.olvmctl(run...); code != 1 || !strings.Contains(problems, "use --yes") {
		j.t.Errorf("nobody was asked: %d, %s", code, problems)
	}

	_, listed := j.does(append(run, "--yes")...)
	files := filesOf(j.t, path)
	check.Contains(j.t, "what it is", files["README.txt"], "Cluster "+j.namespace+"/"+j.name+" at ")
	check.Contains(j.t, "what is missing", files["README.txt"], "manager logs: ")
	check.Contains(j.t, "the tree", files["describe.txt"], "Cluster/"+j.name)

	for _, vm := range j.vms() {
		check.Contains(j.t, "the engine's view", files["engine/"+vm.Name+".txt"], "VM "+vm.Name+" "+vm.ID.String()+" is up")
		check.Contains(j.t, "the engine's events", files["engine/"+vm.Name+".txt"], " normal ")
		check.Contains(j.t, "its run", files["machines/"+vm.Name+".txt"], "SuccessfulApply")
		check.Contains(j.t, "its state", files["states/tfstate-default-"+vm.Name+".txt"], "id = "+vm.ID.String())
		check.Contains(j.t, "its object", files["objects/OLVMMachine/"+vm.Name+".yaml"], "olvm://"+vm.ID.String())
		check.Contains(j.t, "the list", listed, "objects/OLVMMachine/"+vm.Name+".yaml")
	}

	var secrets corev1.SecretList
	check.Error(j.t, in.Client.List(j.t.Context(), &secrets, client.InNamespace(j.namespace)), "")

	looked := 0

	for i := range secrets.Items {
		for key, value := range secrets.Items[i].Data {
			if key != "password" && key != "tls.key" && key != "token-secret" {
				continue
			}

			looked++

			for name, content := range files {
				for _, line := range strings.Split(strings.TrimSpace(string(value)), "\n") {
					if !strings.HasPrefix(line, "-----") && strings.Contains(content, line) {
						j.t.Errorf("%s has a part of %s in Secret %s", name, key, secrets.Items[i].Name)
					}
				}
			}
		}
	}

	if looked < 5 { // these are the password and the keys of four authorities
		j.t.Errorf("%d secrets were looked for", looked)
	}
}

// filesOf returns the files in an archive by their paths in the archive's folder.
func filesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	check.Error(t, err, "")
	defer file.Close()

	unpacked, err := gzip.NewReader(file)
	check.Error(t, err, "")

	out := map[string]string{}

	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}

		check.Error(t, err, "")
		content, err := io.ReadAll(archive)
		check.Error(t, err, "")

		_, name, _ := strings.Cut(header.Name, "/")
		out[name] = string(content)
	}
}

// TestTheJourney accompanies a new user from a cluster file to a cluster that manages itself, and beyond.
func TestTheJourney(t *testing.T) {
	testenv.SkipInShort(t, "makes a cluster that manages itself, and upgrades it")
	t.Parallel()
	own := secondPlane(t, "own")
	j := newJourney(t, own)
	j.clusterFile("crowd", 81, 1, "")
	remove := j.neighbour(suite.plane, j.namespace)
	if code, _, problems := j.olvmctl(
		"start", "-f", j.file, "--kubeconfig", suite.plane.Kubeconfig, "--self-managed",
	); code != 1 || !strings.Contains(problems, "the namespace of crowd also contains journey-crowd/neighbour; ") ||
		len(j.vms()) != 0 {
		t.Errorf("it would take a neighbour along: %d, %s", code, problems)
	}

	remove()
	j.clusterFile("trip", 81, 1, "")
	addOn := j.write(
		"cni.yaml",
		"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cni, namespace: cni}\nspec:\n  selector: "+
			"{matchLabels: {app: cni}}\n  template:\n    metadata: {labels: {app: cni}}\n    spec: {containers: "+
			"[{name: cni, image: example.com/cni}]}\n"+
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: cni}\n",
	)
	list := j.chart("greeting", "hello")

	foreign := j.foreignKubeconfig()
	if code, _, problems := j.olvmctl("start", "-f", j.file, "--kubeconfig",
		suite.plane.Kubeconfig); code != 1 || !strings.Contains(problems, "--kubeconfig-out") || len(j.vms()) != 0 {
		t.Errorf("it would write over the kubeconfig of another cluster: %d, %s", code, problems)
	}

	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}

	env := j.env
	j.env = append(slices.Clone(env), "OLVM_CSI_USERNAME=storage@internal", "OLVM_CSI_PASSWORD=of-the-storage-driver")
	out, problems := j.does("start", "-f", j.file, "--kubeconfig", suite.plane.Kubeconfig, "--self-managed",
		"--timeout", patience, "--add-on", addOn, "--add-ons", list, "-o", "json")
	j.env = env // the folder for drivers stays
	t.Log(problems)
	var started struct {
		Name, Kubeconfig, ManagementKubeconfig string
		Nodes                                  int
	}
	err := json.Unmarshal([]byte(out), &started)
	check.Error(t, err, "")
	check.Equal(t, "started.Name", started.Name, "trip")
	check.Equal(t, "started.Nodes", started.Nodes, 2)
	check.Equal(t, "started.ManagementKubeconfig", started.ManagementKubeconfig, started.Kubeconfig)
	if t.Failed() {
		t.FailNow()
	}

	info, err := os.Stat(started.Kubeconfig)
	check.Error(t, err, "")
	check.Equal(t, "info.Mode().Perm()", info.Mode().Perm(), 0o600)
	check.Equal(t, "started.Kubeconfig", started.Kubeconfig, filepath.Join(j.dir, ".kube", "kubeconfig.trip"))

	key := client.ObjectKey{Namespace: "journey-trip", Name: "trip"}
	if err := suite.plane.Client.Get(t.Context(), key, &clusterv1.Cluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("the cluster is still where it was: %v", err)
	}

	if err := own.Client.Get(t.Context(), key, &clusterv1.Cluster{}); err != nil {
		t.Errorf("the cluster is not its own: %v", err)
	}

	if err := own.Client.Get(t.Context(), client.ObjectKey{Name: "cni"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the add-on: %v", err)
	}

	var credentials corev1.Secret
	err = own.Client.Get(t.Context(), client.ObjectKey{Namespace: "ovirt-csi", Name: "ovirt-csi-creds"}, &credentials)
	check.Error(t, err, "")
	check.Equal(t, `string(credentials.Data["ovirt_password"])`, string(credentials.Data["ovirt_password"]), "of-the-storage-driver")
	check.Equal(t, `string(credentials.Data["ovirt_username"])`, string(credentials.Data["ovirt_username"]), "storage@internal")
	check.Equal(t, `string(credentials.Data["ovirt_url"])`, string(credentials.Data["ovirt_url"]), j.connection.URL+"/api")

	err = own.Client.Get(t.Context(), client.ObjectKey{
		Namespace: "ovirt-csi",
		Name:      "ovirt-csi-node-plugin",
	}, &appsv1.DaemonSet{})
	if err != nil {
		t.Errorf("the storage driver: %v", err)
	}

	j.expectRelease(own, "hello", 1)

	before := j.vms()
	if _, problems := j.does("start", "-f", j.file, "--kubeconfig", suite.plane.Kubeconfig, "--self-managed",
		"--timeout", patience, "--add-on", addOn, "--add-ons", list); !strings.Contains(problems, "trip manages itself") {
		t.Errorf("a second time:\n%s", problems)
	}

	if out, _ := j.does("plan", "--kubeconfig", started.Kubeconfig, "-n",
		"journey-trip"); strings.Count(out, ": nothing would change\n") != 2 {
		t.Errorf("a second plan, of states that moved along:\n%s", out)
	}

	for id, vm := range j.vms() {
		if before[id].StartTime != vm.StartTime || len(before) != 2 {
			t.Errorf("a second time has changed VM %s: %+v", vm.Name, vm)
		}
	}

	j.expectRefusal(own)
	j.expectRelease(own, "hello", 1)
	j.does("start", "-f", j.file, "--add-ons", j.chart("greeting", "good bye"))
	j.expectRelease(own, "good bye", 2)

	j.expectUpgrade(started.Kubeconfig)
	j.expectNoWarnings(own)
	j.expectLogs(started.Kubeconfig)
	j.expectBundle(own)

	if code, _, problems := j.olvmctl("delete", "trip", "-n", "journey-trip", "--kubeconfig", started.Kubeconfig,
		"--driver", "existing", "--yes"); code != 1 || !strings.Contains(problems, "--to-kubeconfig") {
		t.Errorf("it deletes itself: %d, %s", code, problems)
	}

	remove = j.neighbour(own, "elsewhere")
	if code, _, problems := j.olvmctl(
		"delete", "trip", "-n", "journey-trip", "--kubeconfig", started.Kubeconfig, "--to-kubeconfig",
		suite.plane.Kubeconfig, "--yes",
	); code != 1 ||
		!strings.Contains(problems, "also manages other clusters: elsewhere/neighbour; ") {
		t.Errorf("it would leave a neighbour without a manager: %d, %s", code, problems)
	}

	remove()
	_, problems = j.does("delete", "trip", "-n", "journey-trip", "--kubeconfig", started.Kubeconfig, "--to-kubeconfig",
		suite.plane.Kubeconfig, "--timeout", patience, "--yes")
	t.Log(problems)
	if left := j.vms(); len(left) != 0 {
		t.Errorf("VMs are left: %+v", left)
	}

	if _, err := os.Stat(started.Kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is left: %v", err)
	}

	var namespace corev1.Namespace
	err = suite.plane.Client.Get(t.Context(), client.ObjectKey{Name: "journey-trip"}, &namespace)
	if err == nil && namespace.DeletionTimestamp.IsZero() {
		t.Error("the namespace is left")
	}

	j.expectRest(suite.plane)
}

// expectManagerLogs verifies that the manager's log contains lines about each machine. In this test, the manager is not
// a pod.
func (j *journey) expectManagerLogs() {
	j.t.Helper()

	for _, vm := range j.vms() {
		out, _ := j.does("logs", vm.Name, "-n", j.namespace, "--manager")
		check.Contains(j.t, "the logs of "+vm.Name, out, ` manager `)
		check.Contains(j.t, "the logs of "+vm.Name, out, `="`+j.namespace+"/"+vm.Name+`"`)
	}
}

// expectScaledNumberIsKept scales the workers to zero. Then it starts the cluster with a file that requests one worker.
func (j *journey) expectScaledNumberIsKept() {
	j.t.Helper()
	j.does("scale", j.name, "-n", j.namespace, "--workers", "0", "--yes")

	_, problems := j.does("start", "-f", j.file, "--timeout", patience)
	check.Contains(j.t, "what it says", problems, "keeps replicas: 0, set by olvmctl scale; to apply replicas: 1 "+
		"from "+j.file+", ")
	check.Equal(j.t, "VMs after a start with the file of before", len(j.vms()), 1)
}

// expectStartAfterDelete deletes the cluster, and starts it again while the deletion of its namespace continues.
func (j *journey) expectStartAfterDelete() {
	j.t.Helper()
	j.does("delete", j.name, "-n", j.namespace, "--preserve", "--timeout", patience, "--yes")
	_, problems := j.does("start", "-f", j.file, "--timeout", patience)
	check.Contains(j.t, "what start waits for", problems, "namespace "+j.namespace+" is still being deleted")
}

// TestTheJourneyWithoutAManagementCluster lets olvmctl start a local management cluster, stop it, start it again with
// its content, and forget it.
func TestTheJourneyWithoutAManagementCluster(t *testing.T) {
	t.Parallel()
	j := newJourney(t, suite.plane)
	t.Cleanup(func() { j.olvmctl("local", "stop") })
	j.clusterFile("lone", 82, 1, "")
	code, _, problems := j.olvmctl("start", "-f", j.file, "--driver", "existing")
	if code != 1 || !strings.Contains(problems, "--kubeconfig") {
		t.Errorf("there is no management cluster: %d, %s", code, problems)
	}

	j.does("start", "-f", j.file, "--timeout", patience)
	before := j.vms()
	if len(before) != 2 {
		t.Errorf("%d VMs", len(before))
	}

	ready := func() {
		t.Helper()
		if out, _ := j.does("describe", "lone", "-n", j.namespace); strings.Count(out, ", VM ") != 2 {
			t.Errorf("olvmctl describe:\n%s", out)
		}
	}
	ready()
	j.expectManagerLogs()
	j.expectRefusal(nil)
	local := filepath.Join(j.dir, "capolvm", "local")
	j.does("local", "stop")
	code, _, problems = j.olvmctl("describe", "lone", "-n", j.namespace)
	if code != 1 || !strings.Contains(problems, "is stopped; start it with olvmctl local start") {
		t.Errorf("the local management cluster has stopped: %d, %s", code, problems)
	}

	if out, _ := j.does("local", "stop"); out != "the local management cluster is not running\n" {
		t.Errorf("it stops a second time: %s", out)
	}

	j.does("start", "-f", j.file, "--timeout", patience)
	ready()

	for id, vm := range j.vms() {
		if before[id].StartTime != vm.StartTime {
			t.Errorf("VM %s is another", vm.Name)
		}
	}

	j.expectScaledNumberIsKept()

	// This creates the cluster again. In the fast tier, TestStartWaitsForANamespaceThatIsBeingDeleted covers the same
	// decision.
	if !testing.Short() {
		j.expectStartAfterDelete()
	}

	j.does("delete", "lone", "-n", j.namespace, "--timeout", patience, "--yes")
	if left := j.vms(); len(left) != 0 {
		t.Errorf("VMs are left: %+v", left)
	}

	if _, err := os.Stat(local); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the local management cluster is left: %v", err)
	}

	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("no processes: %v", err)
	}

	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), local) {
			t.Errorf("a process is left: %q", line)
		}
	}
}

// shell matches a block of commands in a document, even inside a list item.
var shell = regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```$")

// commandsIn returns the blocks of commands in a document in their order.
func commandsIn(text string) string {
	var out strings.Builder

	for _, block := range shell.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[2]) {
			out.WriteString(strings.TrimPrefix(line, block[1]))
		}
	}

	return out.String()
}

// TestProgramsPrintTheirVersions runs each program of a release with its version command.
func TestProgramsPrintTheirVersions(t *testing.T) {
	for _, program := range []string{"manager", "ovirtsim", "terraform-provider-ovirt"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(suite.binDir, program), "--version").CombinedOutput()
		check.Error(t, err, "")
		check.Equal(t, "what "+program+" prints", string(out), version.FormatLine(program)+"\n")
	}
}

// TestTheQuickStart runs the commands of the document in one shell, in a copy of the checkout's samples.
func TestTheQuickStart(t *testing.T) {
	testenv.SkipInShort(t, "makes the clusters of the quick start")
	t.Parallel()
	root := suite.tools.Root()
	text, err := os.ReadFile(filepath.Join(root, "docs", "user", "quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}

	script := "set -eu\n" + commandsIn(string(text))

	dir := t.TempDir()
	for from, to := range map[string]string{filepath.Join(root, "config"): "config", suite.binDir: "bin"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}

	executable, err := suite.tools.FindExecutor(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	// The commands of the project are already built.
	command := exec.CommandContext(t.Context(), "bash", "-c", "make() { test \"$*\" = build; }\n"+script)
	command.Dir, command.WaitDelay = dir, time.Minute
	command.Env = append(
		os.Environ(),
		"HOME="+dir,
		"XDG_CONFIG_HOME="+dir,
		"XDG_STATE_HOME="+dir,
		"XDG_CACHE_HOME="+filepath.Dir(toolchain.CacheDir()),
		"KUBECONFIG=",
		"OCNE_DEFAULTS=",
		"CAPOLVM_TERRAFORM="+executable.Path,
	)
	stop := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(suite.binDir, "olvmctl"), "local",
		"stop")
	stop.Env = command.Env
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		_ = stop.Run()
		if command.Process != nil { // after a failure, the simulator still runs, at the address of the next run
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
		}
	})
	log, err := os.Create(filepath.Join(filepath.Dir(suite.binDir), t.Name()+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var out bytes.Buffer
	command.Stdout, command.Stderr = io.MultiWriter(&out, log), io.MultiWriter(&out, log)
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}

	for _, want := range []string{"quickstart.yaml is valid",
		"what would become of 3 machines is not known offline", "Cluster quick is ready, with 3 nodes.",
		"├─KubeadmControlPlane/quick-control-plane",
		"SuccessfulApply", "deleted namespace quick"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}
