package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// storageImages maps the names of images in the oVirt CSI driver's manifests to roles of our replacement. The attacher
// is the original program.
var storageImages = map[string]string{
	"ovirt-csi-driver":          "driver",
	"csi-provisioner":           "provisioner",
	"csi-resizer":               "idle",
	"csi-node-driver-registrar": "registrar",
	"livenessprobe":             "probe",
	"csi-attacher":              "",
}

// addStorageDriver adds the images named in the manifests of the storage driver.
func (m *mirror) addStorageDriver() {
	m.t.Helper()
	program := filepath.Join(m.t.TempDir(), "csi")
	build := exec.CommandContext(m.t.Context(), "go", "build", "-o", program, "./e2e/nodes/csi")
	build.Dir, build.Env = suite.tools.Root(), append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	check.Equal(m.t, "building the stand-in", string(output), "")
	check.Error(m.t, err, "")

	attacher, err := suite.tools.Path("csi", "csi-attacher")
	check.Error(m.t, err, "")

	executables := map[string]string{"/usr/bin/csi": program}
	for _, path := range m.withLibraries("/usr/sbin/mkfs.ext4") {
		executables[path] = path
	}

	manifests, err := os.ReadFile(filepath.Join(suite.tools.Root(), "config", "addons", "ovirt-csi-driver.yaml"))
	check.Error(m.t, err, "")

	for _, found := range regexp.MustCompile(`image: \$\{CSI_REGISTRY\}/(olcne/([\w-]+):\S+)`).
		FindAllStringSubmatch(string(manifests), -1) {
		does, known := storageImages[found[2]]
		if !known {
			m.t.Fatalf("nothing stands in for %s", found[2])
		}

		config, content := v1.Config{Entrypoint: []string{"/usr/bin/csi", does}}, executables
		if does == "" {
			config, content = v1.Config{Entrypoint: []string{"/csi-attacher"}}, map[string]string{"/csi-attacher": attacher}
		}

		m.push("container-registry.oracle.com/"+found[1], config, content)
	}
}

// withLibraries returns the paths of a program of this host and of its libraries.
func (m *mirror) withLibraries(program string) []string {
	m.t.Helper()
	output, err := exec.CommandContext(m.t.Context(), "ldd", program).Output()
	check.Error(m.t, err, "")

	out := []string{program}

	for _, word := range strings.Fields(string(output)) {
		if strings.HasPrefix(word, "/") {
			out = append(out, word)
		}
	}

	return out
}

// expectStorage lets a StatefulSet store data on a disk of the engine. The disk must follow the pod to another node.
func (c *cluster) expectStorage() {
	c.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "olvm"},
		Provisioner: "csi.ovirt.org",
		Parameters:  map[string]string{"storageDomainName": "olvm-data", "thinProvisioning": "true"},
	}
	_, err := c.workload.StorageV1().StorageClasses().Create(c.t.Context(), class, metav1.CreateOptions{})
	check.Error(c.t, err, "")

	sets := c.workload.AppsV1().StatefulSets(metav1.NamespaceDefault)
	_, err = sets.Create(c.t.Context(), keeper(), metav1.CreateOptions{})
	check.Error(c.t, err, "")

	first := c.expectKept(1, "")
	disk := c.expectDisk(first)
	patch := []byte(`{"spec": {"unschedulable": true}}`)
	_, err = c.workload.CoreV1().Nodes().Patch(c.t.Context(), first, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	check.Error(c.t, err, "")

	pods := c.workload.CoreV1().Pods(metav1.NamespaceDefault)
	check.Error(c.t, pods.Delete(c.t.Context(), "keep-0", metav1.DeleteOptions{}), "")
	second := c.expectKept(2, first)
	check.Equal(c.t, "the disk of the second node", c.expectDisk(second), disk)

	check.Error(c.t, sets.Delete(c.t.Context(), "keep", metav1.DeleteOptions{}), "")
	claims := c.workload.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault)
	check.Error(c.t, claims.Delete(c.t.Context(), "state-keep-0", metav1.DeleteOptions{}), "")
	c.eventually("the disk is gone from the engine", func(ctx context.Context) error {
		_, err := c.engine.FetchDisk(ctx, disk)
		if err == nil {
			return errors.New("it is still there")
		}

		if engine.IsNotFound(err) {
			return nil
		}

		return err
	})
}

// keeper returns a StatefulSet whose pod records on its volume on which nodes it has started.
func keeper() *appsv1.StatefulSet {
	labels := map[string]string{"app": "keep"}

	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "keep", Namespace: metav1.NamespaceDefault},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "keep", Image: nodeimage.Hello, Args: []string{"keep", "/state"},
					Env: []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
					}}},
					VolumeMounts: []corev1.VolumeMount{{Name: "state", MountPath: "/state"}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "state"},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: ptr.To("olvm"),
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceStorage: resource.MustParse("1Gi"),
					}},
				},
			}},
		},
	}
}

// expectKept waits until the pod has started the given number of times with the same volume. It must run on another
// node than before. expectKept returns this node.
func (c *cluster) expectKept(starts int, before string) (node string) {
	c.t.Helper()
	what := fmt.Sprintf("the pod with a disk has been started on %d nodes", starts)
	c.eventually(what, func(ctx context.Context) error {
		pod, err := c.workload.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "keep-0", metav1.GetOptions{})
		if err != nil {
			return err
		}

		node = pod.Spec.NodeName
		if pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero() || node == before {
			return fmt.Errorf("the pod is %s, on node %q", pod.Status.Phase, node)
		}

		logs, err := c.logs(ctx, "app=keep")
		if err != nil {
			return err
		}

		kept := strings.Join(logs, "")
		if strings.Count(kept, "started on ") != starts || !strings.Contains(kept, "started on "+node+"\n") ||
			!strings.Contains(kept, " /state ext4 ") {
			return fmt.Errorf("the pod says %q", kept)
		}

		return nil
	})

	return node
}

// expectDisk returns the ID of a claim's disk. The disk must be attached to the VM of this node, and to no other VM.
func (c *cluster) expectDisk(node string) (disk engine.ID) {
	c.t.Helper()
	var owners []string

	for _, vm := range c.vms() {
		attachments, err := c.engine.ListDiskAttachments(c.t.Context(), vm.ID)
		check.Error(c.t, err, "")

		for i := range attachments {
			found, err := c.engine.FetchDisk(c.t.Context(), attachments[i].DiskID())
			check.Error(c.t, err, "")
			if strings.HasPrefix(found.AliasText(), "pvc-") {
				owners, disk = append(owners, vm.Name), found.ID
			}
		}
	}

	check.Equal(c.t, "VMs with the disk", owners, []string{node})

	return disk
}
