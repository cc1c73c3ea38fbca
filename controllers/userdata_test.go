package controllers

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// stockIgnition is Ignition 2.3, as stock Cluster API writes it.
const stockIgnition = `{"ignition":{"version":"2.3.0"},"storage":{"files":[{"filesystem":"root","path":"/etc/motd","mode":420,"contents":{"source":"data:,hello"}}]},"systemd":{"units":[{"name":"kubeadm.service","enabled":true,"contents":"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}]}}`

// ofIgnition asks for a VM whose image has Ignition.
func ofIgnition(spec *infrav1.OLVMMachineSpec) { spec.VMTemplateName = "ock-1.36" }

func TestAnIgnitionGuestGetsItsNetworkFromItsUserData(t *testing.T) {
	s := newSite(t, nil)
	s.UserData, s.Format = stockIgnition, "ignition"
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.UserData = &infrav1.UserData{SSH: &infrav1.SSHAccess{AuthorizedKeys: []string{"ssh-ed25519 AAAA me"}}, Proxy: &infrav1.ProxySettings{HTTPSProxy: "http://proxy:3128"}}
	})
	m := s.Machine("m", func(spec *infrav1.OLVMMachineSpec) {
		ofIgnition(spec)
		spec.VirtualMachine.Network.DNSServers = []string{"10.0.0.53"}
		spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{Inline: "variant: fcos\nversion: 1.4.0\nstorage:\n  files:\n  - {path: /etc/extra, contents: {inline: extra}}\n"}}}
	})
	s.Expect(m, infrav1.ReadyCondition, "True/Ready") // the simulated guest is only up with an address
	init := s.inspect("m").vm.Initialization
	for _, want := range []string{`"version":"3.3.0"`, "/etc/NetworkManager/system-connections/enp1s0.nmconnection", "/etc/hostname", "/etc/motd", "/etc/extra", "ssh-ed25519 AAAA me", "10-capolvm-proxy.conf"} {
		if !strings.Contains(init.CustomScript, want) {
			t.Errorf("the user data has no %s:\n%s", want, init.CustomScript)
		}
	}
	if init.HostName != "" {
		t.Errorf("the engine would add its own /etc/hostname: %q", init.HostName)
	}
	if runs := m.Status.Terraform.Runs; runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestBootstrapDataThatDoesNotFit(t *testing.T) {
	s := newSite(t, nil)
	waiting := func(m *infrav1.OLVMMachine, want ...string) {
		t.Helper()
		message := s.Expect(m, infrav1.BootstrapDataAvailableCondition, "False/"+infrav1.BootstrapDataInvalidReason)
		for _, text := range want {
			if !strings.Contains(message, text) {
				t.Errorf("%s: %q does not say %q", m.Name, message, text)
			}
		}
	}
	waiting(s.Machine("cloud-init", ofIgnition), "spec.virtualMachine.osType", `it is "rhcos_x64"`, "bootstrap Secret cloud-init-bootstrap is a cloud-config", "set the format of the KubeadmConfig to ignition")
	s.UserData, s.Format = stockIgnition, "ignition"
	waiting(s.Machine("ignition", nil), "spec.virtualMachine.osType", `it is "ol_9x64"`, "bootstrap Secret ignition-bootstrap is for Ignition", "set it to rhcos_x64")
	s.UserData = "{}"
	waiting(s.Machine("none", ofIgnition), "bootstrap Secret none-bootstrap", "it is not an Ignition configuration")
	s.UserData, s.Format = "#cloud-config\nwrite_files: [{path: /a, content: b}]\n", ""
	waiting(s.Machine("conflict", func(spec *infrav1.OLVMMachineSpec) {
		spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{Inline: "write_files: [{path: /a, content: c}]\n"}}}
	}), "the file /a is set differently by the bootstrap data and by userData.extra[0].inline")
	if vms := s.Sim.Summary().VMs; vms != 0 {
		t.Errorf("%d VMs were made", vms)
	}
}

func TestExtraUserDataIsWaitedFor(t *testing.T) {
	s := newSite(t, nil)
	change(s, s.OLVM, func(c *infrav1.OLVMCluster) {
		c.Spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{ConfigMap: &infrav1.KeyReference{Name: "extra", Key: "user-data"}}}}
	})
	m := s.Machine("m", func(spec *infrav1.OLVMMachineSpec) {
		spec.UserData = &infrav1.UserData{Extra: []infrav1.ExtraUserData{{Secret: &infrav1.KeyReference{Name: "extra", Key: "user-data"}}}}
	})
	waits := func(want string) {
		t.Helper()
		s.Eventually(want, func() error {
			if message := s.Expect(m, infrav1.BootstrapDataAvailableCondition, "False/"+infrav1.WaitingForBootstrapDataReason); !strings.Contains(message, want) {
				return errors.New(message)
			}
			return nil
		})
	}
	waits("ConfigMap extra (userData.extra) does not exist; create it, or correct the name")
	s.Create(&corev1.ConfigMap{ObjectMeta: s.Meta("extra"), Data: map[string]string{"user-data": "ntp: {enabled: true}\n"}})
	waits("Secret extra (userData.extra) does not exist")
	secret := &corev1.Secret{ObjectMeta: s.Meta("extra"), Data: map[string][]byte{"other": []byte("a: 1\n")}}
	s.Create(secret)
	waits(`Secret extra (userData.extra) has no key "user-data"`)
	change(s, secret, func(secret *corev1.Secret) { secret.Data["user-data"] = []byte("timezone: CET\n") })
	s.Expect(m, infrav1.ReadyCondition, "True/Ready")
	if script := s.inspect("m").vm.Initialization.CustomScript; !strings.Contains(script, "timezone: CET") || !strings.Contains(script, "enabled: true") {
		t.Errorf("the user data:\n%s", script)
	}
}

// A node has the addresses of the families that its cluster's pods have.
func TestTheKubeletIsToldItsAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		pods []string
		want string
	}{
		"IPv4":       {[]string{"10.244.0.0/16"}, "value: 10.0.0.10\n"},
		"dual stack": {[]string{"fd01::/48", "10.244.0.0/16"}, "value: fd00::10,10.0.0.10\n"},
		"IPv6":       {[]string{"fd01::/48"}, "value: fd00::10\n"},
		"not said":   {nil, "value: 10.0.0.10\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			change(s, s.Cluster, func(c *clusterv1.Cluster) {
				c.Spec.ClusterNetwork = clusterv1.ClusterNetwork{Pods: clusterv1.NetworkRanges{CIDRBlocks: test.pods}}
			})
			s.UserData = "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm-join-config.yaml\n  content: |\n    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: JoinConfiguration\n"
			m := s.Machine("m", func(spec *infrav1.OLVMMachineSpec) {
				spec.VirtualMachine.Network.IPv6 = &infrav1.IPv6Network{IPAddresses: []string{"fd00::10-fd00::19"}}
			})
			s.Expect(m, infrav1.ReadyCondition, "True/Ready")
			if script := s.inspect("m").vm.Initialization.CustomScript; !strings.Contains(script, "name: node-ip\n") || !strings.Contains(script, test.want) {
				t.Errorf("the user data:\n%s", script)
			}
		})
	}
}
