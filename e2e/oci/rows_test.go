package oci

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/e2e/oci/fakeoci"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

var update = flag.Bool("update", false, "write the golden files")

// writes matches the calls that change the cloud.
const writes = `^(POST|PUT|DELETE|PATCH) `

// TestTheConfigurationOfOracleCloudIsCheckedFirst (row 33) verifies that compartments are found by OCID and by path,
// and that errors are reported before any write.
func TestTheConfigurationOfOracleCloudIsCheckedFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	child := s.cloud.Compartment("parent/my/child")
	image := s.cloud.AddImage(child, "arm64", "1.36", time.Now())
	other := s.cloud.AddImage(child, "amd64", "1.36.1", time.Now())
	ask := []string{"validate", "--engine", "-f"}
	start := []string{"start", "--kubeconfig", suite.plane.Kubeconfig, "-f"}

	for _, name := range []string{"parent/my/child", "/parent/my/child/", child} {
		s.clusterFile("config", name)
		s.does(append(ask, s.file)...)
		out, _ := s.does("template", "-f", s.file)
		contains(t, "the template", out, "compartmentId: "+child, image, other)
	}

	s.write(".ocne/defaults.yaml", "kubernetesVersion: 1.36.1\nproviders: {oci: {compartment: parent/my/child}}\n")
	out, _ := s.does("template", "--provider", "oci")
	contains(t, "the template of a provider", out, "compartmentId: "+child, image, other, "name: ocne")
	s.write(".ocne/defaults.yaml", "")

	for compartment, says := range map[string]string{
		"parent/my/chidl":                    `no such compartment "chidl" in "my"; existing compartments: child`,
		"parent/mine/child":                  `no such compartment "mine" in "parent"; existing compartments: five, four, my, one, six, three, two`,
		"nobody":                             `no such compartment "nobody" in the tenancy; existing compartments: parent`,
		"parent/one/child":                   `no such compartment "child" in "one"; it has no compartments`,
		"ocid1.compartment.oc1..nosuchthing": "not found, or not visible to the user",
		`""`:                                 "providers.oci.compartment: required",
		"parent/my":                          "does not have an image with ocne/architecture=amd64 and ocne/kubernetes=1.36.1",
	} {
		s.clusterFile("config", compartment)
		s.fails(append(ask, s.file), says)
		s.fails(append(start, s.file), says)
	}

	s.clusterFile("config", "parent/my/child", "controlPlaneNodes: 2")
	s.fails(append(start, s.file), "controlPlaneNodes: 2 is even")

	s.clusterFile("config", "parent/my/child")
	s.write(".oci/config", strings.Replace(readFile(t, filepath.Join(s.dir, ".oci/config")), "bbbb", "cccc", 1))
	s.fails(append(start, s.file), "OCI rejects the user or the key", "correct the profile")
	s.env = append(s.env, "OCI_CONFIG_FILE="+filepath.Join(s.dir, "nowhere"))
	s.fails(append(start, s.file), "no OCI configuration found", "oci setup config")

	check.Equal(t, "writes", len(s.cloud.Calls(writes)), 0)
}

// qcow2 returns the beginning of a disk image of 1 GiB, followed by size bytes.
func qcow2(size int) string {
	header := make([]byte, 512+size)
	copy(header, "QFI\xfb\x00\x00\x00\x03")
	header[23] = 16                                       // number of bits of a cluster
	copy(header[24:], "\x00\x00\x00\x00\x40\x00\x00\x00") // 1 GiB, the size of the disk
	header[103] = 104                                     // length of the header

	return string(header)
}

// startUpToManifests returns the arguments of a start of the cluster file. The start ends before it applies the
// manifests, because an immutable Secret with the same name already exists.
func (s *site) startUpToManifests(cluster string) []string {
	s.t.Helper()
	immutable := true
	err := errors.Join(
		suite.plane.Client.Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}),
		suite.plane.Client.Create(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: cluster + "-oci-credentials"},
			Immutable:  &immutable,
		}),
	)
	if err != nil {
		s.t.Fatal(err)
	}

	return []string{"start", "-f", s.file, "--kubeconfig", suite.plane.Kubeconfig}
}

// TestMissingImagesAreImportedIntoOracleCloud (row 36) verifies that start imports images missing in the compartment.
// It uses the newest of the existing images, and explains failed imports.
func TestMissingImagesAreImportedIntoOracleCloud(t *testing.T) {
	t.Parallel()

	t.Run("none is there", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.clusterFile("images-none", "parent/my")
		arm, amd := s.write("arm.qcow2", qcow2(40<<20)), s.write("amd.qcow2", qcow2(1<<10))
		start := s.startUpToManifests("images-none")
		s.fails(append(start, "--image", "arm64="+arm), "ocne/architecture=amd64", "--image amd64=FILE")
		check.Equal(t, "writes without a file for each", len(s.cloud.Calls(writes)), 0)

		s.fails(append(start, "--image", "arm64="+s.file, "--image", "amd64="+amd), "arm64: "+s.file)
		check.Equal(t, "writes with a file that is no disk", len(s.cloud.Calls(writes)), 0)

		_, _, said := s.olvmctl(append(start, "--image", "arm64="+arm, "--image", "amd64="+amd)...)
		contains(t, "progress", said, "importing "+arm+": 25 %", "importing "+arm+": 100 %", "uploading "+arm+": 32 of 40 MiB")

		images := s.cloud.Objects("images")
		check.Equal(t, "images", len(images), 2)
		check.Equal(t, "uploads in parts", len(s.cloud.Calls(`^PUT /n/.*/u/`)), 2)
		check.Equal(t, "what is left in the bucket", len(s.cloud.ObjectNames("ocne-images")), 0)
		check.Equal(t, "shapes of ARM", len(s.cloud.Calls(`^PUT /20160918/images/.*/shapes/`)), 2)
		check.Equal(t, "how ARM boots", len(s.cloud.Calls(`^POST /20160918/computeImageCapabilitySchemas`)), 1)

		out, _ := s.does("template", "-f", s.file)
		for _, image := range images {
			contains(t, "the template", out, "imageId: "+image["id"].(string))
		}
	})

	t.Run("one is there, and older ones", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.clusterFile("images-one", "parent/my")
		in := s.cloud.Compartment("parent/my")
		s.cloud.AddImage(in, "arm64", "1.36.1", time.Now().Add(-time.Hour))

		newest := s.cloud.AddImage(in, "arm64", "1.36.1", time.Now())
		for range 6 { // more images than a page holds
			s.cloud.AddImage(in, "arm64", "1.36.1", time.Now().Add(-2*time.Hour))
			s.cloud.AddImage(in, "arm64", "1.35.0", time.Now())
		}

		amd := s.write("amd.qcow2", qcow2(1<<10))
		s.olvmctl(append(s.startUpToManifests("images-one"), "--image", "amd64="+amd)...)
		check.Equal(t, "imports", len(s.cloud.Calls(`^POST /20160918/images`)), 1)

		out, _ := s.does("template", "-f", s.file)
		contains(t, "the template", out, "imageId: "+newest)
	})

	t.Run("an import fails", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.clusterFile("images-failed", "parent/my")
		in := s.cloud.Compartment("parent/my")
		s.cloud.AddImage(in, "arm64", "1.36.1", time.Now())
		s.cloud.Fail(fakeoci.Fault{
			Call: regexp.MustCompile("^WORK ImageImport"), Times: 1, Code: "InvalidImage",
			Message: "the disk has no boot sector",
		})
		args := append(s.startUpToManifests("images-failed"), "--image", "amd64="+s.write("amd.qcow2", qcow2(1<<10)))
		s.fails(args, "InvalidImage: the disk has no boot sector")

		// The import continues without another upload.
		uploads := len(s.cloud.Calls(`^PUT /n/`))
		s.olvmctl(args...)
		check.Equal(t, "uploads", len(s.cloud.Calls(`^PUT /n/`)), uploads)
		check.Equal(t, "images", len(s.cloud.Objects("images")), 2)
	})
}

// TestTheTemplateOfOracleCloudCanBeGivenBack (row 37) verifies that a printed template is as in the seed, and that it
// is accepted as input.
func TestTheTemplateOfOracleCloudCanBeGivenBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	in := s.cloud.Compartment("parent/my")
	arm := s.cloud.AddImage(in, "arm64", "1.36.1", time.Now())
	amd := s.cloud.AddImage(in, "amd64", "1.36.1", time.Now())
	s.clusterFile("ocne", "parent/my", "workerNodes: 2", "proxy: {httpsProxy: 'http://proxy:3128'}")

	out, _ := s.does("template", "-f", s.file)
	golden := filepath.Join("testdata", "template.yaml")
	if *update {
		text := strings.NewReplacer(in, "COMPARTMENT", arm, "ARM", amd, "AMD", s.cloud.URL(), "URL").Replace(out)
		if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	want := strings.NewReplacer("COMPARTMENT", in, "ARM", arm, "AMD", amd, "URL", s.cloud.URL()).Replace(
		readFile(t, golden))
	check.Equal(t, "the template", out, want)

	// The real API server with the CRDs of Cluster API Provider OCI accepts the whole template.
	objects, err := manifest.Read([]byte(out))
	if err != nil {
		t.Fatal(err)
	}

	for _, object := range objects {
		object.SetNamespace("default")
		err := suite.plane.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.DryRunAll,
			manifest.FieldOwner)
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}

	s.write("mycluster.oci", out)
	s.clusterFile("ocne", "parent/my", "clusterDefinition: mycluster.oci")
	again, _ := s.does("template", "-f", s.file)
	check.Equal(t, "the template of what was printed", again, out)

	s.write("mycluster.oci", strings.Replace(out, arm, "none", 1))
	s.fails([]string{"validate", "--engine", "-f", s.file}, `spec.template.spec.imageId: "none"`)
	s.fails([]string{"plan", "-f", s.file}, "Terraform creates only the machines of olvm")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return string(content)
}

// sorted returns the sorted values of a field in the objects.
func sorted(objects []map[string]any, field string) []string {
	var out []string
	for _, object := range objects {
		out = append(out, object[field].(string))
	}

	slices.Sort(out)

	return out
}

// TestAnImportThatWasInterrupted verifies that the next start completes an import. The image is then available for its
// shapes, and nothing is left.
func TestAnImportThatWasInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.clusterFile("interrupted", "parent/my")
	s.cloud.AddImage(s.cloud.Compartment("parent/my"), "amd64", "1.36.1", time.Now())
	args := append(s.startUpToManifests("interrupted"), "--image", "arm64="+s.write("arm.qcow2", qcow2(1<<10)))
	s.cloud.Fail(fakeoci.Fault{
		Call: regexp.MustCompile("^PUT /20160918/images/.*/shapes/"), Times: 1, Status: 400, Code: "InvalidParameter",
		Message: "not now",
	})
	s.fails(args, "not now")
	check.Equal(t, "objects in the bucket", len(s.cloud.ObjectNames("ocne-images")), 1)

	s.fails(args[:len(args)-2], "field is immutable") // the start reaches the manifests without the image file
	check.Equal(t, "imports", len(s.cloud.Calls(`^POST /20160918/images$`)), 1)
	check.Equal(t, "shapes of ARM", len(s.cloud.Calls(`^PUT /20160918/images/.*/shapes/`)), 3)
	check.Equal(t, "how ARM boots", len(s.cloud.Objects("computeImageCapabilitySchemas")), 1)
	check.Equal(t, "objects in the bucket", len(s.cloud.ObjectNames("ocne-images")), 0)

	for _, image := range s.cloud.Objects("images") {
		tags, _ := image["freeformTags"].(map[string]any)
		check.Equal(t, "tags", len(tags), 2)
	}
}
