package lifecycle

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image/ocktest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// emptyDisk returns the header of a small disk.
func emptyDisk() []byte {
	disk := make([]byte, 512)
	copy(disk, "QFI\xfb\x00\x00\x00\x03")
	disk[23], disk[29] = 16, 16 // clusters of 64 KiB, and a size of 1 MiB

	return disk
}

// TestImagesOfOracleCloudComeFromARegistry has shapes of both architectures, and a registry on loopback.
func TestImagesOfOracleCloudComeFromARegistry(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	host := ocktest.ServeRegistry(t, nil)
	layer := ocktest.NewLayer(t, ocktest.File{Name: "disk/boot.qcow2", Content: emptyDisk()})
	ocktest.PushImage(t, host+"/nodes/arm:1.36", ocktest.NewImage(t, "arm64", layer))
	ocktest.PushImage(t, host+"/nodes/amd:1.36", ocktest.NewImage(t, "amd64", layer))

	said := &strings.Builder{}
	c := &creation{CreateOptions: CreateOptions{File: clusterfile.Loaded{Source: &clusterfile.Source{}}}}
	c.Display = progress.NewDisplay(io.MultiWriter(said, t.Output()))
	settings := &c.File.Providers.OCI
	settings.ControlPlaneShape.Shape, settings.WorkerShape.Shape = "VM.Standard.A1.Flex", "VM.Standard.E4.Flex"
	settings.Compartment = "mine"
	o := &OCI{Files: map[string]string{}, images: map[string]string{}}

	check.Error(t, o.checkImages(t.Context(), c), "providers.oci.bootImage")

	settings.BootImage = host + "/nodes/amd:1.36"
	check.Error(t, o.checkImages(t.Context(), c), "does not exist for arm64, only for amd64")

	o.Files["arm64"] = host + "/nodes/arm:1.36" // --image goes before the cluster file
	check.Error(t, o.checkImages(t.Context(), c), "")

	for _, architecture := range []string{"amd64", "arm64"} {
		file, err := o.pullDisk(t.Context(), c, architecture)
		check.Error(t, err, "")

		disk, err := os.ReadFile(file)
		check.Error(t, err, "")
		check.Equal(t, "the disk for "+architecture, string(disk), string(emptyDisk()))

		digest := strings.TrimSuffix(filepath.Base(file), "-"+architecture+".qcow2")
		check.Contains(t, "what is said", said.String(), digest)
	}

	check.Contains(t, "what is said", said.String(), "downloading boot.qcow2")
	check.Lacks(t, "what is said", said.String(), "Ignition")

	o.Files["arm64"] = "node.qcow2"
	file, err := o.pullDisk(t.Context(), c, "arm64")
	check.Error(t, err, "")
	check.Equal(t, "a file of this machine", file, "node.qcow2")
}
