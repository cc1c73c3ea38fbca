package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// GetTopology returns the topology of a VM's virtual processor. It replaces unset fields with the defaults.
func GetTopology(vm infrav1.VirtualMachine) (cores, sockets, threads int64) {
	t := vm.CPU.Topology

	return cmp.Or(
			int64(t.Cores),
			DefaultCores,
		), cmp.Or(
			int64(t.Sockets),
			DefaultSockets,
		), cmp.Or(
			int64(t.Threads),
			DefaultThreads,
		)
}

// ComputeCapacity returns what a VM contributes to its node: every processor thread, and the memory including the part
// the guest's kernel takes. It sends no request to the engine, so it works before the machine exists. If the size
// depends on the engine, it fails, and the error names the field.
func ComputeCapacity(spec infrav1.OLVMMachineSpec) (corev1.ResourceList, error) {
	if name := spec.VirtualMachine.InstanceType; name != "" {
		return nil, newInvalidError(
			"spec.virtualMachine.instanceType",
			"only the engine knows the size of instance type %q; to scale from zero, annotate the MachineDeployment "+
				"with capacity.cluster-autoscaler.kubernetes.io/cpu and memory",
			name,
		)
	}

	if isAutoPinned(spec.VirtualMachine) {
		return nil, newInvalidError(
			"spec.virtualMachine.cpu.autoPinningPolicy",
			"the size of the CPU depends on the host; to scale from zero, annotate the MachineDeployment with "+
				"capacity.cluster-autoscaler.kubernetes.io/cpu and memory",
		)
	}

	memory, err := ParseMemory(spec.VirtualMachine.Memory)
	if err != nil {
		return nil, &blocker.Error{
			Reason:  infrav1.InvalidMemoryReason,
			Field:   "spec.virtualMachine.memory",
			Message: err.Error(),
		}
	}

	cores, sockets, threads := GetTopology(spec.VirtualMachine)

	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cores*sockets*threads, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}, nil
}

// BuildNodeInfo describes the node on a VM with this spec.
func BuildNodeInfo(spec infrav1.OLVMMachineSpec) infrav1.NodeInfo {
	info := infrav1.NodeInfo{Architecture: infrav1.ArchitectureAmd64, OperatingSystem: "linux"}
	switch spec.VirtualMachine.CPU.Architecture {
	case "aarch64", "arm64":
		info.Architecture = infrav1.ArchitectureArm64
	case "ppc64": // the engine's name for it; its guests are little endian
		info.Architecture = infrav1.ArchitecturePpc64le
	case "s390x":
		info.Architecture = infrav1.ArchitectureS390x
	}

	return info
}
