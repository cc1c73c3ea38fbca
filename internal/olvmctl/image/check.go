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

// maxFetched limits the size of a file copied from an image, in bytes: package databases and programs are smaller.
const maxFetched = 1 << 30

// ErrNoSystem is returned for an image without an operating system suitable for nodes.
var ErrNoSystem = errors.New("the image has no operating system: no filesystem of it has an os-release")

// Check examines the image in a file with guestfish, without booting it, and returns shortcomings for nodes. version is
// the wanted Kubernetes version, with or without its patch; empty accepts any.
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

	err = session.close(l.check())

	return l.findings, err
}

// look is the examination of an image.
type look struct {
	session *guestfish
	scratch string
	// asked is the wanted Kubernetes version.
	asked string
	// root is the folder of the operating system on the mounted filesystem, and usr the folder of its /usr.
	root, usr string
	// bootArguments are the kernel arguments of all filesystems.
	bootArguments strings.Builder
	// err is the first failure of guestfish; later calls find nothing.
	err      error
	findings []doctor.Finding
}

// place is the location of an operating system.
type place struct{ device, root, usr string }

// check finds the operating system, and examines it.
func (l *look) check() error {
	if _, err := l.session.do("run"); err != nil {
		return err
	}

	list, err := l.session.do("list-filesystems")
	if err != nil {
		return err
	}

	var systems []place

	for line := range strings.Lines(list) {
		at := strings.LastIndex(line, ": ")
		if at < 0 || !slices.Contains(filesystems, strings.TrimSpace(line[at+1:])) {
			continue
		}

		l.mounted(line[:at], func() { systems = append(systems, l.systems(line[:at])...) })
	}

	if l.err != nil {
		return l.err
	}

	if len(systems) == 0 {
		return ErrNoSystem
	}

	l.mounted(systems[0].device, func() {
		l.root, l.usr = systems[0].root, systems[0].usr
		l.examine()
	})

	return l.err
}

// mounted calls do with a filesystem mounted read-only.
func (l *look) mounted(device string, do func()) {
	if l.err != nil {
		return
	}

	if _, l.err = l.session.do("mount-ro", device, "/"); l.err != nil {
		return
	}

	do()

	if l.err == nil {
		_, l.err = l.session.do("umount", "/")
	}
}

// systems returns the operating systems of the mounted filesystem: at its root, deployed by OSTree, or a separate /usr
// like Flatcar's. It also records kernel arguments.
func (l *look) systems(device string) []place {
	for _, config := range l.find("", append(slices.Clone(entryGlobs), "/grub.cfg", "/boot/grub*/grub.cfg",
		"/grub*/grub.cfg", "/*/grub/grub.cfg", "/boot/grub*/grubenv", "/grub*/grubenv", "/EFI/*/grubenv")...) {
		l.bootArguments.WriteString(l.textAt(config) + "\n")
	}

	var out []place

	for _, release := range l.find("", "/ostree/deploy/*/deploy/*/usr/lib/os-release") {
		root := strings.TrimSuffix(release, "/usr/lib/os-release")
		out = append(out, place{device, root, root + "/usr"})
	}

	switch {
	case len(out) > 0: // the system at the root is not booted
	case len(l.find("", "/usr/lib/os-release", "/etc/os-release")) > 0:
		out = append(out, place{device, "", "/usr"})
	case len(l.find("", "/lib/os-release")) > 0 && len(l.find("", "/usr/", "/etc/")) == 0:
		out = append(out, place{device, "", ""})
	}

	return out
}

// find expands globs below a folder.
func (l *look) find(root string, globs ...string) []string {
	var out []string

	for _, glob := range globs {
		if l.err != nil {
			return nil
		}

		var list string
		list, l.err = l.session.do("glob-expand", root+glob)

		for found := range strings.Lines(list) {
			out = append(out, strings.TrimSuffix(found, "\n"))
		}
	}

	return out
}

// paths expands globs in the operating system. Paths below /usr may be on a separate filesystem.
func (l *look) paths(globs ...string) []string {
	var out []string

	for _, glob := range globs {
		if below, ok := strings.CutPrefix(glob, "/usr/"); ok {
			out = append(out, l.find(l.usr, "/"+below)...)
			continue
		}

		out = append(out, l.find(l.root, glob)...)
	}

	return out
}

func (l *look) has(globs ...string) bool { return len(l.paths(globs...)) > 0 }

// program returns the path of a program, or "" if the image lacks it.
func (l *look) program(name string) string {
	found := l.paths("/usr/bin/"+name, "/usr/sbin/"+name, "/usr/local/bin/"+name, "/usr/local/sbin/"+name,
		"/opt/bin/"+name)
	if len(found) == 0 {
		return ""
	}

	return found[0]
}

// textAt returns the content of a file on the mounted filesystem; empty for other types and for large files.
func (l *look) textAt(name string) string {
	if l.err != nil || !l.small(name, 1<<20) {
		return ""
	}

	var text string
	text, l.err = l.session.do("cat", name)

	return text
}

// text joins the files matching globs.
func (l *look) text(globs ...string) string {
	var out strings.Builder
	for _, name := range l.paths(globs...) {
		out.WriteString(l.textAt(name) + "\n")
	}

	return out.String()
}

// small reports whether a path is a regular file of at most most bytes.
func (l *look) small(name string, most int64) bool {
	var answer string
	if answer, l.err = l.session.do("is-file", name, "followsymlinks:true"); l.err != nil ||
		strings.TrimSpace(answer) != "true" {
		return false
	}

	if answer, l.err = l.session.do("filesize", name); l.err != nil {
		return false
	}

	size, err := strconv.ParseInt(strings.TrimSpace(answer), 10, 64)

	return err == nil && size <= most
}

// fetch copies a file from the image and returns the path of the copy, or "" if this fails.
func (l *look) fetch(name string) string {
	if l.err != nil || !l.small(name, maxFetched) {
		return ""
	}

	to := filepath.Join(l.scratch, "fetched")
	_, l.err = l.session.do("download", name, to)

	return to
}

func (l *look) add(check string, verdict doctor.Verdict, remedy, format string, args ...any) {
	if l.err == nil {
		l.findings = append(l.findings, doctor.Finding{
			Check: check, Verdict: verdict, Message: fmt.Sprintf(format, args...), Remedy: remedy,
		})
	}
}

// examine examines the operating system.
func (l *look) examine() {
	release := releaseOf(l.text("/etc/os-release", "/usr/lib/os-release"))
	l.add("system", doctor.OK, "", "%s", strings.TrimSpace(release["ID"]+" "+release["VERSION_ID"]))

	ignition := l.provisioning()
	l.kubernetes()
	l.runtime(ignition)
	l.cgroups(release["ID"], release["VERSION_ID"])
	l.swap()
	l.updates(ignition)
	l.endpoint()
	l.security()
	l.agent()
	l.identity()
}

// plain matches displayable values of an image, because its texts are not trusted.
var plain = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// releaseOf returns the plain values of an os-release.
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

// dataSources returns cloud-init's data sources, from the last file that sets them. It returns nil if no file does.
// Like cloud-init, it skips files with invalid YAML.
func (l *look) dataSources() []string {
	var out []string

	for _, file := range l.paths("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg") {
		var config struct {
			DataSources []string `yaml:"datasource_list"`
		}
		if yaml.Unmarshal([]byte(l.textAt(file)), &config) == nil && config.DataSources != nil {
			out = config.DataSources
		}
	}

	return out
}

// provisioning finds the reader of user data, and its data source: the engine makes a config drive. It reports whether
// the reader is Ignition.
func (l *look) provisioning() bool {
	const check = "user data"

	platform := ignitionPlatform.FindStringSubmatch(l.bootArguments.String())
	if platform != nil || l.has("/usr/lib/dracut/modules.d/*ignition*", "/usr/bin/ignition", "/usr/libexec/ignition*") {
		switch {
		case platform == nil:
			l.add(check, doctor.Failed, "add ignition.platform.id=openstack to the arguments of the kernel",
				"there is Ignition, and the boot loader does not say where it finds its configuration")
		case platform[1] != "openstack":
			l.add(check, doctor.Failed, "make it anew: olvmctl image create --from FILE --out OTHER",
				"Ignition looks for its configuration as on %s, and the engine has it on a config drive: openstack",
				platform[1])
		default:
			l.add(check, doctor.OK, "", "Ignition reads the config drive; make the template with --os-type rhcos_x64")
		}

		return true
	}

	sources := l.dataSources()

	switch {
	case l.program("cloud-init") == "":
		l.add(check, doctor.Failed, "install cloud-init, or make an image with Ignition",
			"nothing reads the user data: there is neither cloud-init nor Ignition")
	case l.has("/etc/cloud/cloud-init.disabled"):
		l.add(check, doctor.Failed, "remove /etc/cloud/cloud-init.disabled", "cloud-init is turned off")
	case sources != nil && !slices.Contains(sources, "ConfigDrive"):
		l.add(check, doctor.Failed, "have ConfigDrive in datasource_list of /etc/cloud/cloud.cfg.d",
			"cloud-init does not look at the config drive, on which the engine has the user data")
	default:
		l.add(check, doctor.OK, "", "cloud-init reads the config drive; make the template with any other --os-type "+
			"than rhcos_x64")
	}

	return false
}

// kubernetes checks kubeadm and the kubelet, and their version.
func (l *look) kubernetes() {
	for _, name := range []string{"kubeadm", "kubelet"} {
		found := l.program(name)
		if found == "" {
			l.add(name, doctor.Failed, "install "+name, "there is no %s", name)
			continue
		}

		version := l.version(name, found)

		switch {
		case version == "":
			l.add(name, doctor.Unknown, "", "its version cannot be told without booting the image")
		case l.asked == "" || version == l.asked || strings.HasPrefix(version, l.asked+"."):
			l.add(name, doctor.OK, "", "version %s", version)
		case minorOf(version) == minorOf(l.asked):
			l.add(name, doctor.Warning, "say version: v"+version+" in the manifests",
				"it has version %s, not %s", version, l.asked)
		default:
			l.add(name, doctor.Failed, "install "+name+" "+l.asked+", or ask for v"+version,
				"it has version %s, not %s", version, l.asked)
		}
	}
}

func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// rpmDatabases are the possible paths of RPM's database. An image has one.
var rpmDatabases = []string{
	"/usr/share/rpm/rpmdb.sqlite", "/usr/share/rpm/Packages", "/usr/lib/sysimage/rpm/rpmdb.sqlite",
	"/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/Packages",
}

// version returns the version of a program, from its package or else from the program itself, or "" if it is unknown.
func (l *look) version(name, program string) string {
	if status := l.paths("/var/lib/dpkg/status"); len(status) > 0 {
		pattern := regexp.MustCompile(`(?m)^Package: ` + name + `\n(?:[^\n]+\n)*?Version: ([0-9]+\.[0-9]+\.[0-9]+)`)
		if found := l.versionIn(status[0], pattern); found != "" {
			return found
		}
	}

	for _, database := range l.paths(rpmDatabases...) {
		// Package headers are stored uncompressed: name, version and release, each followed by a zero.
		if found := l.versionIn(database, regexp.MustCompile(name+`\x00([0-9]+\.[0-9]+\.[0-9]+)\x00`)); found != "" {
			return found
		}
	}

	info, err := buildinfo.ReadFile(cmp.Or(l.fetch(program), os.DevNull))
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

// versionIn returns the match of a pattern in a file of the image.
func (l *look) versionIn(name string, pattern *regexp.Regexp) string {
	content, err := os.ReadFile(cmp.Or(l.fetch(name), os.DevNull))
	if match := pattern.FindSubmatch(content); err == nil && match != nil {
		return string(match[1])
	}

	return ""
}

// enabled reports whether a unit starts at boot. Images with Ignition have never booted, so presets decide there.
func (l *look) enabled(unit string, presets bool) bool {
	if l.has("/etc/systemd/system/*.wants/"+unit, "/usr/lib/systemd/system/*.wants/"+unit) {
		return true
	}

	if !presets {
		return false
	}

	files := l.paths("/etc/systemd/system-preset/*.preset", "/usr/lib/systemd/system-preset/*.preset")
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })

	for _, file := range files {
		for line := range strings.Lines(l.textAt(file)) {
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
	// criPlugin matches the plugin serving the kubelet, in containerd 1 and 2.
	criPlugin = regexp.MustCompile(`["'](?:io\.containerd\.)?(?:grpc\.v1\.cri|cri\.v1\.(?:images|runtime)|cri)["']`)
)

// servesKubernetes reports whether a runtime serves the kubelet. Docker's packages of containerd disable this.
func (l *look) servesKubernetes(unit string) bool {
	if unit != "containerd.service" {
		return true
	}

	config := tomlComments.ReplaceAllString(l.text("/etc/containerd/config.toml"), "$1")
	match := disabledPlugins.FindStringSubmatch(config)

	return match == nil || !criPlugin.MatchString(match[1])
}

// runtime checks the container runtime and the units needed by kubeadm.
func (l *look) runtime(ignition bool) {
	const check = "runtime"

	unit := ""
	for _, name := range []string{"crio", "containerd"} {
		if l.program(name) != "" && (unit == "" || l.enabled(name+".service", ignition)) {
			unit = name + ".service"
		}
	}

	ocne := l.enabled("ocne.service", ignition)

	switch {
	case unit == "":
		l.add(check, doctor.Failed, "install CRI-O or containerd", "there is no container runtime")
	case !l.servesKubernetes(unit):
		l.add(check, doctor.Failed, "remove cri from disabled_plugins in /etc/containerd/config.toml",
			"containerd does not serve Kubernetes: its plugin cri is turned off, as in Docker's packages")
	case !l.enabled(unit, ignition) && ignition:
		l.add(check, doctor.Warning, "use the flavor ock, or have userData enable it",
			"%s does not start by itself", unit)
	case !l.enabled(unit, ignition):
		l.add(check, doctor.Failed, "systemctl enable "+unit, "%s does not start at a boot", unit)
	default:
		l.add(check, doctor.OK, "", "%s starts at every boot", unit)
	}

	if ocne {
		l.add("ocne", doctor.Warning, "use the flavor ock, or have userData turn ocne.service off",
			"ocne.service starts by itself, and makes a cluster of its own")
	}

	if l.program("kubelet") != "" && !l.enabled("kubelet.service", ignition) {
		l.add("kubelet", doctor.Warning, "systemctl enable kubelet.service, or have userData enable it",
			"kubelet.service is not enabled: kubeadm starts it, and after a reboot the node does not come back")
	}
}

// unified has the first release of each system using control groups version 2 without a kernel argument.
var unified = map[string]int{
	"ol": 9, "rhel": 9, "centos": 9, "rocky": 9, "almalinux": 9, "ubuntu": 22, "debian": 11,
}

var (
	unifiedArgument = regexp.MustCompile(`\bsystemd\.unified_cgroup_hierarchy(?:=(?:1|yes|true|on))?(?:\s|$)`)
	minorRelease    = regexp.MustCompile(`^1\.([0-9]+)`)
	majorRelease    = regexp.MustCompile(`^[0-9]+`)
)

// cgroups checks for control groups version 2: since Kubernetes 1.35, kubelets do not start with version 1.
func (l *look) cgroups(system, release string) {
	version := l.asked
	if found := l.program("kubelet"); found != "" {
		version = cmp.Or(l.version("kubelet", found), version)
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

	l.add("cgroups", doctor.Failed, "add systemd.unified_cgroup_hierarchy=1 to the arguments of the kernel "+
		"(olvmctl image create --kernel-arg, for images of OCK)",
		"%s %s has control groups of version 1, with which the kubelet of Kubernetes %s does not start",
		system, release, version)
}

// swap looks for swap enabled at boot.
func (l *look) swap() {
	for line := range strings.Lines(l.text("/etc/fstab")) {
		words := strings.Fields(line)
		if len(words) < 3 || strings.HasPrefix(words[0], "#") || words[2] != "swap" {
			continue
		}

		l.add("swap", doctor.Warning, "remove it from /etc/fstab, or set failSwapOn: false for the kubelet",
			"there is swap, with which the kubelet does not start by default")

		return
	}
}

// updaters are units replacing or restarting software on a node, or rebooting it.
var updaters = []string{
	"locksmithd.service", "update-engine.service", "zincati.service", "dnf-automatic.timer",
	"dnf-automatic-install.timer", "unattended-upgrades.service",
}

// updates looks for software that changes nodes by itself. Cluster API replaces nodes instead, and drains only those.
func (l *look) updates(ignition bool) {
	var on []string

	for _, unit := range updaters {
		if l.enabled(unit, ignition) && !l.has("/etc/systemd/system/"+unit) { // a link to /dev/null masks it
			on = append(on, unit)
		}
	}

	if len(on) > 0 {
		l.add("updates", doctor.Warning, "systemctl mask "+strings.Join(on, " "),
			"%s updates or reboots nodes, which are not drained before", strings.Join(on, ", "))
	}
}

// endpoint checks the software of control plane nodes for holding the endpoint.
func (l *look) endpoint() {
	const check = "endpoint"

	var there, missing []string

	for _, name := range []string{"keepalived", "haproxy", "podman"} {
		if l.program(name) == "" {
			missing = append(missing, name)
		} else {
			there = append(there, name)
		}
	}

	has := func(name string) bool { return slices.Contains(there, name) }

	var asking []string

	for _, name := range []string{"curl", "kubectl"} {
		if l.program(name) == "" {
			asking = append(asking, name)
		}
	}

	switch {
	case has("keepalived") && len(asking) > 0:
		l.add(check, doctor.Failed, "install "+strings.Join(asking, " and "),
			"there is no %s, with which nodes that have keepalived ask the API server",
			strings.Join(asking, " and no "))
	case has("keepalived") && (has("haproxy") || has("podman")):
		l.add(check, doctor.OK, "", "%s", strings.Join(there, ", "))
	case has("keepalived"):
		l.add(check, doctor.Warning, "install haproxy, or podman for nginx in a container",
			"keepalived holds the endpoint, without a load balancer: there is no %s", strings.Join(missing, " and no "))
	default:
		l.add(check, doctor.Warning, "install keepalived and haproxy, or use virtualIPProvider: KubeVIP or External",
			"there is no %s, without which nodes do not hold the endpoint with virtualIPProvider: Keepalived",
			strings.Join(missing, " and no "))
	}
}

// security checks the mode of SELinux.
func (l *look) security() {
	const check = "selinux"

	match := regexp.MustCompile(`(?m)^SELINUX=(enforcing|permissive|disabled)`).FindStringSubmatch(
		l.text("/etc/selinux/config"))

	switch {
	case match == nil || match[1] == "disabled":
		l.add(check, doctor.OK, "", "there is none, or it is disabled")
	case match[1] == "enforcing" && l.program("keepalived") != "" && l.program("setsebool") == "":
		l.add(check, doctor.Failed, "install policycoreutils",
			"it is enforcing, and there is no setsebool to let keepalived and haproxy reach the API server")
	default:
		l.add(check, doctor.OK, "", "%s", match[1])
	}
}

// agent checks for the guest agent, which tells the engine a machine's addresses.
func (l *look) agent() {
	if l.program("qemu-ga") == "" {
		l.add("agent", doctor.Warning, "install qemu-guest-agent",
			"there is no guest agent: the engine learns no addresses, and machines with DHCP have none")
		return
	}

	l.add("agent", doctor.OK, "", "qemu-ga")
}

// identity looks for identities shared by all machines of the image.
func (l *look) identity() {
	if machineID.MatchString(strings.TrimRight(l.text("/etc/machine-id"), "\n")) {
		l.add("identity", doctor.Failed, "empty /etc/machine-id (olvmctl image create removes it from images of OCK)",
			"the image has a machine ID, which all machines would share")
	}

	if l.has("/etc/ssh/ssh_host_*_key") {
		l.add("identity", doctor.Warning, "remove /etc/ssh/ssh_host_*",
			"the image has host keys, which cloud-init replaces and Ignition does not")
	}
}
