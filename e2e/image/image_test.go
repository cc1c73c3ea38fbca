// Package image edits an image of a node with real guestfish.
package image

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image/ocktest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// install is what the test needs on Debian.
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

// The layout is that of OCK: EFI, boot and root, the latter two XFS, with links as OSTree makes them.
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

// readBack prints what is looked for.
const readBack = `add DISK readonly:true format:qcow2
run
mount-ro /dev/sda2 /
cat /loader/entries/ostree-1-ock.conf
getxattr /loader/entries/ostree-1-ock.conf security.selinux
umount /
mount-ro /dev/sda3 /
glob-expand /ostree/deploy/*/deploy/*/etc/*
`

func TestAnImageOfANodeIsEdited(t *testing.T) {
	testenv.SkipInShort(t, "boots the appliance of guestfish")

	if _, err := exec.LookPath("guestfish"); err != nil {
		t.Skip("guestfish is not installed; " + install)
	}

	// Not every machine that says it has KVM can run it.
	t.Setenv("LIBGUESTFS_BACKEND_SETTINGS", cmp.Or(os.Getenv("LIBGUESTFS_BACKEND_SETTINGS"), "force_tcg"))
	t.Setenv("LIBGUESTFS_BACKEND", cmp.Or(os.Getenv("LIBGUESTFS_BACKEND"), "direct"))
	dir := t.TempDir()
	disk := filepath.Join(dir, "boot.qcow2")
	guestfish(t, strings.ReplaceAll(layout, "DISK", disk))
	before, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}

	reference := ocktest.Serve(t, nil) + "/olcne/ock:1.33"
	ocktest.Push(t, reference, ocktest.Image(t, "amd64", ocktest.Layer(t, ocktest.File{
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
