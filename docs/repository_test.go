package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestUpdatesReachWhatIsShipped reads the configuration of Dependabot. GitHub itself has not read it.
func TestUpdatesReachWhatIsShipped(t *testing.T) {
	t.Parallel()

	var file struct {
		Version int
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]struct{ Patterns []string }
		}
	}

	check.Error(t, yaml.UnmarshalStrict([]byte(read(t, "../.github/dependabot.yml")), &file), "")
	check.Equal(t, "version", file.Version, 2)

	got := map[string][]string{}
	for _, update := range file.Updates {
		got[update.Ecosystem] = append(got[update.Ecosystem], update.Directories...)
		if update.Directory != "" {
			got[update.Ecosystem] = append(got[update.Ecosystem], update.Directory)
		}

		check.Equal(t, update.Ecosystem+" has an interval", update.Schedule.Interval != "", true)
	}

	for _, folder := range got["gomod"] {
		_, err := os.Stat(filepath.Join("..", folder, "go.mod"))
		check.Error(t, err, "")
	}

	// The image consists of these two modules.
	for _, folder := range []string{"/", "/hack/tools/tofu"} {
		check.Equal(t, "modules of "+folder+" are updated", slices.Contains(got["gomod"], folder), true)
	}

	check.Equal(t, "actions", got["github-actions"], []string{"/"})
	check.Equal(t, "images of the Dockerfile", got["docker"], []string{"/"})
	check.Equal(t, "programs of the site", got["pip"], []string{"/hack/site"})
}

// ownPage matches a link to a page of the repository on GitHub.
var ownPage = regexp.MustCompile(`^https://github\.com/capolvm/cluster-api-provider-olvm/(?:blob/main/)?(.*)$`)

// TestIssueFormsFollowTheSchemaOfGitHub reads the forms of issues. GitHub itself has not read them.
func TestIssueFormsFollowTheSchemaOfGitHub(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml")
	check.Error(t, err, "")
	check.Length(t, "forms", paths, 3)

	for _, path := range paths {
		if filepath.Base(path) == "config.yml" {
			continue
		}

		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID    string
				Attributes  struct{ Label, Description string }
				Validations struct{ Required bool }
			}
		}

		check.Error(t, yaml.UnmarshalStrict([]byte(read(t, path)), &form), "")
		check.Equal(t, path+" has a name and a description", form.Name != "" && form.Description != "", true)

		ids := map[string]bool{}

		for _, field := range form.Body {
			isField := slices.Contains([]string{"input", "textarea"}, field.Type)
			check.Equal(t, path+": "+field.ID+" is a field", isField, true)
			check.Equal(t, path+": "+field.ID+" has a label", field.Attributes.Label != "", true)
			check.Equal(t, path+": "+field.ID+" is there once", field.ID != "" && !ids[field.ID], true)
			ids[field.ID] = true
		}

		check.Equal(t, path+" has fields", len(ids) > 0, true)
	}

	var config struct {
		BlankIssuesEnabled bool                                `json:"blank_issues_enabled"`
		ContactLinks       []struct{ Name, URL, About string } `json:"contact_links"`
	}

	check.Error(t, yaml.UnmarshalStrict([]byte(read(t, "../.github/ISSUE_TEMPLATE/config.yml")), &config), "")
	check.Equal(t, "links", len(config.ContactLinks) > 0, true)

	for _, link := range config.ContactLinks {
		check.Equal(t, link.URL+" has a name and a text", link.Name != "" && link.About != "", true)

		if page := ownPage.FindStringSubmatch(link.URL); strings.Contains(link.URL, "/blob/main/") {
			_, err := os.Stat(filepath.Join("..", page[1]))
			check.Error(t, err, "")
		}
	}
}

// TestTheChangelogHasEachReleaseSeries compares it with the series that clusterctl knows.
func TestTheChangelogHasEachReleaseSeries(t *testing.T) {
	t.Parallel()

	var metadata struct {
		ReleaseSeries []struct{ Major, Minor int }
	}

	check.Error(t, yaml.Unmarshal([]byte(read(t, "../config/metadata.yaml")), &metadata), "")
	check.Equal(t, "series", len(metadata.ReleaseSeries) > 0, true)

	changes := read(t, "../CHANGELOG.md")
	for _, series := range metadata.ReleaseSeries {
		check.Contains(t, "CHANGELOG.md", changes, fmt.Sprintf("v%d.%d.", series.Major, series.Minor))
	}
}

// TestTheNamespaceOfTheManagerEnforcesTheStrictestPodSecurity reads config/manager, which releases contain.
func TestTheNamespaceOfTheManagerEnforcesTheStrictestPodSecurity(t *testing.T) {
	t.Parallel()

	namespace, _, _ := strings.Cut(read(t, "../config/manager/manager.yaml"), "\n---\n")

	var object struct {
		Kind     string
		Metadata struct{ Labels map[string]string }
	}

	check.Error(t, yaml.Unmarshal([]byte(namespace), &object), "")
	check.Equal(t, "the first object", object.Kind, "Namespace")
	check.Equal(t, "level", object.Metadata.Labels["pod-security.kubernetes.io/enforce"], "restricted")
}
