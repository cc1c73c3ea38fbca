package docs_test

import (
	"os"
	"strings"
	"testing"
)

// onExistingNodes lists the tests for each row of the table in user/nodes.md, by the row's first cell.
var onExistingNodes = map[string][]string{
	"OLVMMachineTemplate": {"TestTemplatesAreImmutableButForDryRunsOfTheTopologyController",
		"TestClustersAtOnce"},
	"`controlPlaneEndpoint` of the OLVMCluster":      {"TestTheAPIServerRefusesWhatMustNotChange"},
	"`controlPlaneServices`, except `dns`":           {"TestOtherServicesOfAClusterLeaveItsNodesAlone"},
	"`controlPlaneServices.dns`":                     {"TestNamesOfAClusterLeaveItsNodesAlone"},
	"`userData` of the OLVMCluster, or of a machine": {"TestOtherUserDataLeavesNodesAlone"},
	"`ipProfiles` of the OLVMCluster":                {"TestOtherRangesLeaveTheAddressesOfNodesAlone"},
	"memory of an OLVMMachine":                       {"TestAChangeOfAVMIsSentOrNeedsReplacement"},
	"hosts of a failure domain":                      {"TestADomainThatGetsHostsGivesThemToItsMachinesInPlace"},
	"nodes join or leave the control plane":          {"TestLoadBalancersFollowTheControlPlane", "TestEachNodeKnowsTheNamesOfItsCluster"},
	"the holder of the endpoint dies":                {"TestTheEndpointMovesWhenItsHolderDies"},
	"a VM migrates":                                  {"TestNodesSayWhereTheirMachinesAre"},
	"OLVMSupportServices": {"TestALoadBalancerFollowsTheControlPlane",
		"TestOtherSupportServicesLeaveNodesAlone"},
	"certificates of kubeadm have three weeks left":     {"TestControlPlanesAreRolledOutBeforeTheirCertificatesExpire"},
	"any node joins or leaves, with `ingressVirtualIP`": {"TestAnIngressAddressHasOneHolderWhileWorkersJoin"},
	"keepalived or haproxy of a node crashes": {"TestAnEndpointHasOneHolderAfterKeepalivedWasKilled",
		"TestAnEndpointAnswersAfterHAProxyWasKilled"},
	"serving certificate of a kubelet": {"TestServingCertificatesOfMachinesAreApprovedAndOthersAreLeftAlone"},
}

// TestEachRowOfWhatChangesOnNodesHasATest compares the table with the tests proving it.
func TestEachRowOfWhatChangesOnNodesHasATest(t *testing.T) {
	page, err := os.ReadFile("user/nodes.md")
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(page), "\n## What changes on existing nodes\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	tests, rows := testFunctions(t), 0

	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| what you change") {
			continue
		}

		rows++

		row := strings.TrimSpace(cells[1])
		if len(onExistingNodes[row]) == 0 {
			t.Errorf("no test proves the row %q", row)
		}

		for _, name := range onExistingNodes[row] {
			if !tests[name] {
				t.Errorf("the row %q names the test %s, which does not exist", row, name)
			}
		}
	}

	if rows != len(onExistingNodes) {
		t.Errorf("the table has %d rows, and tests prove %d", rows, len(onExistingNodes))
	}
}
