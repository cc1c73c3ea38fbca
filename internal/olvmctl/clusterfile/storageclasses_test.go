package clusterfile

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// classes returns changes that add StorageClasses to a file.
func classes(text string) []string { return added("ovirtCsiDriver: {storageClasses: [" + text + "]}") }

func TestEachStorageDomainOfTheFileGetsAStorageClass(t *testing.T) {
	s := read(t, "current.yaml", classes("{storageDomainName: data, default: true}, "+
		"{name: fast, storageDomainName: SSD_1, thick: true, fsType: ext4}")...)
	check.Equal(t, "problems", texts(s.Validate()), "")

	objects, err := s.StorageDriver("", "")
	check.Error(t, err, "")

	found := map[string]*unstructured.Unstructured{}

	for _, o := range objects {
		if o.GetKind() == "StorageClass" {
			found[o.GetName()] = o
		}
	}

	check.Equal(t, "classes", len(found), 2)

	for name, want := range map[string]string{"data": "data true xfs", "fast": "SSD_1 false ext4"} {
		parameters, _, _ := unstructured.NestedStringMap(found[name].Object, "parameters")
		got := []string{
			parameters["storageDomainName"], parameters["thinProvisioning"], parameters["csi.storage.k8s.io/fstype"],
		}
		check.Equal(t, name, strings.Join(got, " "), want)
		check.Equal(t, name+" is the default", found[name].GetAnnotations()[defaultClass] == "true", name == "data")
		check.Equal(t, "provisioner", found[name].Object["provisioner"], any("csi.ovirt.org"))
	}
}

func TestAStorageClassThatCannotBeIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"{name: fast}":               "storageClasses.storageDomainName: required",
		"{storageDomainName: SSD_1}": `storageClasses.name: invalid StorageClass name "SSD_1"`,
		"{storageDomainName: a}, {storageDomainName: b, name: a}":                      `two classes have the name "a"`,
		"{storageDomainName: a, default: true}, {storageDomainName: b, default: true}": "2 classes are the default",
		"{storageDomainName: a, fsType: ntfs}":                                         `storageClasses.fsType: unsupported value "ntfs"`,
		"{storageDomainName: a}], install: false, x: [":                                "storageClasses: requires the storage driver, but install is false",
	} {
		check.Contains(t, text, texts(read(t, "current.yaml", classes(text)...).Validate()), want)
	}
}
