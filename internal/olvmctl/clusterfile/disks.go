package clusterfile

import (
	"regexp"
	"slices"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
)

// RootDisk configures a VM's copy of the bootable disk in its VM template. It is not part of Oracle's format.
type RootDisk struct {
	// Size is the size the disk grows to, such as 100GB. If empty, the disk keeps its size.
	Size              string `yaml:"size"`
	StorageDomainName string `yaml:"storageDomainName"`
	// Format is cow or raw. If empty, it is the format in the VM template.
	Format string `yaml:"format"`
	Sparse *bool  `yaml:"sparse"`
	Clone  *bool  `yaml:"clone"`
}

// DataDisk is an additional disk beside the disks of the VM template. It is not part of Oracle's format.
type DataDisk struct {
	Name              string `yaml:"name"`
	Size              string `yaml:"size"`
	StorageDomainName string `yaml:"storageDomainName"`
	// Format is cow or raw. If empty, it is cow.
	Format string `yaml:"format"`
	Sparse *bool  `yaml:"sparse"`
	// InterfaceType is virtio_scsi, virtio or sata. If empty, it is virtio_scsi.
	InterfaceType string `yaml:"interfaceType"`
}

var (
	diskFormats    = []string{"cow", "raw"}
	diskInterfaces = []string{"virtio_scsi", "virtio", "sata"}
	// diskName matches the disk names allowed by the CRD.
	diskName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,50}$`)
)

// requestedDisks returns the root disk and the data disks requested by the settings of machines.
func (vm *VirtualMachine) requestedDisks() (*infrav1.RootDisk, []infrav1.DataDisk) {
	var root *infrav1.RootDisk

	if d := vm.RootDisk; d != (RootDisk{}) {
		root = &infrav1.RootDisk{
			Size: d.Size, StorageDomainName: d.StorageDomainName, Format: d.Format, Sparse: d.Sparse, Clone: d.Clone,
		}
	}

	var data []infrav1.DataDisk

	for _, d := range vm.DataDisks {
		data = append(data, infrav1.DataDisk{
			Name: d.Name, Size: d.Size, StorageDomainName: d.StorageDomainName, Format: d.Format, Sparse: d.Sparse,
			InterfaceType: d.InterfaceType,
		})
	}

	return root, data
}

// checkDisks checks the disks with the rules of the API server.
func (s *Source) checkDisks(kind machineKind) {
	vm := kind.machine.VirtualMachine
	s.checkRootDisk(kind.prefix+"virtualMachine.rootDisk.", vm.RootDisk)

	list := kind.prefix + "virtualMachine.dataDisks"
	seen := map[string]bool{}

	for i, d := range vm.DataDisks {
		switch {
		case d.Name == "":
			s.noteEntry(false, list, i, "name", "required; use for example data")
		case !diskName.MatchString(d.Name):
			s.noteEntry(false, list, i, "name",
				"invalid disk name %q; use up to 50 letters, digits, dots, hyphens and underscores", d.Name)
		case seen[d.Name]:
			s.noteEntry(false, list, i, "name", "another disk already has the name %q; use another name", d.Name)
		}

		seen[d.Name] = true

		if d.Size == "" {
			s.noteEntry(false, list, i, "size", "required; use for example 100GB")
		} else if _, err := desired.ParseMemory(d.Size); err != nil {
			s.noteEntry(false, list, i, "size", "%s", diskSizeError(err))
		}

		if d.Format != "" && !slices.Contains(diskFormats, d.Format) {
			s.noteEntry(false, list, i, "format", "unsupported value %q; use %s", d.Format,
				strings.Join(diskFormats, " or "))
		}

		if d.InterfaceType != "" && !slices.Contains(diskInterfaces, d.InterfaceType) {
			s.noteEntry(false, list, i, "interfaceType", "unsupported value %q; use one of %s", d.InterfaceType,
				strings.Join(diskInterfaces, ", "))
		}
	}
}

func (s *Source) checkRootDisk(path string, d RootDisk) {
	if d.Size != "" {
		if _, err := desired.ParseMemory(d.Size); err != nil {
			s.noteProblem(false, path+"size", "%s", diskSizeError(err))
		}
	}

	if d.Format != "" && !slices.Contains(diskFormats, d.Format) {
		s.noteProblem(false, path+"format", "unsupported value %q; use %s", d.Format, strings.Join(diskFormats, " or "))
	}

	needsCopy := d.Format == "raw" || d.Sparse != nil && !*d.Sparse
	if d.Clone != nil && !*d.Clone && needsCopy {
		s.noteProblem(
			false,
			path+"clone",
			"a raw or non-sparse disk must be a copy of the template's disk; set clone to true, or remove it",
		)
	}
}

// diskSizeError adapts an error about a size to disks. It removes the hint about booting, which applies only to memory.
func diskSizeError(err error) string {
	return strings.Replace(err.Error(), ", with which no node boots", "", 1)
}
