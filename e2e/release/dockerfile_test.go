package release

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

var (
	stage   = regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)(?: AS (\S+))?$`)
	copied  = regexp.MustCompile(`(?m)^COPY --from=(\S+)`)
	pinned  = regexp.MustCompile(`(?m)^ARG ([A-Z_]+_IMAGE)=(\S+):([^\s:@]+)@sha256:[0-9a-f]{64}$`)
	fixed   = regexp.MustCompile(`^(\S+):(\S+)$`)
	modules = regexp.MustCompile(`(?m)^go (\S+)$`)
)

// TestTheImageIsBuiltOfStagesThatExist reads the Dockerfile, because it cannot be built here.
func TestTheImageIsBuiltOfStagesThatExist(t *testing.T) {
	root := testenv.Toolchain(t).Root()
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}

	text := string(content)

	images, names := map[string]string{}, map[string]string{} // tags and names by the arguments replaced in releases
	for _, match := range pinned.FindAllStringSubmatch(text, -1) {
		images["${"+match[1]+"}"], names["${"+match[1]+"}"] = match[3], match[2]
	}

	known := map[string]bool{"scratch": true}
	last := ""

	for _, match := range stage.FindAllStringSubmatch(text, -1) {
		switch base := match[1]; {
		case known[base], images[base] != "":
		case base == "executor-${EXECUTOR}":
			if !known["executor-tofu"] || !known["executor-terraform"] || !strings.Contains(text,
				"\nARG EXECUTOR=tofu\n") {
				t.Error("there are not both executors, with OpenTofu as the default")
			}
		case fixed.MatchString(base) && !strings.HasSuffix(base, ":latest"):
		default:
			t.Errorf("FROM %s: no stage before it, and no image with a version", base)
		}

		known[match[2]], last = true, match[1]
	}

	for _, match := range copied.FindAllStringSubmatch(text, -1) {
		if !known[match[1]] {
			t.Errorf("COPY --from=%s: there is no such stage", match[1])
		}
	}

	if name, replaced := names[last]; replaced {
		last = name
	}

	if !strings.Contains(last, "distroless/static") ||
		!regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).MatchString(text) {
		t.Errorf("the image is %s, or runs as root", last)
	}

	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}

	wanted := modules.FindStringSubmatch(string(module))[1]
	if !strings.HasPrefix(images["${GO_IMAGE}"], wanted[:strings.LastIndex(wanted, ".")]) {
		t.Errorf("Go %s builds it, and go.mod wants %s", images["${GO_IMAGE}"], wanted)
	}

	for _, folder := range []string{"hack/tools/tofu", "cmd/manager"} {
		info, err := os.Stat(filepath.Join(root, folder))
		check.Error(t, err, "")
		check.Equal(t, folder+": info.IsDir()", info.IsDir(), true)
		check.Contains(t, folder+": text", text, folder)
	}
}
