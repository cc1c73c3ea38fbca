package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodes"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// site is a network with a bridge, and an image.
type site struct {
	t     *testing.T
	image nodeimage.Image
	netns string
}

func newSite(t *testing.T) *site {
	t.Helper()
	requireNodes(t)

	s := &site{t: t, image: suite.image, netns: fmt.Sprintf("capolvm-machine-%d", os.Getpid())}
	s.ip("netns", "add", s.netns)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", s.netns).Run() })
	s.ip("-netns", s.netns, "link", "add", "vlan", "type", "bridge")
	s.ip("-netns", s.netns, "address", "add", "10.198.0.1/24", "dev", "vlan")
	s.ip("-netns", s.netns, "link", "set", "vlan", "up")

	return s
}

func (s *site) ip(args ...string) {
	s.t.Helper()
	if output, err := exec.CommandContext(s.t.Context(), "ip", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("ip %v: %v: %s", args, err, output)
	}
}

// config returns the configuration of a machine with a drive.
func (s *site) config(name, userData string) machine.Config {
	s.t.Helper()

	// The provider's additions prevent that a later start without a drive searches for another data source.
	merged, err := bootstrap.Merge([]byte(userData), bootstrap.CloudConfig, bootstrap.Guest{HostName: name})
	check.Error(s.t, err, "")

	dir := s.t.TempDir()
	drive, err := nodes.WriteDrive(ovirtsim.GuestVM{
		DriveID:  "8df586f6-0732-4a2f-88fd-13ee06163618",
		HostName: name,
		UserData: string(merged),
		NICs: []ovirtsim.GuestNIC{{
			Interface: "enp1s0", BootProtocol: "static",
			Address: "10.198.0.11", Netmask: "255.255.255.0", Gateway: "10.198.0.1",
		}},
	}, filepath.Join(dir, "drive"))
	check.Error(s.t, err, "")

	return machine.Config{
		Name: name, ID: "3bd3d5e2-60fb-4b8d-b848-4f548a425cd7",
		RootFS: s.image.RootFS(), Store: s.image.Store(),
		Disk: filepath.Join(dir, "disk"), Drive: drive,
		Group: suite.site.Group + "/" + name,
		NetNS: s.netns,
		NICs:  []machine.NIC{{Name: "enp1s0", MAC: "56:6f:00:00:00:01", Bridge: "vlan", Port: "vm1"}},
	}
}

// start starts a machine, and logs its console if the test fails.
func (s *site) start(config machine.Config) *machine.Machine {
	s.t.Helper()
	m, err := machine.Start(config)
	if err != nil {
		s.t.Fatal(err)
	}

	s.t.Cleanup(func() {
		m.CutPower()

		if s.t.Failed() {
			console, _ := os.ReadFile(filepath.Join(config.Disk, "console.log"))
			s.t.Logf("the console of %s:\n%s", config.Name, console[max(0, len(console)-6000):])
		}
	})

	return m
}

// until waits until a command succeeds in a machine, and returns its output.
func (s *site) until(m *machine.Machine, command ...string) (output string) {
	s.t.Helper()
	wait.For(s.t, strings.Join(command, " ")+" succeeds", func() (err error) {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()

		output, err = m.RunCommand(ctx, command...)

		return err
	})

	return strings.TrimSpace(output)
}

// waitFor waits for the end of a machine.
func (s *site) waitFor(m *machine.Machine, want machine.Ending) {
	s.t.Helper()
	wait.Receive(s.t, "the machine has ended", m.Ended())
	check.Equal(s.t, "how it has ended", m.How(), want)
}

func TestAMachine(t *testing.T) {
	s := newSite(t)
	config := s.config("first", "#cloud-config\nwrite_files:\n- path: /etc/written\n  content: by cloud-init\n")
	m := s.start(config)

	check.Contains(t, "what cloud-init says", s.until(m, "cloud-init", "status", "--wait"), "status: done")
	check.Contains(t, "a file", s.until(m, "cat", "/etc/written"), "by cloud-init")
	check.Equal(t, "the host name", s.until(m, "hostname"), "first")
	check.Equal(t, "what firmware says", s.until(m, "cat", "/sys/class/dmi/id/product_uuid"), config.ID)
	check.Contains(t, "its address", s.until(m, "ip", "-br", "address", "show", "enp1s0"), "10.198.0.11/24")
	// NetworkManager would remove the interfaces of pods from their bridge.
	s.until(m, "sh", "-c", "! systemctl --quiet is-active NetworkManager")
	check.Contains(t, "the way out", s.until(m, "ping", "-c", "1", "-W", "1", "10.198.0.1"), "1 received")
	check.Equal(t, "units that have failed", s.until(m, "systemctl", "--failed", "--plain", "--no-legend"), "")

	// With the drive of this run, the machine is the same instance, so cloud-init does not run again.
	s.until(m, "rm", "/etc/written")
	_, _ = m.RunCommand(t.Context(), "systemctl", "reboot")
	s.waitFor(m, machine.Reboots)

	m = s.start(config)
	s.until(m, "cloud-init", "status", "--wait")
	check.Equal(t, "files", s.until(m, "sh", "-c", "ls /etc/written 2>/dev/null || true"), "")
	s.until(m, "touch", "/etc/written")

	check.Error(t, m.PowerOff(), "")
	s.waitFor(m, machine.PoweredOff)

	config.Drive = "" // as in an engine
	m = s.start(config)
	s.until(m, "systemctl", "is-active", "multi-user.target")
	s.until(m, "test", "-f", "/etc/written")
	check.Contains(t, "its address after a start", s.until(m, "ip", "-br", "address", "show", "enp1s0"),
		"10.198.0.11/24")

	_, _ = m.RunCommand(t.Context(), "systemctl", "reboot")
	s.waitFor(m, machine.Reboots)

	m = s.start(config)
	m.CutPower()
	s.waitFor(m, machine.Cut)

	expectNoGroups(t, config.Group)
}

// expectNoGroups verifies that nothing of a machine is left in the kernel.
func expectNoGroups(t *testing.T, group string) {
	t.Helper()

	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasSuffix(path, group) {
			t.Errorf("cgroup %s is left", path)
		}

		return nil
	})
	check.Error(t, err, "")
}
