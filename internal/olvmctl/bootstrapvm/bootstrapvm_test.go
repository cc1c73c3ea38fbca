package bootstrapvm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/adrg/xdg"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// clusterFile has three control plane machines. RANGE stands for their addresses.
const clusterFile = `name: trip
virtualIp: 10.0.0.5
controlPlaneNodes: 3
workerNodes: 2
kubernetesVersion: 1.36.1
providers:
  olvm:
    namespace: tour
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: https://engine.example.com/ovirt-engine, insecureSkipTLSVerify: true}
    controlPlaneMachine: &machine
      olvmOvirtClusterName: Default
      vmTemplateName: ol9-k8s
      olvmNetwork: {networkName: vlan, vnicProfileName: vlan}
      virtualMachine:
        memory: 8GB
        network:
          gateway: 10.0.0.1
          ipv4: {subnet: 10.0.0.0/24, ipAddresses: RANGE}
    workerMachine: *machine
`

// optionsOf returns the options for the cluster file with the given addresses and flavor.
func optionsOf(t *testing.T, addresses, flavor string) Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(clusterFile, "RANGE", addresses)), 0o600); err != nil {
		t.Fatal(err)
	}

	file, problems, err := clusterfile.Load(path, "", flavor)
	if err != nil || clusterfile.HasErrors(problems) {
		t.Fatal(problems, err)
	}

	return Options{
		Namespace: "tour",
		Cluster:   "trip",
		Manifests: file.Objects,
		Engine:    engine.Config{URL: "https://engine.example.com/ovirt-engine", Username: "u", Password: "secret-p"},
	}
}

// object returns the manifest of an object.
func (o Options) object(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()

	for _, object := range o.Manifests {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}

	t.Fatalf("there is no %s %s", kind, name)

	return nil
}

// change sets a field in a manifest. path has dots between its fields.
func (o Options) change(t *testing.T, kind, name, path string, value any) {
	t.Helper()
	object := o.object(t, kind, name).Object
	if err := unstructured.SetNestedField(object, value, strings.Split(path, ".")...); err != nil {
		t.Fatal(err)
	}
}

// filesOfCloudConfig returns the content of the files in a cloud-config, by path.
func filesOfCloudConfig(t *testing.T, data []byte) map[string]string {
	t.Helper()
	var config struct {
		Files []struct{ Path, Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}

	out := map[string]string{}
	for _, file := range config.Files {
		out[file.Path] = strings.TrimSuffix(file.Content, "\n") // the template adds it
	}

	return out
}

func TestAVMIsMadeLikeAMachineOfTheControlPlane(t *testing.T) {
	testenv.EmptyState(t)
	o := optionsOf(t, "10.0.0.10-10.0.0.20", "default")
	const config = "spec.kubeadmConfigSpec."
	o.change(t, "KubeadmControlPlane", "trip-control-plane", config+"files", []any{
		map[string]any{"path": "/etc/mirrors", "content": "ours"},
		map[string]any{"path": staticPods + "kube-vip.yaml", "content": "holds the endpoint"},
	})
	o.change(t, "KubeadmControlPlane", "trip-control-plane", config+"preKubeadmCommands", []any{"prepare-it"})
	o.change(
		t, "KubeadmControlPlane", "trip-control-plane", config+"clusterConfiguration.imageRepository", "mirror/k8s",
	)
	o.change(t, "KubeadmControlPlane", "trip-control-plane", config+"clusterConfiguration.apiServer.extraArgs", []any{
		map[string]any{"name": "oidc-issuer-url", "value": "https://dex"},
	})

	v, err := New(o)
	check.Error(t, err, "")
	check.Equal(t, "the name", v.Name(), "trip-bootstrap")
	check.Equal(t, "the address", v.Addresses[0].Prefix.String(), "10.0.0.20/24")
	check.Equal(t, "the gateway", v.Addresses[0].Gateway.String(), "10.0.0.1")
	check.Equal(t, "the endpoint, which no machine may have", v.OLVMCluster.ControlPlaneEndpoint.Host, "")
	check.Equal(t, "services of the control plane", v.OLVMCluster.ControlPlaneServices, nil)
	check.Equal(t, "the template", v.Machine.VMTemplateName, "ol9-k8s")

	files := filesOfCloudConfig(t, v.Data)
	check.Equal(t, "a file of the manifests", files["/etc/mirrors"], "ours")
	check.Equal(t, "a static pod of the cluster to be", files[staticPods+"kube-vip.yaml"], "")
	check.Contains(t, "the network", files[networkFile], `"subnet": "10.244.0.0/24"`)
	check.Contains(t, "the commands", string(v.Data), "prepare-it")

	kubeadm := files["/run/kubeadm/kubeadm.yaml"]
	check.Contains(t, "kubeadm's configuration", kubeadm, "controlPlaneEndpoint: 10.0.0.20:6443")
	check.Contains(t, "kubeadm's configuration", kubeadm, "imageRepository: mirror/k8s")
	check.Contains(t, "kubeadm's configuration", kubeadm, "podSubnet: 10.244.0.0/16")
	check.Contains(t, "kubeadm's configuration", kubeadm, "taints: []")
	check.Contains(t, "kubeadm's configuration", kubeadm, "kubernetesVersion: v1.36.1")
	check.Lacks(t, "kubeadm's configuration", kubeadm, "oidc-issuer-url")

	access, err := clientcmd.RESTConfigFromKubeConfig(v.Kubeconfig)
	check.Error(t, err, "")
	check.Equal(t, "the server", access.Host, "https://10.0.0.20:6443")
	check.Equal(t, "the CA", strings.TrimSpace(string(access.CAData)), files["/etc/kubernetes/pki/ca.crt"])
}

func TestAVMOfAnImageWithIgnition(t *testing.T) {
	testenv.EmptyState(t)
	v, err := New(optionsOf(t, "10.0.0.10-10.0.0.20", clusterfile.DefaultFlavor))
	check.Error(t, err, "")
	check.Equal(t, "the format", v.Format, "ignition")
	check.Contains(t, "the user data", string(v.Data), `"ignition":{`)
	check.Length(t, "what the flavor adds", v.Extra, 1)
}

func TestWhatABootstrapVMCannotBeMadeOf(t *testing.T) {
	for name, test := range map[string]struct {
		addresses string
		change    func(*testing.T, *Options)
		want      string
	}{
		"no address is left": {
			"10.0.0.10-10.0.0.14", nil,
			"network of OLVMMachineTemplate trip-control-plane: not enough addresses for the machines and the VM",
		},
		"the machines have not enough": {"10.0.0.10-10.0.0.12", nil, "all 3 addresses of a range are in use"},
		"no ranges": {"10.0.0.10-10.0.0.20", func(t *testing.T, o *Options) {
			o.change(t, "OLVMMachineTemplate", "trip-control-plane", "spec.template.spec.virtualMachine.network.ipv4",
				map[string]any{"dhcp": true})
		}, "has no address ranges"},
		"VMs of an inventory": {"10.0.0.10-10.0.0.20", func(t *testing.T, o *Options) {
			o.change(t, "OLVMMachineTemplate", "trip-control-plane", "spec.template.spec.fromInventory",
				map[string]any{"inventoryName": "pool"})
		}, "take their VMs from an inventory"},
		"no pods": {"10.0.0.10-10.0.0.20", func(t *testing.T, o *Options) {
			o.change(t, "Cluster", "trip", "spec.clusterNetwork.pods", map[string]any{})
		}, "spec.clusterNetwork.pods of Cluster trip is empty"},
		"another control plane": {"10.0.0.10-10.0.0.20", func(t *testing.T, o *Options) {
			o.change(t, "Cluster", "trip", "spec.controlPlaneRef.kind", "RKE2ControlPlane")
		}, "is not a KubeadmControlPlane"},
		"a Secret that is not there": {"10.0.0.10-10.0.0.20", func(t *testing.T, o *Options) {
			o.change(t, "KubeadmControlPlane", "trip-control-plane", "spec.kubeadmConfigSpec.files", []any{map[string]any{
				"path": "/a", "contentFrom": map[string]any{"secret": map[string]any{"name": "keys", "key": "a"}},
			}})
		}, "files[0] of the KubeadmControlPlane: key a of Secret keys not found in the manifests"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.EmptyState(t)
			o := optionsOf(t, "10.0.0.10-10.0.0.20", "default")
			if test.change == nil {
				o.setRange(t, test.addresses)
			} else {
				test.change(t, &o)
			}

			_, err := New(o)
			check.Error(t, err, test.want)
		})
	}
}

// setRange changes the addresses of all machines after the check of the cluster file.
func (o Options) setRange(t *testing.T, addresses string) {
	t.Helper()

	for _, name := range []string{"trip-control-plane", "trip-md-0"} {
		o.change(t, "OLVMMachineTemplate", name, "spec.template.spec.virtualMachine.network.ipv4.ipAddresses",
			[]any{addresses})
	}
}

func TestContentsOfSecretsAmongTheManifests(t *testing.T) {
	testenv.EmptyState(t)
	o := optionsOf(t, "10.0.0.10-10.0.0.20", "default")
	secrets, err := manifest.Read(
		[]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {a: plain}\n" +
			"data: {b: ZW5jb2RlZA==}\n"),
	)
	check.Error(t, err, "")
	o.Manifests = append(o.Manifests, secrets...)

	from := func(key string) map[string]any {
		return map[string]any{
			"path": "/" + key, "contentFrom": map[string]any{"secret": map[string]any{"name": "keys", "key": key}},
		}
	}
	o.change(
		t, "KubeadmControlPlane", "trip-control-plane", "spec.kubeadmConfigSpec.files", []any{from("a"), from("b")},
	)

	v, err := New(o)
	check.Error(t, err, "")
	files := filesOfCloudConfig(t, v.Data)
	check.Equal(t, "of stringData", files["/a"], "plain")
	check.Equal(t, "of data", files["/b"], "encoded")
}

func TestWhatIsKeptOfAVM(t *testing.T) {
	testenv.EmptyState(t)
	v, err := New(optionsOf(t, "10.0.0.10-10.0.0.20", "default"))
	check.Error(t, err, "")
	check.Equal(t, "whether it exists once it is decided", v.Exists(), false)

	none, err := Find("tour", "trip")
	check.Error(t, err, "")
	check.Equal(t, "what is found before", none, nil)

	check.Error(t, v.MarkAsked("/home/u/.kube/kubeconfig.trip"), "")
	v.expectKept(t)

	for name, where := range map[string][2]string{
		"with its namespace": {"tour", "trip"}, "by its name": {"", "trip"},
	} {
		found, err := Find(where[0], where[1])
		check.Error(t, err, "")
		check.Equal(t, name+": what is kept", found, v)
	}

	for name, where := range map[string][2]string{
		"another namespace": {"other", "trip"}, "no name of a cluster": {"", "../trip"}, "a pattern": {"", "t*"},
	} {
		found, err := Find(where[0], where[1])
		check.Error(t, err, "")
		check.Equal(t, name, found, nil)
	}

	check.Error(t, v.removeFiles(), "")
	check.Equal(t, "whether it exists then", v.Exists(), false)
	if _, err := os.Stat(filepath.Dir(v.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the namespace is left: %v", err)
	}
}

// expectKept checks the saved files. They must have the keys of the VM, and no credentials of the engine.
func (v *VM) expectKept(t *testing.T) {
	t.Helper()

	for _, path := range []string{v.recordFile(), v.KubeconfigFile()} {
		info, err := os.Stat(path)
		check.Error(t, err, "")
		check.Equal(t, "who may read "+filepath.Base(path), info.Mode().Perm(), 0o600)

		content, err := os.ReadFile(path)
		check.Error(t, err, "")
		check.Lacks(t, path, string(content), "secret-p")
	}
}

func TestWhichChangesAreRefusedOnceTheVMKnowsMachines(t *testing.T) {
	vm := terraform.Change{Type: "ovirt_vm", Action: "create"}
	nic := terraform.Change{Type: "ovirt_nic", Action: "create"}
	replaced := terraform.Change{Type: "ovirt_nic", Action: "replace"}

	for asked, want := range map[bool][3]string{false: {"", "", ""}, true: {"create again", "", "replace"}} {
		s := &subject{vm: &VM{record: record{Asked: asked}}}
		check.Equal(
			t, "refusals", [3]string{s.refuseReplacement(vm), s.refuseReplacement(nic), s.refuseReplacement(replaced)},
			want,
		)
	}
}

// TestASecondCommandDoesNotWriteOverABootstrapVM has two commands that found no bootstrap VM. Each has decided the
// settings of a new one.
func TestASecondCommandDoesNotWriteOverABootstrapVM(t *testing.T) {
	t.Cleanup(xdg.Reload) // after the environment is restored
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	xdg.Reload()

	decided := func(uid string) *VM {
		return &VM{dir: folderOf("tour", "trip"), record: record{Namespace: "tour", Cluster: "trip", UID: uid}}
	}
	first, second := decided("one"), decided("two")
	check.Error(t, first.checkOnly(), "")
	check.Error(t, first.saveFiles(), "")
	check.Error(t, second.checkOnly(), "another olvmctl has started to create the bootstrap VM trip-bootstrap")
	check.Error(t, first.checkOnly(), "") // this command continues
}

// TestNoOtherVMIsBegunWhileOneIsForgotten starts a second command while the first command removes the files of the VM.
func TestNoOtherVMIsBegunWhileOneIsForgotten(t *testing.T) {
	testenv.EmptyState(t)

	decided := func(uid string) *VM {
		return &VM{dir: folderOf("tour", "trip"), record: record{Namespace: "tour", Cluster: "trip", UID: uid}}
	}
	first, second := decided("one"), decided("two")
	check.Error(t, first.saveFiles(), "")
	check.Error(t, first.withLock(func() error {
		check.Error(t, first.removeFiles(), "")
		check.Error(t, second.withLock(second.saveFiles), "another olvmctl is creating or removing the bootstrap VM")

		return nil
	}), "")

	_, err := os.Stat(filepath.Dir(first.dir))
	check.Equal(t, "whether the folder of the namespace is left", err == nil, false)
	check.Error(t, second.withLock(second.saveFiles), "")
	check.Equal(t, "whether the other VM is kept", second.Exists(), true)
}

// TestABootstrapVMIsNotMadeWithoutALock has the state folder of the user on a file system without locks.
func TestABootstrapVMIsNotMadeWithoutALock(t *testing.T) {
	testenv.EmptyState(t)
	t.Cleanup(filelock.FailForTest(syscall.ENOLCK))

	v := &VM{dir: folderOf("tour", "trip"), record: record{Namespace: "tour", Cluster: "trip", UID: "one"}}
	err := v.withLock(v.saveFiles)
	check.Error(t, err, "the file system of "+filepath.Dir(v.dir)+" may have no locks")
	check.Contains(t, "the remedy", err.Error(), "set XDG_STATE_HOME")
	check.Lacks(t, "the error", err.Error(), "another olvmctl")
	check.Equal(t, "whether something is kept", v.Exists(), false)
}
