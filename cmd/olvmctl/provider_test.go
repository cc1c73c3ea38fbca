package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// defaultsOfEngine has all settings needed for a cluster on an engine, except the provider.
const defaultsOfEngine = `virtualIp: 10.20.30.5
workerNodes: 2
providers:
  olvm:
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: https://engine.example.com/ovirt-engine, serverCAPath: ca.crt}
    controlPlaneMachine:
      olvmOvirtClusterName: Default
      vmTemplateName: ock-1.33
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        network: {dnsServers: 10.20.30.53, ipv4: {subnet: 10.20.30.0/24, ipAddresses: 10.20.30.10-10.20.30.19}}
    workerMachine:
      olvmOvirtClusterName: Default
      vmTemplateName: ock-1.33
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        network: {dnsServers: 10.20.30.53, ipv4: {subnet: 10.20.30.0/24, ipAddresses: 10.20.30.100-10.20.30.149}}
`

// TestAProviderStandsForAClusterFile prints the manifests of a cluster that only defaults define. The CA is in the
// folder of the defaults, and not in the working directory.
func TestAProviderStandsForAClusterFile(t *testing.T) {
	b := newBench(t)
	defaults := filepath.Join(t.TempDir(), "defaults.yaml")
	check.Error(t, os.WriteFile(defaults, []byte(defaultsOfEngine), 0o600), "")
	check.Error(t, os.WriteFile(filepath.Join(filepath.Dir(defaults), "ca.crt"), b.sim.CA(), 0o600), "")

	code, out, problems := b.run("template", "--provider", "olvm", "--defaults", defaults)
	check.Equal(t, "exit code, after "+problems, code, 0)

	for _, part := range []string{"name: ocne", "host: 10.20.30.5", "replicas: 2", "BEGIN CERTIFICATE"} {
		check.Contains(t, "the template", out, part)
	}

	for name, c := range map[string]struct {
		arguments []string
		says      string
	}{
		"a provider of nobody's": {[]string{"--provider", "vsphere"}, `--provider "vsphere" is not supported; use oci or olvm`},
		"a file, too": {[]string{"cluster.yaml", "--provider", "olvm"},
			"--provider replaces a cluster file; omit --provider and set provider in cluster.yaml"},
		"no defaults": {[]string{"--provider", "oci", "--defaults", ""},
			"--provider oci: providers.oci.compartment: required"},
		"defaults that are not enough": {[]string{"--provider", "oci", "--defaults", defaults},
			defaults + ": providers.oci.compartment: required"},
	} {
		for _, command := range []string{"template", "start"} {
			code, _, problems := b.run(append([]string{command}, c.arguments...)...)
			check.Equal(t, command+" with "+name, code, 1)
			check.Contains(t, command+" with "+name, problems, c.says)
		}
	}
}
