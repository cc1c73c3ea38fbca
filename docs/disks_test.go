package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// byOrder matches disk names depending on the kernel's order of discovery.
var byOrder = regexp.MustCompile(`/dev/(?:[sv]d[a-z]|xvd[a-z]|nvme[0-9])`)

// TestNoManifestNamesADiskByItsOrder exists because a kernel may order disks differently at each boot, and the
// formatted one could be the root disk. We cannot create our own names: user data is the same for all machines of a
// template, and is written before the engine gives the disks their UUIDs.
func TestNoManifestNamesADiskByItsOrder(t *testing.T) {
	looked := 0

	for _, folder := range []string{"../config", ".", "../internal/olvmctl/clusterfile"} {
		check.Error(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "simulator.md" {
				return err
			}

			switch filepath.Ext(path) {
			case ".yaml", ".md":
			default:
				return nil
			}

			looked++

			for line := range strings.Lines(read(t, path)) {
				if name := byOrder.FindString(line); name != "" && !strings.Contains(line, "`"+name+"`") {
					t.Errorf("%s names %s: %s", path, name, line)
				}
			}

			return nil
		}), "")
	}

	if looked < 50 {
		t.Errorf("only %d files were looked at", looked)
	}
}

// TestTheServiceForUserDataLeadsToTheManager compares the Service recommended in userdata.md with the Deployment.
func TestTheServiceForUserDataLeadsToTheManager(t *testing.T) {
	var service struct {
		Metadata struct{ Namespace string }
		Spec     struct {
			Selector map[string]string
			Ports    []struct {
				Port       int
				TargetPort string
			}
		}
	}

	_, rest, found := strings.Cut(read(t, "user/userdata.md"), "--bootstrap-url")
	check.Equal(t, "the page says how", found, true)
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	check.Error(t, yaml.Unmarshal([]byte(text), &service), "")
	check.Length(t, "ports", service.Spec.Ports, 1)

	labels, named := map[string]string{}, map[string]int{}

	for document := range strings.SplitSeq(read(t, "../config/manager/manager.yaml"), "\n---\n") {
		var deployment struct {
			Kind string
			Spec struct {
				Template struct {
					Metadata struct{ Labels map[string]string }
					Spec     struct {
						Containers []struct {
							Ports []struct {
								Name          string
								ContainerPort int
							}
						}
					}
				}
			}
		}
		check.Error(t, yaml.Unmarshal([]byte(document), &deployment), "")

		if deployment.Kind != "Deployment" {
			continue
		}

		labels = deployment.Spec.Template.Metadata.Labels
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			named[port.Name] = port.ContainerPort
		}
	}

	for key, value := range service.Spec.Selector {
		check.Equal(t, "label "+key+" of the manager", labels[key], value)
	}

	check.Equal(t, "the manager's port", named[service.Spec.Ports[0].TargetPort], service.Spec.Ports[0].Port)

	// The flag's page is generated.
	check.Contains(t, "flags", read(t, "operate/flags.md"), "| `--bootstrap-listen` | `:9445` |")
	check.Equal(t, "the Service's port", service.Spec.Ports[0].Port, 9445)

	// A node of the management cluster may disappear; the page names a permanent address, and explains why no node's is
	// right.
	check.Contains(t, "userdata.md", read(t, "user/userdata.md"), "Do not use the address of a node")
}
