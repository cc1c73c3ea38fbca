package machine

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// expectNamed reconciles the machine m. It checks that a condition names the mistake and nothing else happened.
func (b *bench) expectNamed(kind, reason string, names ...string) {
	b.t.Helper()
	b.pass()
	m := b.stored()
	check.Equal(b.t, kind, condition(m, kind), "False/"+reason)

	for _, name := range names {
		check.Contains(b.t, "the message", message(m, kind), name)
	}

	check.Equal(b.t, "a run", b.ran(), false)
	check.Length(b.t, "changes of the engine", b.changes(), 0)
}

// expectHealed corrects the machine m, and checks that the next pass queues a run.
func (b *bench) expectHealed(correct func(*infrav1.OLVMMachineSpec)) {
	b.t.Helper()
	change(b, &infrav1.OLVMMachine{ObjectMeta: named("m")}, func(m *infrav1.OLVMMachine) { correct(&m.Spec) })
	b.pass()
	check.Equal(b.t, "what becomes of it", condition(b.stored(), infrav1.InfrastructureAppliedCondition),
		"False/"+infrav1.ApplyingReason)
	b.eventually("a run", b.ran)
}

// TestHardwareThatCannotBeIsNamed covers the report of impossible hardware. The tests of internal/desired cover each
// field.
func TestHardwareThatCannotBeIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		ask    func(s *infrav1.OLVMMachineSpec, vm *infrav1.VirtualMachine)
		reason string
		names  []string
	}{
		"an instance type and a topology": {func(_ *infrav1.OLVMMachineSpec, vm *infrav1.VirtualMachine) {
			vm.Memory, vm.InstanceType, vm.CPU.Topology.Cores = "", "Large", 2
		}, infrav1.InvalidHardwareReason, []string{"spec.virtualMachine.cpu.topology: ", `"Large"`, "remove one"}},
		"a TPM that the operating system cannot have": {func(_ *infrav1.OLVMMachineSpec, vm *infrav1.VirtualMachine) {
			vm.Firmware.TPM, vm.OSType = ptr.To(true), "other_linux"
		}, infrav1.InvalidHardwareReason, []string{"firmware.tpm", `"other_linux"`, "rhel_9x64"}},
		"a host that does not exist": {func(_ *infrav1.OLVMMachineSpec, vm *infrav1.VirtualMachine) {
			vm.Placement.HostNames = []string{"host-3", "host-9"}
		}, infrav1.HostNotFoundReason, []string{"has no host host-9; it has host-1, host-2, host-3"}},
		"an unknown version of the template": {func(s *infrav1.OLVMMachineSpec, _ *infrav1.VirtualMachine) {
			s.VMTemplateVersion = 3
		}, infrav1.VMTemplateNotFoundReason, []string{"vmTemplate", `"3"`, "it has 1"}},
		"an unknown tag": {func(_ *infrav1.OLVMMachineSpec, vm *infrav1.VirtualMachine) {
			vm.Tags = []string{"red"}
		}, infrav1.TagNotFoundReason, []string{"tags[0]", `"red"`, "blue, prod"}},
		"a network with several profiles": {func(s *infrav1.OLVMMachineSpec, _ *infrav1.VirtualMachine) {
			s.OLVMNetwork = infrav1.OLVMNetwork{NetworkName: "two-profiles"}
		}, infrav1.VNICProfileNotFoundReason, []string{
			"spec.olvmNetwork.vnicProfileName", `"two-profiles"`, "name one of gold, silver",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inventory := ovirtsim.DefaultInventory()
			inventory.Tags = []string{"prod", "blue"}
			inventory.DataCenters[0].Networks = append(inventory.DataCenters[0].Networks,
				ovirtsim.Network{Name: "two-profiles", VNICProfiles: []string{"gold", "silver"}})
			b := withOptions(t, ovirtsim.Options{Inventory: inventory}, func(o *objects) {
				tt.ask(&o.olvmMachine.Spec, &o.olvmMachine.Spec.VirtualMachine)
			})
			b.expectNamed(infrav1.InfrastructureAppliedCondition, tt.reason, tt.names...)
		})
	}
}

func TestANameThatIsTooLongForAVMIsNamed(t *testing.T) {
	for length, reason := range map[int]string{
		engine.MaxVMName: infrav1.ApplyingReason, engine.MaxVMName + 1: infrav1.InvalidHardwareReason,
	} {
		b := withEngine(t, func(o *objects) {
			o.machine.Name = strings.Repeat("a", length)
			o.olvmMachine.OwnerReferences[0].Name = o.machine.Name
		})
		b.pass()
		check.Equal(t, "applied", condition(b.stored(), infrav1.InfrastructureAppliedCondition), "False/"+reason)

		if length > engine.MaxVMName {
			check.Contains(t, "the message", message(b.stored(), infrav1.InfrastructureAppliedCondition),
				"metadata.name: the VM has the machine's name with 65 characters, but the engine allows 64")
			check.Equal(t, "a run", b.ran(), false)
		}
	}
}

// TestMachinesWithBadInputHealWhenTheyAreCorrected covers the fields with the most frequent mistakes.
func TestMachinesWithBadInputHealWhenTheyAreCorrected(t *testing.T) {
	ranges := func(list ...string) func(*infrav1.OLVMMachineSpec) {
		return func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Network.IPv4.IPAddresses = list }
	}

	for name, tt := range map[string]struct {
		spoil, correct    func(*infrav1.OLVMMachineSpec)
		condition, reason string
		names             []string
	}{
		"an unknown template": {
			func(s *infrav1.OLVMMachineSpec) { s.VMTemplateName = "ol9-k9s" },
			func(s *infrav1.OLVMMachineSpec) { s.VMTemplateName = "ol9-k8s" },
			infrav1.InfrastructureAppliedCondition, infrav1.VMTemplateNotFoundReason,
			[]string{"spec.vmTemplateName", `"ol9-k9s"`, "ol9-k8s", "correct the name"},
		},
		"an unknown cluster": {
			func(s *infrav1.OLVMMachineSpec) { s.OLVMOvirtClusterName = "prod" },
			func(s *infrav1.OLVMMachineSpec) { s.OLVMOvirtClusterName = "Default" },
			infrav1.InfrastructureAppliedCondition, infrav1.OvirtClusterNotFoundReason,
			[]string{"spec.olvmOvirtClusterName", `"prod"`, "it has Default"},
		},
		"an unknown network": {
			func(s *infrav1.OLVMMachineSpec) { s.OLVMNetwork.NetworkName = "vlan" },
			func(s *infrav1.OLVMMachineSpec) { s.OLVMNetwork.NetworkName = "kvm-vlan" },
			infrav1.InfrastructureAppliedCondition, infrav1.NetworkNotFoundReason,
			[]string{"spec.olvmNetwork.networkName", `"vlan"`, "kvm-vlan"},
		},
		"an unknown vNIC profile": {
			func(s *infrav1.OLVMMachineSpec) { s.OLVMNetwork.VNICProfileName = "ovirtmgmt" },
			func(s *infrav1.OLVMMachineSpec) { s.OLVMNetwork.VNICProfileName = "kvm-vlan" },
			infrav1.InfrastructureAppliedCondition, infrav1.VNICProfileNotFoundReason,
			[]string{"spec.olvmNetwork.vnicProfileName", `"ovirtmgmt"`, "it has kvm-vlan"},
		},
		"a malformed size": {
			func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Memory = "7 GBB" },
			func(s *infrav1.OLVMMachineSpec) { s.VirtualMachine.Memory = "7 GB" },
			infrav1.InfrastructureAppliedCondition, infrav1.InvalidMemoryReason,
			[]string{"spec.virtualMachine.memory", `"7 GBB"`, "such as 16GB"},
		},
		"the endpoint inside the pool": {
			ranges("10.0.0.1-10.0.0.9"), ranges("10.0.0.6-10.0.0.9"),
			infrav1.AddressesAllocatedCondition, infrav1.EndpointInAddressRangeReason,
			[]string{"ipv4.ipAddresses", "10.0.0.5", "remove it from the ranges"},
		},
		"a range outside the subnet": {
			ranges("10.0.1.9"), ranges("10.0.0.9"),
			infrav1.AddressesAllocatedCondition, infrav1.AddressRangeInvalidReason,
			[]string{"ipAddresses[0]", "10.0.1.9", "10.0.0.0/24"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) { tt.spoil(&o.olvmMachine.Spec) })
			b.expectNamed(tt.condition, tt.reason, tt.names...)
			b.expectHealed(tt.correct)
		})
	}
}

// TestAnAddressPoolThatIsExhausted gives the only address of the range to another machine.
func TestAnAddressPoolThatIsExhausted(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		first := newMachine(otherVMID)
		first.Name, first.UID = "first", "44444444-4444-4444-8444-444444444444"
		first.Annotations = map[string]string{infrav1.AddressesAnnotation: `{"nic1":["10.0.0.10"]}`}
		o.more = append(o.more, first)
		o.olvmMachine.Spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10"}
	})
	b.expectNamed(infrav1.AddressesAllocatedCondition, infrav1.AddressRangeExhaustedReason,
		"add addresses, delete machines")
	b.expectHealed(func(s *infrav1.OLVMMachineSpec) {
		s.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10", "10.0.0.11"}
	})
	check.Equal(t, "its address", b.stored().Annotations[infrav1.AddressesAnnotation], `{"nic1":["10.0.0.11"]}`)
}

// TestNetworksThatCannotBeAreNamed covers the report of an impossible network configuration. The tests of
// internal/addressing cover each field.
func TestNetworksThatCannotBeAreNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		ask    func(n *infrav1.GuestNetwork)
		reason string
		names  []string
	}{
		"an unknown profile": {func(n *infrav1.GuestNetwork) {
			*n = infrav1.GuestNetwork{IPProfileName: "lap"}
		}, infrav1.IPProfileNotFoundReason, []string{"network.ipProfileName", `"lap"`, `["bad"]`}},
		"a profile with a mistake": {func(n *infrav1.GuestNetwork) {
			*n = infrav1.GuestNetwork{IPProfileName: "bad"}
		}, infrav1.AddressRangeInvalidReason, []string{
			"OLVMCluster spec.ipProfiles[0].ipv4.ipAddresses[1]", `"10.0.1.5"`,
		}},
		"the ingress address in the ranges": {func(n *infrav1.GuestNetwork) {
			n.IPv4.IPAddresses = []string{"10.0.0.6-10.0.0.9"}
		}, infrav1.EndpointInAddressRangeReason, []string{"the ingress address 10.0.0.6 is inside"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.olvmCluster.Spec.IPProfiles = []infrav1.IPProfile{{Name: "bad", Addressing: infrav1.Addressing{
					IPv4: &infrav1.IPv4Network{Subnet: "10.0.0.0/24", IPAddresses: []string{"10.0.0.10", "10.0.1.5"}},
				}}}
				o.olvmCluster.Spec.ControlPlaneServices = &infrav1.ControlPlaneServices{
					VirtualIPProvider: "Keepalived", IngressVirtualIP: "10.0.0.6",
				}
				tt.ask(&o.olvmMachine.Spec.VirtualMachine.Network)
			})
			b.expectNamed(infrav1.AddressesAllocatedCondition, tt.reason, tt.names...)
		})
	}
}

// ignition23 is bootstrap data for Ignition.
const ignition23 = `{"ignition":{"version":"2.3.0"}}`

// TestBootstrapDataThatDoesNotFit covers contradictory data, and data that the image cannot read.
func TestBootstrapDataThatDoesNotFit(t *testing.T) {
	large := "#cloud-config\nwrite_files: [{path: /a, content: " + strings.Repeat("x", 512<<10) + "}]\n"
	leased := &infrav1.UserData{BootstrapDelivery: "Pointer"}

	for name, tt := range map[string]struct {
		template, format, data string
		userData               *infrav1.UserData
		names                  []string
	}{
		"a cloud-config for an image with Ignition": {
			"ock-1.36", "cloud-config", "#cloud-config\n", nil,
			[]string{"spec.virtualMachine.osType", `with "rhcos_x64"`,
				"bootstrap Secret m-bootstrap is a cloud-config",
				"Set the format of the KubeadmConfig to ignition"},
		},
		"Ignition for an image with cloud-init": {
			"ol9-k8s", "ignition", ignition23, nil,
			[]string{"spec.virtualMachine.osType", `with "ol_9x64"`, "bootstrap Secret m-bootstrap is for Ignition",
				"set it to rhcos_x64"},
		},
		"what is no configuration": {
			"ock-1.36", "ignition", "{}", nil, []string{"bootstrap Secret m-bootstrap",
				"it is not an Ignition configuration"},
		},
		"what is added contradicts it": {
			"ol9-k8s", "", "#cloud-config\nwrite_files: [{path: /a, content: b}]\n",
			&infrav1.UserData{Extra: []infrav1.ExtraUserData{{Inline: "write_files: [{path: /a, content: c}]\n"}}},
			[]string{"the file /a is set differently by the bootstrap data and by userData.extra[0].inline"},
		},
		"it is too large for a VM": {
			"ol9-k8s", "", large, nil,
			[]string{"bootstrap Secret m-bootstrap", "but a VM can get at most 524288"},
		},
		"cloud-init cannot fetch it": {
			"ol9-k8s", "", "#cloud-config\n{}\n", leased,
			[]string{"userData.bootstrapDelivery: Pointer works only for images with Ignition"},
		},
		"the manager does not hand it out": {
			"ock-1.36", "ignition", ignition23, leased,
			[]string{"userData.bootstrapDelivery: Pointer needs the manager's flag --bootstrap-url"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.olvmMachine.Spec.VMTemplateName, o.olvmMachine.Spec.UserData = tt.template, tt.userData
				o.bootstrap.Data = map[string][]byte{"format": []byte(tt.format), "value": []byte(tt.data)}
			})
			b.expectNamed(infrav1.BootstrapDataAvailableCondition, infrav1.BootstrapDataInvalidReason, tt.names...)
		})
	}
}

// TestExtraUserDataIsWaitedFor creates the referenced objects one after the other.
func TestExtraUserDataIsWaitedFor(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		reference := &infrav1.KeyReference{Name: "extra", Key: "user-data"}
		o.olvmCluster.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{ConfigMapKeyRef: reference}}}
		o.olvmMachine.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{SecretKeyRef: reference}}}
	})
	waits := func(text string) {
		t.Helper()
		b.expectNamed(infrav1.BootstrapDataAvailableCondition, infrav1.WaitingForBootstrapDataReason, text)
	}
	waits("ConfigMap extra (userData.extra) does not exist; create it, or correct the name")

	check.Error(t, b.api.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: named("extra"), Data: map[string]string{"user-data": "ntp: {enabled: true}\n"},
	}), "")
	waits("Secret extra (userData.extra) does not exist")

	secret := &corev1.Secret{ObjectMeta: named("extra"), Data: map[string][]byte{"other": []byte("a: 1\n")}}
	check.Error(t, b.api.Create(t.Context(), secret), "")
	waits(`Secret extra (userData.extra) has no key "user-data"`)

	change(b, secret, func(s *corev1.Secret) { s.Data["user-data"] = []byte("timezone: CET\n") })
	b.expectHealed(func(*infrav1.OLVMMachineSpec) {})
	check.Equal(t, "bootstrap data", condition(b.stored(), infrav1.BootstrapDataAvailableCondition),
		"True/"+infrav1.BootstrapDataAvailableReason)
}

// TestWhatAVMIsToldIsAllOfIt verifies that a run gets the user data of all sources.
func TestWhatAVMIsToldIsAllOfIt(t *testing.T) {
	b := withEngine(t, func(o *objects) {
		o.olvmCluster.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{Inline: "timezone: CET\n"}}}
		o.olvmMachine.Spec.UserData = &infrav1.UserData{
			Extra: []infrav1.ExtraUserData{{Inline: "ntp: {enabled: true}\n"}},
		}
	})
	userData := b.configured().desired.built.Machine.UserData
	check.Contains(t, "user data", userData, "timezone: CET")
	check.Contains(t, "user data", userData, "enabled: true")
}

// TestTheKubeletIsToldItsAddresses verifies that a node registers an address of each IP family of its pods.
func TestTheKubeletIsToldItsAddresses(t *testing.T) {
	const join = "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm-join-config.yaml\n  content: |\n" +
		"    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: JoinConfiguration\n"

	for name, tt := range map[string]struct {
		pods []string
		want string
	}{
		"IPv4":       {[]string{"10.244.0.0/16"}, "value: 10.0.0.10\n"},
		"dual stack": {[]string{"fd01::/48", "10.244.0.0/16"}, "value: fd00::10,10.0.0.10\n"},
		"IPv6":       {[]string{"fd01::/48"}, "value: fd00::10\n"},
		"not said":   {nil, "value: 10.0.0.10\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.cluster.Spec.ClusterNetwork.Pods = clusterv1.NetworkRanges{CIDRBlocks: tt.pods}
				o.bootstrap.Data["value"] = []byte(join)
				o.olvmMachine.Spec.VirtualMachine.Network.IPv6 = &infrav1.IPv6Network{
					IPAddresses: []string{"fd00::10-fd00::19"},
				}
			})
			userData := b.configured().desired.built.Machine.UserData
			check.Contains(t, "user data", userData, "name: node-ip\n")
			check.Contains(t, "user data", userData, tt.want)
		})
	}
}

// written returns a file of the user data for cloud-init, or "" if there is none.
func written(t *testing.T, userData, path string) string {
	t.Helper()
	var config struct {
		WriteFiles []struct{ Path, Content string } `json:"write_files"`
	}
	check.Error(t, yaml.Unmarshal([]byte(userData), &config), "")

	for _, file := range config.WriteFiles {
		if file.Path == path {
			return file.Content
		}
	}

	return ""
}

// TestTheEndpointWithKubeVIP covers the static Pod of kube-vip. The first node needs another kubeconfig, because nobody
// has rights in the cluster yet.
func TestTheEndpointWithKubeVIP(t *testing.T) {
	for name, tt := range map[string]struct{ kind, path, kubeconfig string }{
		"the first node": {"InitConfiguration", "/run/kubeadm/kubeadm.yaml", "/etc/kubernetes/super-admin.conf"},
		"another one": {
			"JoinConfiguration\n    controlPlane: {}", "/run/kubeadm/kubeadm-join-config.yaml",
			"/etc/kubernetes/admin.conf",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withEngine(t, func(o *objects) {
				o.olvmCluster.Spec.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: "KubeVIP"}
				o.machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
				o.bootstrap.Data["value"] = []byte("#cloud-config\nwrite_files:\n- path: " + tt.path +
					"\n  content: |\n    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: " + tt.kind + "\n")
			})
			userData := b.configured().desired.built.Machine.UserData
			var pod corev1.Pod
			manifest := written(t, userData, "/etc/kubernetes/manifests/kube-vip.yaml")
			check.Error(t, yaml.UnmarshalStrict([]byte(manifest), &pod), "")
			check.Equal(t, "kubeconfig", pod.Spec.Volumes[0].HostPath.Path, tt.kubeconfig)
			check.Equal(t, "it has the endpoint", slices.Contains(pod.Spec.Containers[0].Env,
				corev1.EnvVar{Name: "address", Value: "10.0.0.5"}), true)
			check.Equal(t, "keepalived", written(t, userData, "/etc/capolvm/keepalived.conf"), "")
		})
	}
}
