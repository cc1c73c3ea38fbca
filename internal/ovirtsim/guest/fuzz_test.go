package guest

import (
	"context"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

// FuzzUserData verifies that for any user data, the guest either comes up or fails with an error.
func FuzzUserData(f *testing.F) {
	for _, seed := range []string{
		"",
		"#cloud-config\nwrite_files:\n- {path: /k, content: 'kind: JoinConfiguration', permissions: '0600', append: " +
			"true}\nruncmd:\n- kubeadm join --config /k\n- [bash, -c, /k]\n",
		"write_files:\n- {path: /k, encoding: gz+b64, content: " +
			"H4sIAAAAAAAA/8tIzcnJBwCGphA2BQAAAA==}\nruncmd: [bash /k]",
		"write_files:\n- path: /etc/NetworkManager/system-connections/a.nmconnection\n  permissions: '0600'\n  " +
			"content: |\n    [connection]\n    interface-name=enp1s0\n    [ipv4]\n    method=manual\n    " +
			"address1=10.0.0.7/24,10.0.0.1\n",
		"write_files:\n- path: /k\n  content: |\n    ---\n    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: " +
			"ClusterConfiguration\n    controlPlaneEndpoint: 127.0.0.1:6443\n    kubernetesVersion: v1.36.1\n    " +
			"---\n    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: InitConfiguration\n    nodeRegistration: {name: " +
			"a, kubeletExtraArgs: [{name: node-labels, value: 'a=b'}]}\nruncmd: [kubeadm init --config /k]\n",
		`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/kubeadm.sh","mode":448,"contents":{"source":"data:,kubeadm%20init"}}]},"systemd":{"units":[{"name":"kubeadm.service","enabled":true,"contents":"[Service]\nExecStart=/etc/kubeadm.sh\n[Install]\nWantedBy=a.target"}]}}`,
		`{"ignition":{"version":"3.4.0","config":{"merge":[{"source":"data:,{}"}]}}}`,
		`{"ignition":{"version":"2.3.0","config":{"append":[{"source":"data:,{}"}]}},"storage":{"files":[{"filesystem":"root","path":"/k","append":true,"contents":{"source":"data:,a"}}]}}`,
	} {
		f.Add([]byte(seed))
	}

	unplugged, cancel := context.WithCancel(context.Background())
	cancel() // so the guest fetches nothing
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, specification := range []string{"", "2.4.0", "3.6.0"} {
			m := api.GuestVM{
				ID:              "id",
				HostName:        "vm",
				Ignition:        specification != "",
				IgnitionVersion: specification,
				UserData:        string(data),
				Interfaces:      devices(1, "10.0.0.50/24"),
			}
			sys, err := provisionSystem(unplugged, m)
			if sys == nil && err == nil {
				t.Fatal("neither a system nor an error")
			}

			if err != nil {
				continue
			}

			if profiles, warnings, err := profilesOf(m, sys); err == nil {
				if network, err := configureNetwork(m.Interfaces, profiles,
					warnings); err == nil && len(network.nodeAddresses) == 0 {
					t.Fatal("a network without an address")
				}
			}

			call, err := sys.runCommands(m.ID)
			if call == nil || err != nil {
				continue
			}

			if n, err := newNode(sys, call, sys.hostName(m),
				"v1.36.1"); err == nil && (n.name == "" || n.endpoint == "") {
				t.Fatalf("a node without a name or a cluster: %+v", n)
			}
		}
	})
}
