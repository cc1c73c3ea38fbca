package image

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/doctor"
	"github.com/capolvm/cluster-api-provider-olvm/internal/scratchdir"
)

// maxFetched is the maximum size of a file copied from an image, in bytes. Package databases and programs are smaller.
const maxFetched = 1 << 30

// ErrNoSystem is returned for an image without an operating system for nodes.
var ErrNoSystem = errors.New("the image has no operating system: no os-release found in its filesystems")

// Check examines an image file with guestfish, without booting the image. It returns findings about what nodes need.
// version is the wanted Kubernetes version, with or without a patch version. An empty version accepts any.
func Check(ctx context.Context, file, version string) (findings []doctor.Finding, err error) {
	guestfish, err := findGuestfish()
	if err != nil {
		return nil, err
	}

	format, err := diskFormat(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}

	scratch, remove, err := scratchdir.Make(scratchdir.Command)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, remove()) }()

	session, err := startGuestfish(ctx, guestfish, file, format, "--ro")
	if err != nil {
		return nil, err
	}

	l := &look{session: session, scratch: scratch, asked: strings.TrimPrefix(version, "v")}

	err = session.closeSession(l.examineDisk())

	return l.findings, err
}

// look is a running examination of an image.
type look struct {
	session *guestfish
	scratch string
	// asked is the wanted Kubernetes version.
	asked string
	// root is the folder with the operating system on the mounted filesystem, and usr is the folder with its /usr.
	root, usr string
	// bootArguments are the kernel arguments found on all filesystems.
	bootArguments strings.Builder
	// err is the first error of guestfish. After an error, all methods find nothing.
	err      error
	findings []doctor.Finding
}

// place is the location of an operating system.
type place struct{ device, root, usr string }

// examineDisk finds the operating system, and examines it.
func (l *look) examineDisk() error {
	if _, err := l.session.runCommand("run"); err != nil {
		return err
	}

	list, err := l.session.runCommand("list-filesystems")
	if err != nil {
		return err
	}

	var systems []place

	for line := range strings.Lines(list) {
		at := strings.LastIndex(line, ": ")
		if at < 0 || !slices.Contains(filesystems, strings.TrimSpace(line[at+1:])) {
			continue
		}

		l.withMounted(line[:at], func() { systems = append(systems, l.findSystems(line[:at])...) })
	}

	if l.err != nil {
		return l.err
	}

	if len(systems) == 0 {
		return ErrNoSystem
	}

	l.withMounted(systems[0].device, func() {
		l.root, l.usr = systems[0].root, systems[0].usr
		l.examineSystem()
	})

	return l.err
}

// withMounted mounts a filesystem read-only, and calls do.
func (l *look) withMounted(device string, do func()) {
	if l.err != nil {
		return
	}

	if _, l.err = l.session.runCommand("mount-ro", device, "/"); l.err != nil {
		return
	}

	do()

	if l.err == nil {
		_, l.err = l.session.runCommand("umount", "/")
	}
}

// findSystems returns the operating systems on the mounted filesystem. They can be at its root, deployed by OSTree, or
// in a separate /usr like Flatcar's. It also collects kernel arguments.
func (l *look) findSystems(device string) []place {
	for _, config := range l.expandGlobs("", append(slices.Clone(entryGlobs), "/grub.cfg", "/boot/grub*/grub.cfg",
		"/grub*/grub.cfg", "/*/grub/grub.cfg", "/boot/grub*/grubenv", "/grub*/grubenv", "/EFI/*/grubenv")...) {
		l.bootArguments.WriteString(l.readText(config) + "\n")
	}

	var out []place

	for _, release := range l.expandGlobs("", "/ostree/deploy/*/deploy/*/usr/lib/os-release") {
		root := strings.TrimSuffix(release, "/usr/lib/os-release")
		out = append(out, place{device, root, root + "/usr"})
	}

	switch {
	case len(out) > 0: // a boot uses the deployment, and not the system at the root
	case len(l.expandGlobs("", "/usr/lib/os-release", "/etc/os-release")) > 0:
		out = append(out, place{device, "", "/usr"})
	case len(l.expandGlobs("", "/lib/os-release")) > 0 && len(l.expandGlobs("", "/usr/", "/etc/")) == 0:
		out = append(out, place{device, "", ""})
	}

	return out
}

// expandGlobs expands globs below a folder.
func (l *look) expandGlobs(root string, globs ...string) []string {
	var out []string

	for _, glob := range globs {
		if l.err != nil {
			return nil
		}

		var list string
		list, l.err = l.session.runCommand("glob-expand", root+glob)

		for found := range strings.Lines(list) {
			out = append(out, strings.TrimSuffix(found, "\n"))
		}
	}

	return out
}

// expandPaths expands globs in the operating system. Paths below /usr may be on a separate filesystem.
func (l *look) expandPaths(globs ...string) []string {
	var out []string

	for _, glob := range globs {
		if below, ok := strings.CutPrefix(glob, "/usr/"); ok {
			out = append(out, l.expandGlobs(l.usr, "/"+below)...)
			continue
		}

		out = append(out, l.expandGlobs(l.root, glob)...)
	}

	return out
}

func (l *look) hasAny(globs ...string) bool { return len(l.expandPaths(globs...)) > 0 }

// findProgram returns the path of a program, or "" if the image lacks it.
func (l *look) findProgram(name string) string {
	found := l.expandPaths("/usr/bin/"+name, "/usr/sbin/"+name, "/usr/local/bin/"+name, "/usr/local/sbin/"+name,
		"/opt/bin/"+name)
	if len(found) == 0 {
		return ""
	}

	return found[0]
}

// readText returns the content of a file on the mounted filesystem. It returns "" for large files, and for anything but
// regular files.
func (l *look) readText(name string) string {
	if l.err != nil || !l.isSmallFile(name, 1<<20) {
		return ""
	}

	var text string
	text, l.err = l.session.runCommand("cat", name)

	return text
}

// readTexts returns the joined content of all files that match globs.
func (l *look) readTexts(globs ...string) string {
	var out strings.Builder
	for _, name := range l.expandPaths(globs...) {
		out.WriteString(l.readText(name) + "\n")
	}

	return out.String()
}

// isSmallFile reports whether a path is a regular file of at most most bytes.
func (l *look) isSmallFile(name string, most int64) bool {
	var answer string
	if answer, l.err = l.session.runCommand("is-file", name, "followsymlinks:true"); l.err != nil ||
		strings.TrimSpace(answer) != "true" {
		return false
	}

	if answer, l.err = l.session.runCommand("filesize", name); l.err != nil {
		return false
	}

	size, err := strconv.ParseInt(strings.TrimSpace(answer), 10, 64)

	return err == nil && size <= most
}

// fetchFile copies a file from the image, and returns the path of the copy. It returns "" if this fails.
func (l *look) fetchFile(name string) string {
	if l.err != nil || !l.isSmallFile(name, maxFetched) {
		return ""
	}

	to := filepath.Join(l.scratch, "fetched")
	_, l.err = l.session.runCommand("download", name, to)

	return to
}

func (l *look) addFinding(check string, verdict doctor.Verdict, remedy, format string, args ...any) {
	if l.err == nil {
		l.findings = append(l.findings, doctor.Finding{
			Check: check, Verdict: verdict, Message: fmt.Sprintf(format, args...), Remedy: remedy,
		})
	}
}

// examineSystem examines the operating system.
func (l *look) examineSystem() {
	release := releaseOf(l.readTexts("/etc/os-release", "/usr/lib/os-release"))
	l.addFinding("system", doctor.OK, "", "%s", strings.TrimSpace(release["ID"]+" "+release["VERSION_ID"]))

	ignition := l.checkUserData()
	l.checkKubernetes()
	l.checkRuntime(ignition)
	l.checkCgroups(release["ID"], release["VERSION_ID"])
	l.checkSwap()
	l.checkUpdates(ignition)
	l.checkEndpoint()
	l.checkSELinux()
	l.checkAgent()
	l.checkIdentity()
}

// plain matches values that are safe to display, because the texts in an image are not trusted.
var plain = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// releaseOf returns the displayable values in an os-release file.
func releaseOf(text string) map[string]string {
	out := map[string]string{}

	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if value = strings.Trim(value, `"'`); plain.MatchString(value) {
			out[key] = value
		}
	}

	return out
}

var ignitionPlatform = regexp.MustCompile(`(?:ignition\.platform\.id|flatcar\.oem\.id|set oem_id)="?([a-z0-9]+)`)

// dataSources returns the data sources of cloud-init, as set by the last file that sets them. It returns nil if no file
// sets them. Like cloud-init, it ignores files with invalid YAML.
func (l *look) dataSources() []string {
	var out []string

	for _, file := range l.expandPaths("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg") {
		var config struct {
			DataSources []string `yaml:"datasource_list"`
		}
		if yaml.Unmarshal([]byte(l.readText(file)), &config) == nil && config.DataSources != nil {
			out = config.DataSources
		}
	}

	return out
}

// checkUserData checks that a program reads user data from a config drive, because the engine provides one. It reports
// whether this program is Ignition.
func (l *look) checkUserData() bool {
	const check = "user data"

	platform := ignitionPlatform.FindStringSubmatch(l.bootArguments.String())
	if platform != nil ||
		l.hasAny("/usr/lib/dracut/modules.d/*ignition*", "/usr/bin/ignition", "/usr/libexec/ignition*") {
		switch {
		case platform == nil:
			l.addFinding(check, doctor.Failed, "add ignition.platform.id=openstack to the kernel arguments",
				"Ignition is installed, but the kernel arguments do not set the source of its configuration")
		case platform[1] != "openstack":
			l.addFinding(check, doctor.Failed, "convert the image with olvmctl image create --from FILE --out OTHER",
				"Ignition uses the platform %s, but the engine provides a config drive, which requires openstack",
				platform[1])
		default:
			l.addFinding(
				check, doctor.OK, "", "Ignition reads the config drive; create the template with --os-type rhcos_x64",
			)
		}

		return true
	}

	sources := l.dataSources()

	switch {
	case l.findProgram("cloud-init") == "":
		l.addFinding(check, doctor.Failed, "install cloud-init, or use an image with Ignition",
			"no program reads the user data: neither cloud-init nor Ignition is installed")
	case l.hasAny("/etc/cloud/cloud-init.disabled"):
		l.addFinding(check, doctor.Failed, "remove /etc/cloud/cloud-init.disabled", "cloud-init is disabled")
	case sources != nil && !slices.Contains(sources, "ConfigDrive"):
		l.addFinding(check, doctor.Failed, "add ConfigDrive to datasource_list in /etc/cloud/cloud.cfg.d",
			"cloud-init does not read the config drive, which contains the user data")
	default:
		l.addFinding(
			check,
			doctor.OK,
			"",
			"cloud-init reads the config drive; create the template with an --os-type other than rhcos_x64",
		)
	}

	return false
}

// checkKubernetes checks that kubeadm and the kubelet exist, and checks their versions.
func (l *look) checkKubernetes() {
	for _, name := range []string{"kubeadm", "kubelet"} {
		found := l.findProgram(name)
		if found == "" {
			l.addFinding(name, doctor.Failed, "install "+name, "%s is not installed", name)
			continue
		}

		version := l.programVersion(name, found)

		switch {
		case version == "":
			l.addFinding(name, doctor.Unknown, "", "cannot determine the version without booting the image")
		case l.asked == "" || version == l.asked || strings.HasPrefix(version, l.asked+"."):
			l.addFinding(name, doctor.OK, "", "version %s", version)
		case minorOf(version) == minorOf(l.asked):
			l.addFinding(name, doctor.Warning, "set version: v"+version+" in the manifests",
				"version %s, not %s", version, l.asked)
		default:
			l.addFinding(name, doctor.Failed, "install "+name+" "+l.asked+", or use version v"+version,
				"version %s, not %s", version, l.asked)
		}
	}
}

func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// rpmDatabases are the possible paths of the RPM database. An image has only one of them.
var rpmDatabases = []string{
	"/usr/share/rpm/rpmdb.sqlite", "/usr/share/rpm/Packages", "/usr/lib/sysimage/rpm/rpmdb.sqlite",
	"/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/Packages",
}

// programVersion returns the version of a program, or "" if it is unknown. The version comes from its package, or else
// from the program file.
func (l *look) programVersion(name, program string) string {
	if status := l.expandPaths("/var/lib/dpkg/status"); len(status) > 0 {
		pattern := regexp.MustCompile(`(?m)^Package: ` + name + `\n(?:[^\n]+\n)*?Version: ([0-9]+\.[0-9]+\.[0-9]+)`)
		if found := l.findVersion(status[0], pattern); found != "" {
			return found
		}
	}

	for _, database := range l.expandPaths(rpmDatabases...) {
		// Headers of packages are not compressed. They contain name, version and release, each followed by a zero byte.
		if found := l.findVersion(database, regexp.MustCompile(name+`\x00([0-9]+\.[0-9]+\.[0-9]+)\x00`)); found != "" {
			return found
		}
	}

	info, err := buildinfo.ReadFile(cmp.Or(l.fetchFile(program), os.DevNull))
	if err != nil {
		return ""
	}

	said := info.Main.Version
	for _, setting := range info.Settings {
		if match := gitVersion.FindStringSubmatch(setting.Value); setting.Key == "-ldflags" && match != nil {
			said = match[1]
		}
	}

	if match := release.FindStringSubmatch(said); match != nil {
		return match[1]
	}

	return ""
}

var (
	gitVersion = regexp.MustCompile(`component-base/version\.gitVersion=(v[0-9.]+)`)
	release    = regexp.MustCompile(`^v([0-9]+\.[0-9]+\.[0-9]+)`)
)

// findVersion returns the version that a pattern finds in a file of the image.
func (l *look) findVersion(name string, pattern *regexp.Regexp) string {
	content, err := os.ReadFile(cmp.Or(l.fetchFile(name), os.DevNull))
	if match := pattern.FindSubmatch(content); err == nil && match != nil {
		return string(match[1])
	}

	return ""
}

// isEnabled reports whether a unit starts at boot. For images with Ignition, presets decide this, because these images
// have never booted.
func (l *look) isEnabled(unit string, presets bool) bool {
	if l.hasAny("/etc/systemd/system/*.wants/"+unit, "/usr/lib/systemd/system/*.wants/"+unit) {
		return true
	}

	if !presets {
		return false
	}

	files := l.expandPaths("/etc/systemd/system-preset/*.preset", "/usr/lib/systemd/system-preset/*.preset")
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })

	for _, file := range files {
		for line := range strings.Lines(l.readText(file)) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "enable" && words[0] != "disable" {
				continue
			}

			if matched, err := path.Match(words[1], unit); err == nil && matched {
				return words[0] == "enable"
			}
		}
	}

	return false
}

var (
	tomlComments    = regexp.MustCompile(`(?m)^([^"'\n]*)#.*$`)
	disabledPlugins = regexp.MustCompile(`(?m)^disabled_plugins\s*=\s*\[([^\]]*)\]`)
	// criPlugin matches the name of the containerd plugin that serves the kubelet, in versions 1 and 2.
	criPlugin = regexp.MustCompile(`["'](?:io\.containerd\.)?(?:grpc\.v1\.cri|cri\.v1\.(?:images|runtime)|cri)["']`)
)

// servesKubernetes reports whether a container runtime serves the kubelet. The containerd packages of Docker disable
// this.
func (l *look) servesKubernetes(unit string) bool {
	if unit != "containerd.service" {
		return true
	}

	config := tomlComments.ReplaceAllString(l.readTexts("/etc/containerd/config.toml"), "$1")
	match := disabledPlugins.FindStringSubmatch(config)

	return match == nil || !criPlugin.MatchString(match[1])
}

// checkRuntime checks the container runtime, and the units needed by kubeadm.
func (l *look) checkRuntime(ignition bool) {
	const check = "runtime"

	unit := ""
	for _, name := range []string{"crio", "containerd"} {
		if l.findProgram(name) != "" && (unit == "" || l.isEnabled(name+".service", ignition)) {
			unit = name + ".service"
		}
	}

	ocne := l.isEnabled("ocne.service", ignition)

	switch {
	case unit == "":
		l.addFinding(check, doctor.Failed, "install CRI-O or containerd", "no container runtime is installed")
	case !l.servesKubernetes(unit):
		l.addFinding(check, doctor.Failed, "remove cri from disabled_plugins in /etc/containerd/config.toml",
			"containerd does not serve Kubernetes: its plugin cri is disabled, as in Docker's packages")
	case !l.isEnabled(unit, ignition) && ignition:
		l.addFinding(check, doctor.Warning, "use the flavor ock, or enable it in userData",
			"%s is not enabled", unit)
	case !l.isEnabled(unit, ignition):
		l.addFinding(check, doctor.Failed, "systemctl enable "+unit, "%s does not start at boot", unit)
	default:
		l.addFinding(check, doctor.OK, "", "%s starts at boot", unit)
	}

	if ocne {
		l.addFinding("ocne", doctor.Warning, "use the flavor ock, or disable ocne.service in userData",
			"ocne.service starts at boot, and creates its own cluster")
	}

	if l.findProgram("kubelet") != "" && !l.isEnabled("kubelet.service", ignition) {
		l.addFinding("kubelet", doctor.Warning, "systemctl enable kubelet.service, or enable it in userData",
			"kubelet.service is not enabled: kubeadm starts it, but it does not start after a reboot")
	}
}

// unified has the first release of each system that uses control groups version 2 without a kernel argument.
var unified = map[string]int{
	"ol": 9, "rhel": 9, "centos": 9, "rocky": 9, "almalinux": 9, "ubuntu": 22, "debian": 11,
}

var (
	unifiedArgument = regexp.MustCompile(`\bsystemd\.unified_cgroup_hierarchy(?:=(?:1|yes|true|on))?(?:\s|$)`)
	minorRelease    = regexp.MustCompile(`^1\.([0-9]+)`)
	majorRelease    = regexp.MustCompile(`^[0-9]+`)
)

// checkCgroups checks that the system uses control groups version 2. Kubelets do not start with version 1 since
// Kubernetes 1.35.
func (l *look) checkCgroups(system, release string) {
	version := l.asked
	if found := l.findProgram("kubelet"); found != "" {
		version = cmp.Or(l.programVersion("kubelet", found), version)
	}

	minor := minorRelease.FindStringSubmatch(version)
	major, err := strconv.Atoi(majorRelease.FindString(release))
	first, known := unified[system]
	if minor == nil || err != nil || !known || major >= first ||
		unifiedArgument.MatchString(l.bootArguments.String()) {
		return
	}

	if number, err := strconv.Atoi(minor[1]); err != nil || number < 35 {
		return
	}

	l.addFinding("cgroups", doctor.Failed, "add systemd.unified_cgroup_hierarchy=1 to the kernel arguments (for "+
		"OCK images, with olvmctl image create --kernel-arg)",
		"%s %s uses control groups version 1, but the kubelet of Kubernetes %s requires version 2",
		system, release, version)
}

// checkSwap checks that no swap is enabled at boot.
func (l *look) checkSwap() {
	for line := range strings.Lines(l.readTexts("/etc/fstab")) {
		words := strings.Fields(line)
		if len(words) < 3 || strings.HasPrefix(words[0], "#") || words[2] != "swap" {
			continue
		}

		l.addFinding("swap", doctor.Warning, "remove it from /etc/fstab, or set failSwapOn: false for the kubelet",
			"swap is enabled, and by default the kubelet does not start with swap")

		return
	}
}

// updaters are units that replace or restart software on a node, or reboot the node.
var updaters = []string{
	"locksmithd.service", "update-engine.service", "zincati.service", "dnf-automatic.timer",
	"dnf-automatic-install.timer", "unattended-upgrades.service",
}

// checkUpdates checks for software that changes nodes by itself. Cluster API replaces nodes instead, and drains only
// the nodes it replaces.
func (l *look) checkUpdates(ignition bool) {
	var on []string

	for _, unit := range updaters {
		if l.isEnabled(unit, ignition) && !l.hasAny("/etc/systemd/system/"+unit) { // a link to /dev/null masks it
			on = append(on, unit)
		}
	}

	if len(on) > 0 {
		l.addFinding("updates", doctor.Warning, "systemctl mask "+strings.Join(on, " "),
			"%s updates or reboots nodes without draining them", strings.Join(on, ", "))
	}
}

// checkEndpoint checks that control plane nodes have the software needed to hold the endpoint.
func (l *look) checkEndpoint() {
	const check = "endpoint"

	var there, missing []string

	for _, name := range []string{"keepalived", "haproxy", "podman"} {
		if l.findProgram(name) == "" {
			missing = append(missing, name)
		} else {
			there = append(there, name)
		}
	}

	has := func(name string) bool { return slices.Contains(there, name) }

	var asking []string

	for _, name := range []string{"curl", "kubectl"} {
		if l.findProgram(name) == "" {
			asking = append(asking, name)
		}
	}

	switch {
	case has("keepalived") && len(asking) > 0:
		l.addFinding(check, doctor.Failed, "install "+strings.Join(asking, " and "),
			"missing %s, which nodes with keepalived use to check the API server",
			strings.Join(asking, " and "))
	case has("keepalived") && (has("haproxy") || has("podman")):
		l.addFinding(check, doctor.OK, "", "%s", strings.Join(there, ", "))
	case has("keepalived"):
		l.addFinding(check, doctor.Warning, "install haproxy, or podman for nginx in a container",
			"keepalived holds the endpoint, but without a load balancer: missing %s", strings.Join(missing, " and "))
	default:
		l.addFinding(
			check,
			doctor.Warning,
			"install keepalived and haproxy, or use virtualIPProvider: KubeVIP or External",
			"missing %s, which nodes require to hold the endpoint with virtualIPProvider: Keepalived",
			strings.Join(missing, " and "),
		)
	}
}

// checkSELinux checks the mode of SELinux.
func (l *look) checkSELinux() {
	const check = "selinux"

	match := regexp.MustCompile(`(?m)^SELINUX=(enforcing|permissive|disabled)`).FindStringSubmatch(
		l.readTexts("/etc/selinux/config"))

	switch {
	case match == nil || match[1] == "disabled":
		l.addFinding(check, doctor.OK, "", "not installed or disabled")
	case match[1] == "enforcing" && l.findProgram("keepalived") != "" && l.findProgram("setsebool") == "":
		l.addFinding(check, doctor.Failed, "install policycoreutils",
			"enforcing, but setsebool, which allows keepalived and haproxy to reach the API server, is not installed")
	default:
		l.addFinding(check, doctor.OK, "", "%s", match[1])
	}
}

// checkAgent checks for the guest agent. It reports the addresses of a machine to the engine.
func (l *look) checkAgent() {
	if l.findProgram("qemu-ga") == "" {
		l.addFinding("agent", doctor.Warning, "install qemu-guest-agent",
			"no guest agent is installed: the engine reports no addresses, and machines with DHCP have none")
		return
	}

	l.addFinding("agent", doctor.OK, "", "qemu-ga")
}

// checkIdentity checks for identities that all machines with this image would share.
func (l *look) checkIdentity() {
	if machineID.MatchString(strings.TrimRight(l.readTexts("/etc/machine-id"), "\n")) {
		l.addFinding(
			"identity", doctor.Failed, "empty /etc/machine-id (olvmctl image create removes it from OCK images)",
			"the image contains a machine ID, which all machines would share",
		)
	}

	if l.hasAny("/etc/ssh/ssh_host_*_key") {
		l.addFinding("identity", doctor.Warning, "remove /etc/ssh/ssh_host_*",
			"the image contains SSH host keys, which cloud-init replaces, but Ignition does not")
	}
}
