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
	for name, test := range tests {
		spec := infrav1.OLVMMachineSpec{VirtualMachine: test.vm}
		capacity, err := Capacity(spec)
		check.Error(t, err, "")
		check.Equal(t, name+": len(capacity)", len(capacity), 2)
		check.Equal(t, name+": capacity.Cpu().String()", capacity.Cpu().String(), test.cpu)
		check.Equal(t, name+": capacity.Memory().String()", capacity.Memory().String(), test.memory)

		if info := NodeInfo(spec); info != test.info {
			t.Errorf("%s: got %+v", name, info)
		}
	}

	capacity, err := Capacity(infrav1.OLVMMachineSpec{VirtualMachine: infrav1.VirtualMachine{Memory: "a lot"}})
	if err == nil || capacity != nil {
		t.Errorf("memory that cannot be read: got %v, %v", capacity, err)
	}
}
