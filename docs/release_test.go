package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

var (
	usesAction   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: *(.*)$`)
	ownAction    = regexp.MustCompile(`^capolvm/cluster-api-provider-olvm/[\w./-]+@COMMIT$`) // a reader fills it in
	byCommit     = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	builtProgram = regexp.MustCompile(`go build [^\n]*(?:\\\n[^\n]*)*-o /out/\w+ (\S+)`)
	addresses    = regexp.MustCompile(`(?m)^( *)(?:ipv4: \{.*)?ipAddresses:`)
)

// TestActionsAreNamedByCommit reads the workflows, and the example workflows for users: somebody able to move a tag
// must not be able to run code with the rights of a release.
func TestActionsAreNamedByCommit(t *testing.T) {
	t.Parallel()
	found := 0

	for _, pattern := range []string{
		"../.github/workflows/*", "../.github/actions/*/*", "*/*.md", "gitops/*/*", "../*.md",
	} {
		paths, err := filepath.Glob(pattern)
		check.Error(t, err, "")

		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				continue // a folder
			}

			for _, match := range usesAction.FindAllStringSubmatch(string(content), -1) {
				found++
				own := strings.HasPrefix(match[1], "./") || ownAction.MatchString(match[1])
				if !own && !byCommit.MatchString(match[1]) {
					t.Errorf("%s: %s: name the commit, and the version in a comment", path, match[1])
				}
			}
		}
	}

	check.Equal(t, "actions were found", found > 10, true)
}

// TestTheReleaseMakesWhatUsersVerify takes each call of cosign and gh in install.md, and looks for the workflow step
// producing its input. Nothing here runs GitHub's workflows.
func TestTheReleaseMakesWhatUsersVerify(t *testing.T) {
	t.Parallel()
	workflow := read(t, "../.github/workflows/release.yaml")
	_, text, _ := strings.Cut(read(t, "operate/install.md"), "## Verifying")
	text, _, _ = strings.Cut(text, "\n## ")

	for verification, made := range map[string]string{
		"cosign verify-blob":                          `cosign sign-blob --yes --bundle out/release/checksums.txt.bundle`,
		"--bundle checksums.txt.bundle":               `gh release create "$VERSION" out/release/*`,
		"cosign verify $IDENTITY ghcr.io/capolvm/cl":  `cosign sign --yes "$IMAGE@$DIGEST"`,
		"cosign verify $IDENTITY ghcr.io/capolvm/cha": `cosign sign --yes "$CHART@$digest"`,
		"cosign verify-attestation --type cyclonedx":  `cosign attest --yes --type cyclonedx`,
		"gh attestation verify olvmctl-linux-amd64":   "subject-path: out/release/*",
		"gh attestation verify oci://":                "push-to-registry: true",
	} {
		check.Contains(t, "install.md", text, verification)
		check.Contains(t, "release.yaml", workflow, made)
	}

	identity := regexp.MustCompile(`--certificate-identity (\S+)`).FindStringSubmatch(text)
	if len(identity) != 2 {
		t.Fatal("install.md does not say whose signature it verifies")
	}

	check.Equal(t, "identity", identity[1],
		"https://github.com/capolvm/cluster-api-provider-olvm/.github/workflows/release.yaml@refs/tags/v0.1.0")
	check.Contains(t, "release.yaml", workflow, "id-token: write")

	before, _, _ := strings.Cut(workflow, `make release VERSION="$VERSION" IMAGE_DIGEST="$DIGEST"`)
	check.Contains(t, "what comes before make release", before, "docker/build-push-action")
}

// TestVulnerabilitiesOfEachProgramOfTheImageAreChecked compares the programs built by the Dockerfile with those checked
// by make vuln.
func TestVulnerabilitiesOfEachProgramOfTheImageAreChecked(t *testing.T) {
	t.Parallel()
	_, vuln, _ := strings.Cut(read(t, "../Makefile"), "\nvuln:")
	vuln, _, _ = strings.Cut(vuln, "\n\n")
	programs := builtProgram.FindAllStringSubmatch(read(t, "../Dockerfile"), -1)
	check.Equal(t, "programs that the Dockerfile builds", len(programs), 2)

	for _, program := range programs {
		if strings.HasPrefix(program[1], "./cmd/") {
			program[1] = "./cmd/..."
		}

		check.Contains(t, "make vuln", vuln, program[1])
	}

	check.Contains(t, "the nightly workflow", read(t, "../.github/workflows/nightly.yaml"), "make vuln-image")
}

// TestMachinesOfExamplesHaveADNSServer reads manifests and cluster files of the documents: machines with static
// addresses but without a DNS server cannot pull images.
func TestMachinesOfExamplesHaveADNSServer(t *testing.T) {
	t.Parallel()
	examples := 0

	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		extension := filepath.Ext(path)
		if err != nil || entry.IsDir() || extension != ".yaml" && extension != ".md" {
			return err
		}

		for _, block := range strings.Split(read(t, path), "network:\n")[1:] {
			match := addresses.FindStringSubmatch(block)
			if match == nil || !strings.HasPrefix(block, " ") {
				continue
			}

			examples++
			own := mapping(block)
			if !strings.Contains(own, "dnsServers:") && strings.Contains(own, "ipAddresses:") {
				t.Errorf("%s: no dnsServers:\n%s", path, own)
			}
		}

		return nil
	})
	check.Error(t, err, "")
	check.Equal(t, "examples were found", examples >= 6, true)
}

// mapping returns the beginning of a text, up to the first line indented less than the first.
func mapping(text string) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	own := ""

	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, indent) {
			break
		}

		own += line
	}

	return own
}

// TestMachinesOfTheGitOpsExampleHaveADNSServer reads its fields; the test above reads text.
func TestMachinesOfTheGitOpsExampleHaveADNSServer(t *testing.T) {
	t.Parallel()
	machines := 0

	for document := range strings.SplitSeq(read(t, "gitops/clusters/prod/cluster.yaml"), "\n---\n") {
		var object struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						VirtualMachine struct{ Network struct{ DNSServers []string } }
					}
				}
			}
		}

		check.Error(t, yaml.Unmarshal([]byte(document), &object), "")
		if object.Kind == "OLVMMachineTemplate" {
			machines++
			check.Length(t, "dnsServers", object.Spec.Template.Spec.VirtualMachine.Network.DNSServers, 1)
		}
	}

	check.Equal(t, "machine templates", machines, 2)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check.Error(t, err, "")

	return string(content)
}
