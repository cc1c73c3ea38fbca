package desired

import (
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// TestAFieldThatXMLCannotCarryIsNamed has fields at several depths of a machine.
func TestAFieldThatXMLCannotCarryIsNamed(t *testing.T) {
	s := newSite(t, "")

	for name, test := range map[string]struct {
		change       func(*infrav1.OLVMMachineSpec)
		field, wants string
	}{
		"a description": {
			func(m *infrav1.OLVMMachineSpec) { m.VirtualMachine.Description = "first\nse\x1bcond" },
			"spec.virtualMachine.description", "character 3 of line 2 is U+001B (escape), which XML cannot carry",
		},
		"a description that would be read as another one": {
			func(m *infrav1.OLVMMachineSpec) { m.VirtualMachine.Description = "a\u200db" },
			"spec.virtualMachine.description", "character 2 of line 1 is U+200D, which cannot be printed",
		},
		"a tag": {
			func(m *infrav1.OLVMMachineSpec) { m.VirtualMachine.Tags = []string{"good", "\x00"} },
			"spec.virtualMachine.tags[1]", "character 1 of line 1 is U+0000 (NUL)",
		},
		"a disk": {
			func(m *infrav1.OLVMMachineSpec) {
				m.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "a\x0cb", Size: "1GB"}}
			},
			"spec.virtualMachine.dataDisks[0].name", "is U+000C (form feed)",
		},
		"a custom property": {
			func(m *infrav1.OLVMMachineSpec) {
				m.VirtualMachine.CustomProperties = []infrav1.CustomProperty{{Name: "hook", Value: "a\ufffe"}}
			},
			"spec.virtualMachine.customProperties[0].value", "is U+FFFE",
		},
		"a name of the engine": {
			func(m *infrav1.OLVMMachineSpec) { m.OLVMOvirtClusterName = "Def\x7fault" },
			"", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			built, err := s.build(t, func(in *Input) { test.change(&in.Spec) })
			check.Equal(t, "it is built", built != nil, false)

			if test.field != "" {
				checkBlocked(t, err, infrav1.InvalidHardwareReason, test.field, test.wants)
			}
		})
	}
}

// TestAFieldOfAClusterThatXMLCannotCarryIsNamed has fields of a cluster that the manager sends with each machine.
func TestAFieldOfAClusterThatXMLCannotCarryIsNamed(t *testing.T) {
	s := newSite(t, "")

	for field, change := range map[string]func(*infrav1.OLVMClusterSpec){
		"affinityGroups[0].name": func(c *infrav1.OLVMClusterSpec) {
			c.AffinityGroups = []infrav1.AffinityGroup{{Name: "a\x1bb"}}
		},
		"failureDomains[0].name": func(c *infrav1.OLVMClusterSpec) {
			c.FailureDomains = []infrav1.OLVMFailureDomain{{Name: "a\x1bb"}}
		},
		"olvmDatacenterName": func(c *infrav1.OLVMClusterSpec) { c.OLVMDatacenterName = "a\x1bb" },
		"standby[0].name":    func(c *infrav1.OLVMClusterSpec) { c.Standby = []infrav1.Standby{{Name: "a\x1bb"}} },
	} {
		t.Run(field, func(t *testing.T) {
			built, err := s.build(t, func(in *Input) { change(&in.Cluster) })
			check.Equal(t, "it is built", built != nil, false)
			checkBlocked(t, err, infrav1.InvalidHardwareReason, "OLVMCluster spec."+field,
				"character 2 of line 1 is U+001B (escape), which XML cannot carry")
		})
	}
}

// TestUserDataThatXMLCannotCarryIsRefused has characters that the user data contain unescaped.
func TestUserDataThatXMLCannotCarryIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ data, problem string }{
		"a byte that is not UTF-8": {"{\"ignition\":{\"version\":\"3.3.0\"},\"x\":\"a\xffb\"}", "is not UTF-8 (byte 0xFF)"},
		"U+FFFE":                   {"{\"ignition\":{\"version\":\"3.3.0\"},\"x\":\"a\ufffeb\"}", "is U+FFFE, which XML cannot carry"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mergeUserData(
				inputOf(test.data, bootstrap.Ignition), templateOf(IgnitionOS), render.Machine{Name: "demo-1"},
			)
			checkBlocked(t, err, infrav1.BootstrapDataInvalidReason, "Secret boot", test.problem)
		})
	}
}
