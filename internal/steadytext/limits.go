package steadytext

import (
	"reflect"
	"strings"
	"unicode"
)

// limits are the limits of status fields in the CRDs. length is the maximum length of a text, or of each text in a
// list. items is the maximum number of items in a list.
var limits = map[string]struct{ length, items int }{
	"OLVMClusterStatus.AffinityGroups": {0, 1000}, "OLVMInventoryStatus.ServerURL": {2048, 0},
	"OLVMInventoryStatus.EngineID": {64, 0}, "OLVMInventoryStatus.Unschedulable": {0, 256},
	"OLVMMachineStatus.FailureDomain": {256, 0}, "OLVMSupportServicesStatus.Services": {0, 32},

	"AffinityGroupStatus.Name": {63, 0}, "AffinityGroupStatus.OLVMOvirtClusterID": {64, 0},
	"AffinityGroupStatus.ID":        {64, 0},
	"OLVMDatacenterStatus.EngineID": {64, 0}, "OLVMDatacenterStatus.DataCenterID": {64, 0},
	"OLVMDatacenterStatus.DataCenterName": {255, 0}, "OLVMDatacenterStatus.ServerURL": {2048, 0},
	"OLVMRelease.Name": {255, 0}, "OLVMRelease.Version": {255, 0},

	"OLVMStatus.EngineID": {64, 0}, "OLVMStatus.ClusterID": {64, 0}, "OLVMStatus.ClusterName": {255, 0},
	"OLVMStatus.IPAddress": {45, 0}, "OLVMStatus.NetworkID": {64, 0}, "OLVMStatus.NetworkName": {255, 0},
	"OLVMStatus.VMTemplateID": {64, 0}, "OLVMStatus.VMTemplateName": {255, 0}, "OLVMStatus.VNICID": {64, 0},
	"OLVMStatus.VNICName": {255, 0}, "OLVMStatus.VNICProfileID": {64, 0}, "OLVMStatus.VNICProfileName": {255, 0},
	"VirtualMachineStatus.VMID": {64, 0}, "VirtualMachineStatus.VMName": {255, 0},
	"VirtualMachineStatus.Status": {255, 0}, "VirtualMachineStatus.HostName": {255, 0},
	"VirtualMachineStatus.CreationStatus": {64, 0}, "VirtualMachineStatus.CreationError": {32768, 0},
	"VirtualMachineStatus.LastGeneration": {64, 0},

	"TerraformStatus.StateSecretName": {253, 0}, "TerraformStatus.StateLineage": {255, 0},
	"TerraformRun.Operation": {64, 0}, "TerraformRun.Result": {64, 0}, "TerraformRun.Changes": {256, 16},
	"DriftStatus.Differences": {256, 16}, "DriftStatus.Error": {1024, 0},

	"UnschedulableGroup.ClusterName": {253, 0}, "UnschedulableGroup.Group": {320, 0},
	"UnschedulableGroup.Message":   {1024, 0},
	"OLVMInventoryVMStatus.Phase":  {64, 0},
	"OLVMInventoryVMStatus.Reason": {1024, 0}, "OLVMInventoryVMStatus.Message": {32768, 0},
	"OLVMInventoryVMStatus.ClaimID": {64, 0}, "OLVMInventoryVMStatus.VMName": {255, 0},
	"OLVMInventoryVMStatus.VMStatus": {255, 0}, "OLVMInventoryVMStatus.HostName": {255, 0},
	"OLVMInventoryVMStatus.VMTemplateName": {255, 0}, "OLVMInventoryVMStatus.Networks": {0, 64},
	"InventoryNetwork.Name": {255, 0}, "InventoryNetwork.IPAddresses": {64, 64},

	"NodeInfo.OperatingSystem": {256, 0}, "Condition.Message": {32768, 0}, // limits of Kubernetes

	"SupportServiceStatus.Name": {63, 0}, "SupportServiceStatus.Address": {45, 0},
	"SupportServiceStatus.Machines": {253, 16},
}

// BoundStatus shortens the texts and lists in an object's status to the limits of the API server. It also removes
// control characters from texts. Texts of engines, guests and plans may exceed these limits. Then the API server would
// refuse the whole status with its conditions.
func BoundStatus(object any) {
	if status := reflect.ValueOf(object).Elem().FieldByName("Status"); status.IsValid() {
		boundValue(status)
	}
}

func boundValue(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			boundValue(value.Elem())
		}
	case reflect.Slice:
		for i := range value.Len() {
			boundValue(value.Index(i))
		}
	case reflect.Struct:
		for i := range value.NumField() {
			boundField(value.Field(i), value.Type().Name()+"."+value.Type().Field(i).Name)
		}
	}
}

func boundField(value reflect.Value, name string) {
	most, ok := limits[name]

	switch {
	case !ok:
		boundValue(value)
	case value.Kind() == reflect.String:
		value.SetString(FitLength(replaceControls(value.String()), most.length))
	case value.Kind() == reflect.Slice:
		value.SetLen(min(value.Len(), most.items))

		for i := range value.Len() {
			if item := value.Index(i); item.Kind() == reflect.String {
				item.SetString(FitLength(replaceControls(item.String()), most.length))
			} else {
				boundValue(item)
			}
		}
	}
}

// replaceControls replaces characters that control terminals: all control characters except line breaks and tabs.
func replaceControls(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}

		return r
	}, text)
}
