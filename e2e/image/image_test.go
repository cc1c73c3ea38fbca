// Package image edits and inspects images of nodes with the real guestfish.
package image

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image/ocktest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// install tells users how to install what the test requires on Debian.
const install = "on Debian: apt-get install guestfish libguestfs-xfs linux-image-amd64"

// guestfish runs a script and returns its output.
func guestfish(t *testing.T, script string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "guestfish")
	command.Stdin = strings.NewReader(script)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		if strings.Contains(problems.String(), "mkfs.xfs") {
			t.Skip("libguestfs cannot make XFS here; " + install)
		}

		t.Fatalf("%v: %s", err, problems.String())
	}

	return out.String()
}

// layout is the layout of OCK's images. It has partitions for EFI, boot and root, of which the last two are XFS, and
// links like those of OSTree.
const layout = `disk-create DISK qcow2 1G
add DISK format:qcow2
run
part-init /dev/sda gpt
part-add /dev/sda p 2048 67583
part-add /dev/sda p 67584 833535
part-add /dev/sda p 833536 2000000
mkfs vfat /dev/sda1 label:EFI-SYSTEM
mkfs xfs /dev/sda2 label:boot
mkfs xfs /dev/sda3 label:root
mount /dev/sda2 /
mkdir-p /loader.1/entries
ln-s loader.1 /loader
ln-s . /boot
write /loader.1/entries/ostree-1-ock.conf "title Oracle Linux Server\nversion 1\noptions rw ip=dhcp ignition.platform.id=qemu ignition.firstboot=1 console=ttyS0 root=UUID=0\nlinux /ostree/ock-0/vmlinuz\n"
chmod 0644 /loader.1/entries/ostree-1-ock.conf
setxattr security.selinux system_u:object_r:boot_t:s0 27 /loader.1/entries/ostree-1-ock.conf
umount /
mount /dev/sda3 /
mkdir /boot
mkdir-p /ostree/deploy/ock/deploy/0a1b.0/etc
write /ostree/deploy/ock/deploy/0a1b.0/etc/machine-id "0123456789abcdef0123456789abcdef\n"
write /ostree/deploy/ock/deploy/0a1b.0/etc/fstab "UUID=0 / xfs defaults 0 0\n"
mkdir-p /ostree/deploy/ock/deploy/0a1b.1/etc
write /ostree/deploy/ock/deploy/0a1b.1/etc/machine-id "uninitialized\n"
umount /
shutdown
`

// readBack prints the expected changes.
const readBack = `add DISK readonly:true format:qcow2
run
mount-ro /dev/sda2 /
cat /loader/entries/ostree-1-ock.conf
getxattr /loader/entries/ostree-1-ock.conf security.selinux
umount /
mount-ro /dev/sda3 /
glob-expand /ostree/deploy/*/deploy/*/etc/*
`

// needGuestfish skips a test unless guestfish is installed.
func needGuestfish(t *testing.T) {
	t.Helper()
	testenv.SkipInShort(t, "boots the appliance of guestfish")

	if _, err := exec.LookPath("guestfish"); err != nil {
		t.Skip("guestfish is not installed; " + install)
	}

	// Some hosts claim to have KVM, but cannot run it.
	t.Setenv("LIBGUESTFS_BACKEND_SETTINGS", cmp.Or(os.Getenv("LIBGUESTFS_BACKEND_SETTINGS"), "force_tcg"))
	t.Setenv("LIBGUESTFS_BACKEND", cmp.Or(os.Getenv("LIBGUESTFS_BACKEND"), "direct"))
}

func TestAnImageOfANodeIsEdited(t *testing.T) {
	needGuestfish(t)
	dir := t.TempDir()
	disk := filepath.Join(dir, "boot.qcow2")
	guestfish(t, strings.ReplaceAll(layout, "DISK", disk))
	before, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}

	reference := ocktest.ServeRegistry(t, nil) + "/olcne/ock:1.33"
	ocktest.PushImage(t, reference, ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
		Name:    "disk/boot.qcow2",
		Content: before,
	})))
	o := image.Options{
		From:      reference,
		Arch:      "amd64",
		Arguments: image.Arguments{Platform: "openstack", More: []string{"nosmt"}},
		Output:    filepath.Join(dir, "node.qcow2"),
		Say:       t.Logf, Progress: func(string) func(int64, int64) { return func(int64, int64) {} },
	}
	if err := image.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}

	entry := "title Oracle Linux Server\nversion 1\noptions rw ip=dhcp ignition.platform.id=openstack " +
		"ignition.firstboot=1 console=tty0 root=UUID=0 nosmt\nlinux /ostree/ock-0/vmlinuz\n"

	got := guestfish(t, strings.ReplaceAll(readBack, "DISK", o.Output))
	for what, want := range map[string]string{
		"the entry":                      entry,
		"its SELinux label":              "system_u:object_r:boot_t:s0",
		"what else is in the deployment": "/ostree/deploy/ock/deploy/0a1b.0/etc/fstab\n",
		"a machine ID that is none":      "/ostree/deploy/ock/deploy/0a1b.1/etc/machine-id\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not there:\n%s", what, got)
		}
	}

	if strings.Contains(got, "0a1b.0/etc/machine-id") {
		t.Errorf("the machine ID is there:\n%s", got)
	}

	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// system contains the files of an Oracle Linux 8 node on two file systems. It lacks exactly those files that the test
// reports as missing.
var system = map[string]map[string]string{
	"/dev/sda1": {"/grub2/grubenv": "kernelopts=root=/dev/sda2 ro"},
	"/dev/sda2": {
		"/usr/lib/os-release": "ID=ol\nVERSION_ID=8.10", "/usr/bin/cloud-init": "", "/usr/bin/kubeadm": "",
		"/usr/bin/kubelet": "", "/usr/bin/kubectl": "", "/usr/bin/containerd": "", "/usr/sbin/keepalived": "",
		"/usr/sbin/haproxy": "", "/usr/sbin/setsebool": "", "/usr/bin/qemu-ga": "",
		"/etc/systemd/system/multi-user.target.wants/kubelet.service": "",
		"/etc/cloud/cloud.cfg":              "datasource_list: [ NoCloud, ConfigDrive ]",
		"/etc/selinux/config":               "SELINUX=enforcing",
		"/etc/machine-id":                   "0123456789abcdef0123456789abcdef",
		"/etc/ssh/ssh_host_ed25519_key":     "",
		"/usr/share/rpm/rpmdb.sqlite":       "a\x00kubeadm\x001.36.1\x001.el8\x00kubelet\x001.36.1\x001.el8\x00",
		"/var/lib/containers/a b/$(reboot)": "",
	},
}

// makeSystem returns a guestfish script that creates the system from files in a folder.
func makeSystem(t *testing.T, disk, folder string) string {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "disk-create %s qcow2 400M\nadd %s format:qcow2\nrun\npart-init /dev/sda gpt\n"+
		"part-add /dev/sda p 2048 100000\npart-add /dev/sda p 102400 800000\n", disk, disk)

	for _, device := range slices.Sorted(maps.Keys(system)) {
		fmt.Fprintf(&out, "mkfs ext4 %s\nmount %s /\n", device, device)

		for _, name := range slices.Sorted(maps.Keys(system[device])) {
			local := filepath.Join(folder, fmt.Sprint(out.Len()))
			check.Error(t, os.WriteFile(local, []byte(system[device][name]), 0o600), "")
			fmt.Fprintf(&out, "mkdir-p \"%s\"\nupload %s \"%s\"\n", filepath.Dir(name), local, name)
		}

		out.WriteString("umount /\n")
	}

	return out.String() + "shutdown\n"
}

func TestAnImageOfANodeIsLookedInto(t *testing.T) {
	needGuestfish(t)

	dir := t.TempDir()
	disk := filepath.Join(dir, "node.qcow2")
	guestfish(t, makeSystem(t, disk, dir))
	before, err := os.ReadFile(disk)
	check.Error(t, err, "")

	findings, err := image.Check(t.Context(), disk, "1.36.1")
	check.Error(t, err, "")

	got := map[string]string{}
	for _, f := range findings {
		got[f.Check] += fmt.Sprintf("%s: %s\n", f.Verdict, f.Message)
	}

	for what, want := range map[string]string{
		"system": "ok: ol 8.10", "user data": "ok: cloud-init reads the config drive",
		"kubeadm": "ok: version 1.36.1", "kubelet": "ok: version 1.36.1",
		"runtime":  "failed: containerd.service does not start at boot",
		"cgroups":  "failed: ol 8.10 uses control groups version 1",
		"endpoint": "failed: missing curl", "selinux": "ok: enforcing", "agent": "ok: qemu-ga",
		"identity": "failed: the image contains a machine ID, which all machines would share\nwarning: the image contains SSH host keys",
	} {
		check.Contains(t, what, got[what], want)
	}

	after, err := os.ReadFile(disk)
	check.Error(t, err, "")
	check.Equal(t, "the image is as it was", bytes.Equal(before, after), true)
}
