package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// GetTopology returns the topology of a VM's virtual processor, with the defaults filled in.
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

// ComputeCapacity returns a VM's contribution to its node: every processor thread, and the memory before the guest's
// kernel takes its part. It does not ask the engine, so it works before there is a machine. Sizes known only to the
// engine must be resolved first. The error names the field.
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
			"only the host knows the size of the CPU; to scale from zero, annotate the MachineDeployment with "+
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

// BuildNodeInfo describes a node on a VM of this spec.
func BuildNodeInfo(spec infrav1.OLVMMachineSpec) infrav1.NodeInfo {
	info := infrav1.NodeInfo{Architecture: infrav1.ArchitectureAmd64, OperatingSystem: "linux"}
	switch spec.VirtualMachine.CPU.Architecture {
	case "aarch64", "arm64":
		info.Architecture = infrav1.ArchitectureArm64
	case "ppc64": // the engine's name; its guests are little endian
		info.Architecture = infrav1.ArchitecturePpc64le
	case "s390x":
		info.Architecture = infrav1.ArchitectureS390x
	}

	return info
}
