package release

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	helmregistry "helm.sh/helm/v4/pkg/registry"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// signed is a release with an image and a chart, signed by the calls of the release workflow. A local key takes the
// place of the workflow's identity: Sigstore knows no tests.
type signed struct {
	t *testing.T
	// dir has the keys, and out/release as the workflow does. cosign is the program.
	dir, cosign string
	// registry is the address that stands for ghcr.io.
	registry string
	// image and chart are digests.
	image, chart string
}

// cosignForTests is a function for bash in place of the program: it signs by a key, without the public log.
const cosignForTests = `cosign() {
  command=$1
  shift
  case $command in
  verify*) set -- --insecure-ignore-tlog=true "$@" ;;
  *) set -- --key "$KEYS/cosign.key" --tlog-upload=false "$@" ;;
  esac
  "$COSIGN" "$command" "$@"
}
`

func newSigned(t *testing.T) *signed {
	t.Helper()
	testenv.SkipInShort(t, "cosign is a program of its own, whose build takes minutes")

	tools := testenv.Toolchain(t)
	check.Error(t, tools.Build(t.Context(), "cosign"), "")
	program, err := tools.Path("cosign", "cosign")
	check.Error(t, err, "")

	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)

	s := &signed{t: t, dir: t.TempDir(), cosign: program, registry: strings.TrimPrefix(server.URL, "http://")}
	check.Error(t, os.CopyFS(s.release(), os.DirFS(makeRelease(t, "v0.1.0"))), "")
	s.write("opentofu.cdx.json", `{"bomFormat": "CycloneDX", "specVersion": "1.6"}`)
	s.makeKeys()

	return s
}

// release returns the folder of the release.
func (s *signed) release() string { return filepath.Join(s.dir, "out", "release") }

func (s *signed) write(name, content string) {
	s.t.Helper()
	check.Error(s.t, os.WriteFile(filepath.Join(s.release(), name), []byte(content), 0o600), "")
}

// makeKeys makes keys to sign with, in place of earlier ones.
func (s *signed) makeKeys() {
	s.t.Helper()

	for _, file := range []string{"cosign.key", "cosign.pub"} {
		_ = os.Remove(filepath.Join(s.dir, file))
	}

	out, err := s.shell(s.dir, `"$COSIGN" generate-key-pair`)
	check.Error(s.t, err, "")
	check.Contains(s.t, "cosign", out, "cosign.pub")
}

// shell runs commands in a folder.
func (s *signed) shell(folder, script string) (string, error) {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), "bash", "-c", "set -euo pipefail\n"+cosignForTests+script)
	command.Dir = folder
	command.Env = append(os.Environ(), "HOME="+s.dir, "DOCKER_CONFIG="+s.dir, "COSIGN_PASSWORD=", "COSIGN="+s.cosign,
		"KEYS="+s.dir, "IMAGE="+s.registry+"/capolvm/cluster-api-provider-olvm", "DIGEST="+s.image,
		"CHART="+s.registry+"/capolvm/charts/cluster-api-provider-olvm", "digest="+s.chart)
	out, err := command.CombinedOutput()

	return string(out), err
}

// pushImage pushes an image of random content as that of the release.
func (s *signed) pushImage() {
	s.t.Helper()
	ref, err := name.ParseReference(s.registry + "/capolvm/cluster-api-provider-olvm:v0.1.0")
	check.Error(s.t, err, "")
	image, err := random.Image(1024, 1)
	check.Error(s.t, err, "")
	check.Error(s.t, remote.Write(ref, image), "")
	digest, err := image.Digest()
	check.Error(s.t, err, "")

	s.image = digest.String()
}

// pushChart pushes the chart of the release, as helm push does.
func (s *signed) pushChart() {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.release(), "cluster-api-provider-olvm-0.1.0.tgz"))
	check.Error(s.t, err, "")
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP())
	check.Error(s.t, err, "")
	result, err := client.Push(content, s.registry+"/capolvm/charts/cluster-api-provider-olvm:0.1.0")
	check.Error(s.t, err, "")

	s.chart = result.Manifest.Digest
}

// addChecksums writes checksums.txt.
func (s *signed) addChecksums() {
	s.t.Helper()
	writeChecksums(s.t, s.release())
}

// signFiles and signAll run the calls of cosign in the release workflow.
func (s *signed) signFiles() { s.sign(`cosign sign-blob .*`) }

func (s *signed) signAll() { s.sign(`cosign .*`) }

func (s *signed) sign(pattern string) {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(testenv.Toolchain(s.t).Root(), ".github", "workflows", "release.yaml"))
	check.Error(s.t, err, "")

	calls := regexp.MustCompile(`(?m)^ +(`+pattern+`)$`).FindAllStringSubmatch(string(content), -1)
	check.Equal(s.t, "calls of cosign were found", len(calls) > 0, true)

	for _, call := range calls {
		out, err := s.shell(s.dir, call[1])
		if err != nil {
			s.t.Fatalf("%s: %v\n%s", call[1], err, out)
		}
	}
}

// verify runs each call of cosign and sha256sum in install.md, and returns those that fail.
func (s *signed) verify() (failed []string) {
	s.t.Helper()
	_, text, _ := strings.Cut(testenv.ReadDocuments(s.t)["docs/operate/install.md"], "## Verifying")
	text, _, _ = strings.Cut(text, "\n## ")
	calls := regexp.MustCompile(`(?m)^ {4}((?:cosign|sha256sum) .*)$`).FindAllStringSubmatch(text, -1)
	check.Length(s.t, "calls", calls, 5)

	for _, call := range calls {
		script := "IDENTITY='--key " + s.dir + "/cosign.pub'\n" + strings.ReplaceAll(call[1], "ghcr.io/", s.registry+"/")
		if out, err := s.shell(s.release(), script); err != nil {
			s.t.Logf("%s: %v\n%s", call[1], err, out)
			failed = append(failed, call[1])
		}
	}

	return failed
}

// TestSignaturesAreVerifiedAsTheDocumentSays signs as the release workflow does, and verifies as install.md says. Then it
// changes what is signed. Nothing here tests the identity of the workflow, nor GitHub's attestations.
func TestSignaturesAreVerifiedAsTheDocumentSays(t *testing.T) {
	t.Parallel()

	s := newSigned(t)
	s.pushImage()
	s.pushChart()
	s.addChecksums()
	s.signAll()
	check.Length(t, "what fails of what is signed", s.verify(), 0)

	s.write("metadata.yaml", "changed")
	check.Equal(t, "what fails after a change of a file", strings.Join(s.verify(), "\n"),
		"sha256sum --check --ignore-missing checksums.txt")

	s.addChecksums()
	check.Equal(t, "what fails after a change of the checksums, too", strings.Join(s.verify(), "\n"),
		"cosign verify-blob $IDENTITY --bundle checksums.txt.bundle checksums.txt")
	s.signFiles()

	s.pushImage()
	check.Contains(t, "what fails with another image", strings.Join(s.verify(), "\n"),
		"cosign verify $IDENTITY ghcr.io/capolvm/cluster-api-provider-olvm:v0.1.0\ncosign verify-attestation")

	s.makeKeys()
	check.Length(t, "what fails for another signer", s.verify(), 4)
}

// cosignOnPath takes the place of the program for install.sh. It expects the identity of the workflow, and verifies by the
// key in its place.
const cosignOnPath = `#!/bin/bash
[ "$1 $2 $4 $6" = "verify-blob --bundle --certificate-identity --certificate-oidc-issuer" ] || exit 9
[ "$5" = https://github.com/capolvm/cluster-api-provider-olvm/.github/workflows/release.yaml@refs/tags/v0.1.0 ] || exit 9
[ "$7" = https://token.actions.githubusercontent.com ] || exit 9
exec "$COSIGN" verify-blob --bundle "$3" --key "$KEYS/cosign.pub" --insecure-ignore-tlog=true "$8"
`

// TestADownloadedOlvmctlInstallsTheRelease downloads olvmctl as install.md says, from a folder. The program then installs
// the release in a management cluster, without a kubelet to run it.
func TestADownloadedOlvmctlInstallsTheRelease(t *testing.T) {
	s := newSigned(t)
	s.addOlvmctl()
	s.addChecksums()
	s.signFiles()

	folder := filepath.Join(s.dir, ".local", "bin")
	out, err := s.install()
	check.Error(t, err, "")
	check.Contains(t, "install.sh", out, "Verified OK")
	check.Contains(t, "install.sh", out, "olvmctl v0.1.0 is in "+folder)

	said, err := exec.CommandContext(t.Context(), filepath.Join(folder, "olvmctl"), "version").CombinedOutput()
	check.Error(t, err, "")
	check.Contains(t, "olvmctl version", string(said), "v0.1.0")

	m := newManagement(t)
	m.others()
	m.release("v0.1.0")

	said, err = m.start(filepath.Join(folder, "olvmctl"))
	check.Error(t, err, "exit status 1")
	check.Contains(t, "olvmctl start", string(said), "Deployment capolvm-system/capolvm-controller-manager")
	m.expectInstalled("v0.1.0")

	s.makeKeys()
	check.Error(t, os.RemoveAll(folder), "")

	out, err = s.install()
	check.Error(t, err, "exit status 1")
	check.Contains(t, "install.sh", out, "the checksums are not signed by the release workflow of v0.1.0")

	_, err = os.Stat(folder)
	check.Equal(t, "it is installed", err == nil, false)
}

// addOlvmctl adds olvmctl for this machine to the release, and the script to install it.
func (s *signed) addOlvmctl() {
	s.t.Helper()
	buildPrograms(s.t, s.release(), "olvmctl")
}

// install runs the commands of install.md for olvmctl, with files of the folder in place of GitHub's.
func (s *signed) install() (string, error) {
	s.t.Helper()
	bin := filepath.Join(s.dir, "bin")
	check.Error(s.t, os.MkdirAll(bin, 0o755), "")
	check.Error(s.t, os.WriteFile(filepath.Join(bin, "cosign"), []byte(cosignOnPath), 0o755), "")

	commands := strings.Join(testenv.ReadSection(s.t, "docs/operate/install.md", "The command olvmctl"), "")
	script := strings.ReplaceAll(commands,
		"https://github.com/capolvm/cluster-api-provider-olvm/releases/download/v0.1.0/", "file://"+s.release()+"/")

	return s.shell(s.t.TempDir(), "unset -f cosign\nexport PATH="+bin+":$PATH CAPOLVM_RELEASE=file://"+s.release()+"\n"+script)
}

// start runs olvmctl start for a new cluster, with the repository of clusterctl in a folder.
func (m *management) start(olvmctl string) ([]byte, error) {
	m.t.Helper()
	sim, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(m.t, err, "")
	m.t.Cleanup(sim.Close)

	machine := "{olvmOvirtClusterName: Default, vmTemplateName: ock-1.36, olvmNetwork: {networkName: kvm-vlan, " +
		"vnicProfileName: kvm-vlan}, virtualMachine: {network: {dnsServers: 10.20.30.53, ipv4: {subnet: 10.20.30.0/24, " +
		"ipAddresses: 10.20.30.%d-10.20.30.%d}}}}"
	file := m.write("cluster.yaml", fmt.Sprintf("name: prod\nprovider: olvm\nvirtualIp: 10.20.30.5\nkubernetesVersion: 1.36.1\n"+
		"workerNodes: 1\nproviders:\n  olvm:\n    olvmDatacenterName: Default\n    olvmOvirtAPIServer: {serverURL: %s, "+
		"serverCAPath: %s}\n    controlPlaneMachine: %s\n    workerMachine: %s\n", sim.URL(), m.write("ca.pem", string(sim.CA())),
		fmt.Sprintf(machine, 10, 19), fmt.Sprintf(machine, 20, 29)))

	command := exec.CommandContext(m.t.Context(), olvmctl, "start", file, "--kubeconfig", m.kubeconfig,
		"--clusterctl-config", m.config, "--timeout", "20s", "--cni", "none", "--yes")
	command.Env = append(m.environment(), "OLVM_USERNAME="+sim.Username(), "OLVM_PASSWORD="+sim.Password(),
		"OLVM_URL="+sim.URL(), "CAPOLVM_TERRAFORM="+testenv.FindExecutable(m.t).Path)

	return command.CombinedOutput()
}
