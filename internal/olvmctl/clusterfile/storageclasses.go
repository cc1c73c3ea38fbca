package clusterfile

import (
	"cmp"
	"slices"
	"strconv"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// storageClasses is the path of the storage classes. defaultClass annotates the class for claims that name no class.
const (
	storageClasses = "providers.olvm.ovirtCsiDriver.storageClasses"
	defaultClass   = "storageclass.kubernetes.io/is-default-class"
)

// fileSystems are the file systems supported by nodes.
var fileSystems = []string{"ext4", "xfs"}

// className returns the name of the StorageClass in the cluster.
func (c StorageClass) className() string { return cmp.Or(c.Name, c.StorageDomainName) }

// storageClassObjects returns the StorageClasses of the file, with parameters for the oVirt CSI driver. The driver
// supports neither snapshots nor topology, because all hosts of a data center reach its storage domains.
func (s *Source) storageClassObjects() []runtime.Object {
	driver := s.Providers.OLVM.CSIDriver

	var out []runtime.Object

	for _, class := range driver.StorageClasses {
		object := &storagev1.StorageClass{
			TypeMeta:    metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
			ObjectMeta:  metav1.ObjectMeta{Name: class.className()},
			Provisioner: cmp.Or(driver.CSIDriverName, defaultCSIDriver),
			Parameters: map[string]string{
				"storageDomainName":         class.StorageDomainName,
				"thinProvisioning":          strconv.FormatBool(!class.Thick),
				"csi.storage.k8s.io/fstype": cmp.Or(class.FSType, "xfs"),
			},
			AllowVolumeExpansion: ptr.To(true),
		}
		if class.Default {
			object.Annotations = map[string]string{defaultClass: "true"}
		}

		out = append(out, object)
	}

	return out
}

// checkStorageClasses checks the storage classes of the file.
func (s *Source) checkStorageClasses() {
	driver := s.Providers.OLVM.CSIDriver
	if wanted, _ := s.WantsStorageDriver(); !wanted && len(driver.StorageClasses) > 0 {
		s.noteProblem(false, storageClasses, "requires the storage driver, but install is false; remove one of them")
	}

	var names []string
	defaults := 0

	for _, class := range driver.StorageClasses {
		switch problems := validation.IsDNS1123Subdomain(class.className()); {
		case class.StorageDomainName == "":
			s.noteProblem(false, storageClasses+".storageDomainName", "required")
		case len(problems) > 0:
			s.noteProblem(
				false,
				storageClasses+".name",
				"invalid StorageClass name %q; use lower case letters, digits, hyphens and dots",
				class.className(),
			)
		case slices.Contains(names, class.className()):
			s.noteProblem(false, storageClasses+".name", "two classes have the name %q; rename one of them",
				class.className())
		}

		if class.FSType != "" && !slices.Contains(fileSystems, class.FSType) {
			s.noteProblem(false, storageClasses+".fsType", "unsupported value %q; use ext4 or xfs", class.FSType)
		}

		names = append(names, class.className())
		if class.Default {
			defaults++
		}
	}

	if defaults > 1 {
		s.noteProblem(false, storageClasses+".default", "%d classes are the default; set default in only one of them",
			defaults)
	}
}
