package image

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/doctor"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// tree maps the paths of files in an image to their content. The first part of a path is the device. A path that ends
// with a slash is a folder.
type tree map[string]string

// with adds files to a tree. It removes files with the content "gone".
func (t tree) with(files tree) tree {
	out := maps.Clone(t)
	maps.Copy(out, files)
	maps.DeleteFunc(out, func(_, content string) bool { return content == "gone" })

	return out
}

// looked returns the findings about an image with the given files. It uses a stand-in for guestfish.
func looked(t *testing.T, files tree, version string) (map[string]string, error) {
	t.Helper()
	dir := t.TempDir()

	devices := map[string]bool{}

	for name, content := range files {
		path := filepath.Join(dir, "dev", name)
		device, _, _ := strings.Cut(name, "/")
		devices[device] = true
		folder := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			folder = path
		}

		check.Error(t, os.MkdirAll(folder, 0o700), "")
		if folder != path {
			check.Error(t, os.WriteFile(path, []byte(content), 0o600), "")
		}
	}

	list := "/dev/sda9: swap\n"
	for device := range devices {
		list += "/dev/" + device + ": ext4\n"
	}

	disk := filepath.Join(dir, "disk.qcow2")
	check.Error(t, os.WriteFile(filepath.Join(dir, "filesystems"), []byte(list), 0o600), "")
	check.Error(t, os.WriteFile(disk, qcow2("disk"), 0o600), "")

	bin, err := filepath.Abs("testdata/tree")
	check.Error(t, err, "")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("GUESTFISH_TREE", dir)
	t.Setenv("TMPDIR", t.TempDir())

	findings, err := Check(t.Context(), disk, version)
	left, globbed := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	check.Error(t, globbed, "")
	check.Length(t, "what is left behind", left, 0)

	out := map[string]string{}
	for _, f := range findings {
		out[f.Check] += fmt.Sprintf("%s: %s -> %s\n", f.Verdict, f.Message, f.Remedy)
	}

	return out, err
}

const wants = "sda2/etc/systemd/system/multi-user.target.wants/"

// linux is an image with cloud-init and everything else that nodes need.
var linux = tree{
	"sda1/EFI/BOOT/grub.cfg": "", "sda2/usr/lib/os-release": "ID=\"debian\"\nVERSION_ID=\"12\"\n",
	"sda2/usr/bin/cloud-init": "", "sda2/etc/cloud/cloud.cfg": "datasource_list: [NoCloud, ConfigDrive]\n",
	"sda2/usr/bin/kubeadm": "", "sda2/usr/bin/kubelet": "", "sda2/usr/bin/containerd": "",
	wants + "kubelet.service": "", wants + "containerd.service": "", "sda2/usr/sbin/keepalived": "",
	"sda2/usr/bin/curl": "", "sda2/usr/bin/kubectl": "",
	"sda2/usr/sbin/haproxy": "", "sda2/usr/sbin/qemu-ga": "", "sda2/etc/machine-id": "uninitialized\n",
	"sda2/var/lib/dpkg/status": "Package: kubeadm-tools\nVersion: 9.9.9-1\n\nPackage: kubeadm\nStatus: install ok installed\n" +
		"Version: 1.33.5-1.1\n\nPackage: kubelet\nDescription: a\n b\nVersion: 1.33.5-1.1\n\nPackage: z\nVersion: 2.0.0\n",
}

// ock is an OCK image. It has OSTree, presets, and the boot loader on a separate filesystem.
var ock = tree{
	"sda1/loader.1/entries/ostree-1-ock.conf":                                           "options rw ignition.platform.id=openstack ignition.firstboot=1\n",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/lib/os-release":                              "ID=\"ol\"\nVERSION_ID=\"8.10\"\n",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/bin/kubeadm":                                 "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/bin/kubelet":                                 "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/bin/crio":                                    "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/bin/podman":                                  "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/bin/curl":                                    "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/bin/kubectl":                                 "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/bin/qemu-ga":                                 "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/sbin/keepalived":                             "",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/sbin/setsebool":                              "",
	"sda2/ostree/deploy/ock/deploy/a.0/etc/selinux/config":                              "SELINUX=enforcing\n",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/lib/systemd/system-preset/80-ocne.preset":    "enable ocne.service\n",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/lib/systemd/system-preset/99-default.preset": "disable *\n",
	"sda2/ostree/deploy/ock/deploy/a.0/usr/share/rpm/rpmdb.sqlite": "\x00C\x00kubeadm\x001.33.5\x001.el8\x00" +
		"\x00C\x00kubelet\x001.33.5\x001.el8\x00",
}

const deployed = "sda2/ostree/deploy/ock/deploy/a.0/"

// TestWhatAnImageOfNodesLacksIsTold changes complete images in one place at a time.
func TestWhatAnImageOfNodesLacksIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		base, change tree
		version      string
		check, want  string
	}{
		"the system":               {linux, nil, "1.33", "system", "ok: debian 12"},
		"the version":              {linux, nil, "v1.33.5", "kubeadm", "ok: version 1.33.5"},
		"no version asked for":     {linux, nil, "", "kubelet", "ok: version 1.33.5"},
		"another patch":            {linux, nil, "1.33.4", "kubeadm", "warning: version 1.33.5, not 1.33.4"},
		"another version":          {linux, nil, "1.34", "kubelet", "failed: version 1.33.5, not 1.34"},
		"a version that begins so": {linux, nil, "1.3", "kubeadm", "failed: version 1.33.5, not 1.3"},
		"no kubeadm":               {linux, tree{"sda2/usr/bin/kubeadm": "gone"}, "1.33", "kubeadm", "failed: kubeadm is not installed"},
		"no kubelet":               {linux, tree{"sda2/usr/bin/kubelet": "gone"}, "1.33", "kubelet", "failed: kubelet is not installed"},
		"a kubeadm of no package":  {linux, tree{"sda2/var/lib/dpkg/status": "gone"}, "1.33", "kubeadm", "unknown: cannot determine the version"},
		"a runtime":                {linux, nil, "1.33", "runtime", "ok: containerd.service starts at boot"},
		"no runtime":               {linux, tree{"sda2/usr/bin/containerd": "gone"}, "1.33", "runtime", "failed: no container"},
		"a runtime that is off":    {linux, tree{wants + "containerd.service": "gone"}, "1.33", "runtime", "failed: containerd.service does"},
		"a kubelet that is off":    {linux, tree{wants + "kubelet.service": "gone"}, "1.33", "kubelet", "warning: kubelet.service is not"},
		"cloud-init":               {linux, nil, "1.33", "user data", "ok: cloud-init reads the config drive"},
		"cloud-init as it comes":   {linux, tree{"sda2/etc/cloud/cloud.cfg": "a: b\n"}, "1.33", "user data", "ok: cloud-init"},
		"no cloud-init":            {linux, tree{"sda2/usr/bin/cloud-init": "gone"}, "1.33", "user data", "failed: no program reads"},
		"cloud-init that is off":   {linux, tree{"sda2/etc/cloud/cloud-init.disabled": ""}, "1.33", "user data", "failed: cloud-init is disabled"},
		"cloud-init of a cloud":    {linux, tree{"sda2/etc/cloud/cloud.cfg.d/90_dpkg.cfg": "datasource_list: [ Ec2, None ]\n"}, "1.33", "user data", "failed: cloud-init does not read the config drive"},
		"data sources, one a line": {linux, tree{"sda2/etc/cloud/cloud.cfg": "datasource_list:\n  - NoCloud\n  - ConfigDrive\n"},
			"1.33", "user data", "ok: cloud-init reads the config drive"},
		"data sources in two lines": {linux, tree{"sda2/etc/cloud/cloud.cfg": "datasource_list: [ NoCloud,\n  ConfigDrive ]\n"},
			"1.33", "user data", "ok: cloud-init reads the config drive"},
		"data sources of a cloud, one a line": {linux, tree{"sda2/etc/cloud/cloud.cfg": "datasource_list:\n- Ec2\n# ConfigDrive\n- None\n"},
			"1.33", "user data", "failed: cloud-init does not read the config drive"},
		"a data source in a comment": {linux, tree{"sda2/etc/cloud/cloud.cfg": "datasource_list: [Ec2] # not ConfigDrive\n"},
			"1.33", "user data", "failed: cloud-init does not read the config drive"},
		"the last file counts": {linux, tree{"sda2/etc/cloud/cloud.cfg.d/90_dpkg.cfg": "datasource_list: [Ec2]\n",
			"sda2/etc/cloud/cloud.cfg.d/95_ours.cfg": "datasource_list: [ConfigDrive]\n", "sda2/etc/cloud/cloud.cfg.d/99_z.cfg": "\t: no YAML"},
			"1.33", "user data", "ok: cloud-init reads the config drive"},
		"containerd as Docker packs it": {linux, tree{"sda2/etc/containerd/config.toml": "# a\ndisabled_plugins = [\"cri\"]\n"},
			"1.33", "runtime", "failed: containerd does not serve Kubernetes"},
		"containerd with the long name": {linux, tree{"sda2/etc/containerd/config.toml": "disabled_plugins = [\n  'a', 'io.containerd.grpc.v1.cri',\n]\n"},
			"1.33", "runtime", "failed: containerd does not serve Kubernetes"},
		"containerd that has it on": {linux, tree{"sda2/etc/containerd/config.toml": "# disabled_plugins = [\"cri\"]\ndisabled_plugins = []\n[a.cri]\nb = [\"cri\"]\n"},
			"1.33", "runtime", "ok: containerd.service"},
		"swap": {linux, tree{"sda2/etc/fstab": "# a b swap\nUUID=1 / xfs defaults 0 0\n/dev/mapper/ol-swap none swap defaults 0 0\n"},
			"1.33", "swap", "warning: swap is enabled"},
		"no swap": {linux, tree{"sda2/etc/fstab": "# a b swap\nUUID=1 / xfs defaults 0 0\n"}, "1.33", "swap", ""},
		"updates": {linux, tree{"sda2/etc/systemd/system/timers.target.wants/dnf-automatic.timer": ""}, "1.33", "updates", "warning: dnf-automatic.timer updates"},
		"updates by presets": {ock, tree{deployed + "usr/lib/systemd/system-preset/45-zincati.preset": "enable zincati.service\n"},
			"1.33", "updates", "warning: zincati.service updates"},
		"updates that are masked": {linux, tree{"sda2/usr/lib/systemd/system/multi-user.target.wants/locksmithd.service": "",
			"sda2/etc/systemd/system/locksmithd.service": ""}, "1.33", "updates", ""},
		"no kubectl": {linux, tree{"sda2/usr/bin/kubectl": "gone"}, "1.33", "endpoint", "failed: missing kubectl, which nodes"},
		"no curl":    {linux, tree{"sda2/usr/bin/curl": "gone"}, "1.33", "endpoint", "failed: missing curl, which nodes"},
		"no keepalived that asks": {linux, tree{"sda2/usr/bin/curl": "gone", "sda2/usr/sbin/keepalived": "gone"}, "1.33", "endpoint",
			"warning: missing keepalived"},
		"OCK with a kubelet that wants cgroups of version 2": {ock, tree{deployed + "usr/share/rpm/rpmdb.sqlite": "\x00kubelet\x001.35.0\x001.el8\x00"},
			"1.35", "cgroups", "failed: ol 8.10 uses control groups version 1"},
		"OCK with an older kubelet": {ock, nil, "1.33", "cgroups", ""},
		"OCK with cgroups of version 2": {ock, tree{deployed + "usr/share/rpm/rpmdb.sqlite": "\x00kubelet\x001.36.1\x001.el8\x00",
			"sda1/loader.1/entries/ostree-1-ock.conf": "options rw systemd.unified_cgroup_hierarchy=1 ignition.platform.id=openstack\n"},
			"1.36", "cgroups", ""},
		"cgroups of version 2 that are turned off": {ock, tree{deployed + "usr/share/rpm/rpmdb.sqlite": "\x00kubelet\x001.36.1\x001.el8\x00",
			"sda1/loader.1/entries/ostree-1-ock.conf": "options rw systemd.unified_cgroup_hierarchy=0 ignition.platform.id=openstack\n"},
			"1.36", "cgroups", "failed: ol 8.10"},
		"Oracle Linux 8 whose arguments are in the environment of GRUB": {linux, tree{"sda2/usr/lib/os-release": "ID=\"ol\"\nVERSION_ID=\"8.10\"\n",
			"sda2/var/lib/dpkg/status": "gone", "sda1/grub2/grubenv": "kernelopts=root=/dev/sda2 systemd.unified_cgroup_hierarchy=1\n"},
			"1.36", "cgroups", ""},
		"Oracle Linux 8": {linux, tree{"sda2/usr/lib/os-release": "ID=\"ol\"\nVERSION_ID=\"8.10\"\n", "sda2/var/lib/dpkg/status": "gone"},
			"1.36", "cgroups", "failed: ol 8.10"},
		"Oracle Linux 9": {linux, tree{"sda2/usr/lib/os-release": "ID=\"ol\"\nVERSION_ID=\"9.6\"\n", "sda2/var/lib/dpkg/status": "gone"},
			"1.36", "cgroups", ""},
		"keepalived and haproxy":     {linux, nil, "1.33", "endpoint", "ok: keepalived, haproxy"},
		"keepalived alone":           {linux, tree{"sda2/usr/sbin/haproxy": "gone"}, "1.33", "endpoint", "warning: keepalived holds the endpoint, but without"},
		"no keepalived":              {linux, tree{"sda2/usr/sbin/keepalived": "gone"}, "1.33", "endpoint", "warning: missing keepalived"},
		"no SELinux":                 {linux, nil, "1.33", "selinux", "ok: not installed or disabled"},
		"SELinux that is off":        {linux, tree{"sda2/etc/selinux/config": "# SELINUX=enforcing\nSELINUX=disabled\n"}, "1.33", "selinux", "ok: not installed or disabled"},
		"SELinux without its tools":  {linux, tree{"sda2/etc/selinux/config": "SELINUX=enforcing\n"}, "1.33", "selinux", "failed: enforcing"},
		"a guest agent":              {linux, nil, "1.33", "agent", "ok: qemu-ga"},
		"no guest agent":             {linux, tree{"sda2/usr/sbin/qemu-ga": "gone"}, "1.33", "agent", "warning: no guest agent is installed"},
		"a machine ID":               {linux, tree{"sda2/etc/machine-id": "0123456789abcdef0123456789abcdef\n"}, "1.33", "identity", "failed: the image contains a machine ID"},
		"host keys":                  {linux, tree{"sda2/etc/ssh/ssh_host_rsa_key": ""}, "1.33", "identity", "warning: the image contains SSH host keys"},
		"a name that is none":        {linux, tree{"sda2/usr/lib/os-release": "ID=\"\x1b[2J\"\nVERSION_ID=1\n"}, "1.33", "system", "ok: 1 ->"},
		"OCK":                        {ock, nil, "1.33", "system", "ok: ol 8.10"},
		"OCK's version":              {ock, nil, "1.33", "kubeadm", "ok: version 1.33.5"},
		"OCK's Ignition":             {ock, nil, "1.33", "user data", "ok: Ignition reads the config drive"},
		"OCK made for QEMU":          {ock, tree{"sda1/loader.1/entries/ostree-1-ock.conf": "options ignition.platform.id=qemu\n"}, "1.33", "user data", "failed: Ignition uses the platform qemu"},
		"Ignition without arguments": {ock, tree{"sda1/loader.1/entries/ostree-1-ock.conf": "options rw\n", deployed + "usr/lib/dracut/modules.d/30ignition/": ""}, "1.33", "user data", "failed: Ignition is installed, but the kernel arguments"},
		"OCK's own cluster":          {ock, nil, "1.33", "ocne", "warning: ocne.service starts at boot"},
		"OCK whose ocne is off":      {ock, tree{deployed + "etc/systemd/system-preset/10-ours.preset": "disable ocne.service\n"}, "1.33", "ocne", ""},
		"OCK's runtime":              {ock, nil, "1.33", "runtime", "warning: crio.service is not enabled"},
		"OCK's runtime by preset":    {ock, tree{deployed + "etc/systemd/system-preset/10-ours.preset": "enable cri*\n"}, "1.33", "runtime", "ok: crio.service"},
		"OCK's endpoint":             {ock, nil, "1.33", "endpoint", "ok: keepalived, podman"},
		"OCK's SELinux":              {ock, nil, "1.33", "selinux", "ok: enforcing"},
		"Flatcar": {tree{"sda1/flatcar/grub/grub.cfg": "linux flatcar.oem.id=openstack\n", "sda3/lib/os-release": "ID=flatcar\n",
			"sda3/bin/containerd": ""}, nil, "1.33", "system", "ok: flatcar"},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := looked(t, tt.base.with(tt.change), tt.version)
			check.Error(t, err, "")
			check.Contains(t, tt.check, findings[tt.check], tt.want)
			if tt.want == "" {
				check.Equal(t, tt.check, findings[tt.check], "")
			}
		})
	}
}

func TestAnImageWithEverythingLacksNothing(t *testing.T) {
	findings, err := looked(t, linux, "1.33.5")
	check.Error(t, err, "")

	for name, finding := range findings {
		check.Contains(t, name, finding, string(doctor.OK)+": ")
		check.Lacks(t, name, finding, string(doctor.Warning)+": ")
	}

	check.Equal(t, "how many checks there are", len(findings), 8)
}

// TestTheVersionOfAProgramIsRead has a program with notes of the linker, as in the releases of Kubernetes. The version
// of a program without such notes is not guessed.
func TestTheVersionOfAProgramIsRead(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"main.go": "package main\n\nfunc main() {}\n", "go.mod": "module example.com/a\n\ngo 1.24\n",
	} {
		check.Error(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600), "")
	}

	for flags, want := range map[string]string{
		"-X k8s.io/component-base/version.gitVersion=v1.33.5": "ok: version 1.33.5",
		"-X k8s.io/component-base/version.gitVersion=v1.34.0": "failed: version 1.34.0, not 1.33",
		"-s": "unknown: cannot determine the version",
	} {
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags="+flags, "-o", "kubeadm", ".")
		build.Dir = dir
		output, err := build.CombinedOutput()
		check.Error(t, err, "")
		check.Equal(t, "output", string(output), "")
		content, err := os.ReadFile(filepath.Join(dir, "kubeadm"))
		check.Error(t, err, "")
		findings, err := looked(t, linux.with(tree{
			"sda2/var/lib/dpkg/status": "gone", "sda2/usr/bin/kubeadm": string(content),
		}), "1.33")
		check.Error(t, err, "")
		check.Contains(t, flags, findings["kubeadm"], want)
	}
}

func TestAnImageWithoutASystemIsRefused(t *testing.T) {
	_, err := looked(t, tree{"sda1/data/a": ""}, "1.33")
	check.Error(t, err, "the image has no operating system")
}
