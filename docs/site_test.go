package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

var (
	// sitePage matches a page in the navigation of the site.
	sitePage     = regexp.MustCompile(`(?m)^ +- (\S+\.md)$`)
	withChecksum = regexp.MustCompile(`^[A-Za-z0-9._-]+==\S+( +--hash=sha256:[0-9a-f]{64})+$`)
)

// TestTheSiteHasEveryPage compares its navigation with the folder. mkdocs itself runs in CI: make site.
func TestTheSiteHasEveryPage(t *testing.T) {
	t.Parallel()

	var want []string

	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		isGenerated := strings.HasPrefix(path, "terraform-provider/") && path != "terraform-provider/index.md"
		if strings.HasSuffix(path, ".md") && !isGenerated {
			want = append(want, path)
		}

		return err
	})
	check.Error(t, err, "")

	settings := read(t, "../hack/site/mkdocs.yml")
	_, nav, _ := strings.Cut(settings, "\nnav:\n")

	var got []string
	for _, match := range sitePage.FindAllStringSubmatch(nav, -1) {
		got = append(got, match[1])
	}

	slices.Sort(got)
	slices.Sort(want)
	check.Equal(t, "pages", got, want)
	check.Contains(t, "the workflow of each change", read(t, "../.github/workflows/docs.yaml"), "- run: make site\n")

	_, err = os.Stat("index.md")
	check.Equal(t, "the first page is the README of the repository", os.IsNotExist(err), true)
}

// TestWhatBuildsTheSiteHasChecksums reads each line of the list: a package index could serve different files.
func TestWhatBuildsTheSiteHasChecksums(t *testing.T) {
	t.Parallel()

	packages := 0

	for line := range strings.SplitSeq(strings.ReplaceAll(read(t, "../hack/site/requirements.txt"), "\\\n", ""), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}

		packages++

		check.Equal(t, line, withChecksum.MatchString(line), true)
	}

	check.Equal(t, "packages", packages > 5, true)
	check.Contains(t, "make site", read(t, "../Makefile"), "--require-hashes")
}
