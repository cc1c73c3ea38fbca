package desired

import (
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestCapacityIsWhatTheVMGets(t *testing.T) {
	tests := map[string]struct {
		vm          infrav1.VirtualMachine
		cpu, memory string
		info        infrav1.NodeInfo
	}{
		"the defaults": {infrav1.VirtualMachine{
			Memory: "16GB",
		}, "4", "16Gi", infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}},
		"every thread of every core of every socket": {
			infrav1.VirtualMachine{
				Memory: "7680MB",
				CPU: infrav1.CPU{
					Architecture: "x86_64",
					Topology:     infrav1.CPUTopology{Cores: 3, Sockets: 4, Threads: 2},
				},
			},
			"24", "7680Mi", infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
		"the engine's name of an architecture": {
			infrav1.VirtualMachine{
				Memory: "1TB",
				CPU:    infrav1.CPU{Architecture: "ppc64", Topology: infrav1.CPUTopology{Cores: 1, Sockets: 1}},
			},
			"1", "1Ti", infrav1.NodeInfo{Architecture: "ppc64le", OperatingSystem: "linux"},
		},
		"arm": {infrav1.VirtualMachine{
			Memory: "8GB",
			CPU:    infrav1.CPU{Architecture: "aarch64"},
		}, "4", "8Gi", infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}},
	}
	for architecture, want := range map[string]infrav1.Architecture{
		"": "amd64", "amd64": "amd64", "arm64": "arm64", "s390x": "s390x",
	} {
		spec := infrav1.OLVMMachineSpec{VirtualMachine: infrav1.VirtualMachine{
			CPU: infrav1.CPU{Architecture: architecture},
		}}
		check.Equal(t, "architecture "+architecture, BuildNodeInfo(spec).Architecture, want)
	}

	for name, test := range tests {
		spec := infrav1.OLVMMachineSpec{VirtualMachine: test.vm}
		capacity, err := ComputeCapacity(spec)
		check.Error(t, err, "")
		check.Equal(t, name+": len(capacity)", len(capacity), 2)
		check.Equal(t, name+": capacity.Cpu().String()", capacity.Cpu().String(), test.cpu)
		check.Equal(t, name+": capacity.Memory().String()", capacity.Memory().String(), test.memory)

		if info := BuildNodeInfo(spec); info != test.info {
			t.Errorf("%s: got %+v", name, info)
		}
	}
}

// TestACapacityThatOnlyTheEngineKnows has specs that do not give the size of the VM.
func TestACapacityThatOnlyTheEngineKnows(t *testing.T) {
	tests := map[string]struct {
		vm                     infrav1.VirtualMachine
		reason, field, message string
	}{
		"an instance type": {
			infrav1.VirtualMachine{Memory: "8GB", InstanceType: "Small"}, infrav1.InvalidHardwareReason,
			"spec.virtualMachine.instanceType", `only the engine knows the size of instance type "Small"`,
		},
		"the CPU of a host": {
			infrav1.VirtualMachine{Memory: "8GB", CPU: infrav1.CPU{AutoPinningPolicy: "resize_and_pin"}},
			infrav1.InvalidHardwareReason, "spec.virtualMachine.cpu.autoPinningPolicy",
			"the size of the CPU depends on the host",
		},
		"memory that is no size": {
			infrav1.VirtualMachine{Memory: "a lot"}, infrav1.InvalidMemoryReason, "spec.virtualMachine.memory",
			`"a lot" is not a size`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			capacity, err := ComputeCapacity(infrav1.OLVMMachineSpec{VirtualMachine: test.vm})
			check.Equal(t, "capacity", capacity, nil)
			checkBlocked(t, err, test.reason, test.field, test.message)
		})
	}
}
