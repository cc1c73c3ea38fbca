// Package plane_test tests the management plane itself: without a network, and after the end of a process.
package plane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// insideVariable is the environment variable that tells this program that its network namespace has only the loopback
// interface.
const insideVariable = "CAPOLVM_TEST_LOOPBACK_ALONE"

// TestAPlaneOnLoopbackAlone starts a plane without a default route.
func TestAPlaneOnLoopbackAlone(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		runInside(t)
		return
	}

	check.Error(t, raiseLoopback(), "")

	if connection, err := net.Dial("udp", "192.0.2.1:9"); err == nil {
		t.Fatalf("there is a route: %s", connection.LocalAddr())
	}

	ctrl.SetLogger(logr.Discard())
	dir := t.TempDir()
	plane, err := localplane.Start(t.Context(), localplane.Options{
		Tools: testenv.Toolchain(t), Dir: dir, NoProvider: true, Progress: t.Logf,
	})
	check.Error(t, err, "")
	t.Cleanup(plane.Stop)

	var service corev1.Service
	check.Error(t, plane.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &service), "")
	check.Error(t, plane.Failed(), "")

	checkControllers(t, plane.Client)

	// The other processes depend on this one and end, too.
	for _, name := range []string{"etcd", "kube-apiserver"} {
		check.Error(t, syscall.Kill(childOf(t, name), syscall.SIGKILL), "")

		wait.Until(t, name+" is missed", func() bool { return plane.Failed() != nil })

		log := filepath.Join(dir, "etcd.log")
		check.Error(t, plane.Failed(), "etcd exited; last lines of "+log+":\n{")

		content, err := os.ReadFile(filepath.Join(dir, name+".log"))
		check.Error(t, err, "")
		check.Set(t, "the log of "+name, string(content))
	}
}

// checkControllers verifies that the dependents of a deleted object and the content of a deleted namespace are deleted.
func checkControllers(t *testing.T, c client.Client) {
	t.Helper()

	create := func(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: owners,
		}}
		check.Error(t, c.Create(t.Context(), object), "")

		return object
	}

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "some"}}
	check.Error(t, c.Create(t.Context(), namespace), "")

	inside := create("some", "inside")
	owner := create("default", "owner")
	owned := create("default", "owned", metav1.OwnerReference{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
	})

	check.Error(t, c.Delete(t.Context(), owner), "")
	check.Error(t, c.Delete(t.Context(), namespace), "")

	for _, object := range []client.Object{owned, inside, namespace} {
		wait.For(t, object.GetName()+" is deleted", func() error {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			if err == nil {
				return errors.New("it exists")
			}

			return client.IgnoreNotFound(err)
		})
	}
}

// runInside runs the test in a new network namespace.
func runInside(t *testing.T) {
	t.Helper()

	output, err := inside(t.Context(), syscall.CLONE_NEWUSER|syscall.CLONE_NEWNET)
	if errors.Is(err, os.ErrPermission) && os.Getuid() == 0 {
		output, err = inside(t.Context(), syscall.CLONE_NEWNET)
	}

	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this user may make no network namespace: %v", err)
	}

	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}

	check.Contains(t, "the output", output, "--- PASS: "+t.Name())
}

// inside runs only this test of this program in new namespaces, and returns the output.
func inside(ctx context.Context, namespaces uintptr) (string, error) {
	var output bytes.Buffer

	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestAPlaneOnLoopbackAlone$", "-test.v")
	command.Env = append(os.Environ(), insideVariable+"=1")
	command.Stdout, command.Stderr = &output, &output
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}

	if namespaces&syscall.CLONE_NEWUSER != 0 {
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}

	err := command.Run()

	return output.String(), err
}

// raiseLoopback brings up the loopback interface, because it is down in a new namespace.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)

	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}

	request.SetUint16(unix.IFF_UP)

	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// childOf returns the ID of the child process with the given name.
func childOf(t *testing.T, name string) int {
	t.Helper()

	files, err := filepath.Glob("/proc/[0-9]*/stat")
	check.Error(t, err, "")

	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}

		// The file has the form: pid (comm) state ppid.
		pid, rest, _ := strings.Cut(string(content), " ")
		if !strings.HasPrefix(rest, fmt.Sprintf("(%s) ", name)) || strings.Fields(rest)[2] != strconv.Itoa(os.Getpid()) {
			continue
		}

		number, err := strconv.Atoi(pid)
		check.Error(t, err, "")

		return number
	}

	t.Fatalf("this process has no child %s", name)

	return 0
}
