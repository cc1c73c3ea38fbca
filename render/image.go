package render

import (
	"fmt"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

const imageModule = "image"

// Image is a template for virtual machines that is created from a disk.
type Image struct {
	Engine Engine
	// Name and Description are those of the template.
	Name, Description string
	// VMName is the name of the VM for creating the template. Comment is the mark of its owner.
	VMName, Comment string
	// ClusterID and DiskID are UUIDs of the engine.
	ClusterID, DiskID string
	// OSType is the operating system in the engine's spelling.
	OSType string
	// Memory is the default memory of machines in bytes.
	Memory int64
}

// ImageConfiguration renders the configuration of a template.
func ImageConfiguration(in Image) (Configuration, error) {
	if in.Name == "" || in.VMName == "" || in.ClusterID == "" || in.DiskID == "" {
		return Configuration{}, fmt.Errorf("template %q: name, VM, cluster and disk must be set", in.Name)
	}

	file := hclwrite.NewEmptyFile()

	module := appendModule(file, imageModule)
	for _, argument := range []struct{ name, value string }{
		{"name", in.Name},
		{"description", in.Description},
		{"vm_name", in.VMName},
		{"comment", in.Comment},
		{"cluster_id", in.ClusterID},
		{"disk_id", in.DiskID},
		{"os_type", in.OSType},
	} {
		module.SetAttributeValue(argument.name, cty.StringVal(argument.value))
	}

	module.SetAttributeValue("memory", cty.NumberIntVal(in.Memory))

	return buildModuleConfiguration(in.Engine, file, imageModule, "template_id", ImageTemplate, []Address{
		NewAddress(blankTemplateDataType, "this").AsData().InModule(imageModule),
		VMAddress.InModule(imageModule),
		NewAddress(attachmentType, "this").InModule(imageModule),
		TemplateAddress,
	})
}
