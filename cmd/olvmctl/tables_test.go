package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// formatOf returns the flag -o with the given value.
func formatOf(format string) outputFlag {
	return outputFlag{format: format, formats: []string{formatTable, formatWide, formatName, formatJSON, formatYAML}}
}

func TestTablesOfPoolsAreThoseOfKubectl(t *testing.T) {
	pools := []inventory.Overview{{
		Namespace: "prod", Name: "lab", Total: 3, Available: 2, Claimed: 1, Problem: "NotReady: one\nVM is gone",
		VMs: []inventory.OverviewVM{{Name: "lab-1", Phase: "Claimed", Machine: "m-1", VMStatus: "up"}},
	}}

	for name, test := range map[string]struct {
		format, pool string
		all          bool
		want         string
	}{
		"a list": {format: formatTable, want: "NAME   TOTAL   AVAILABLE   CLAIMED   RECYCLING   INELIGIBLE   PROBLEM\n" +
			"lab    3       2           1         0           0            NotReady: one VM is gone\n"},
		"of all namespaces": {format: formatTable, all: true,
			want: "NAMESPACE   NAME   TOTAL   AVAILABLE   CLAIMED   RECYCLING   INELIGIBLE   PROBLEM\n" +
				"prod        lab    3       2           1         0           0            NotReady: one VM is gone\n"},
		"one": {format: formatTable, pool: "lab",
			want: "NAME   TOTAL   AVAILABLE   CLAIMED   RECYCLING   INELIGIBLE   PROBLEM\n" +
				"lab    3       2           1         0           0            NotReady: one VM is gone\n\n" +
				"VM      PHASE     CLUSTER   MACHINE   VMSTATUS   HOST   ADDRESSES   WHY\n" +
				"lab-1   Claimed             m-1       up                            \n"},
		"names": {format: formatName, want: "olvminventory.infrastructure.cluster.x-k8s.io/lab\n"},
	} {
		var out bytes.Buffer
		check.Error(t, printInventories(streams{out: &out}, formatOf(test.format), pools, "prod", test.pool, test.all), "")
		check.Equal(t, name, out.String(), test.want)
	}
}

func TestTablesOfTemplatesAreThoseOfKubectl(t *testing.T) {
	list := []image.ListedTemplate{{Name: "ol9-k8s", Version: 2, UserData: "cloud-init", OSType: "ol9", ID: "0f9b"}}

	for format, want := range map[string]string{
		formatTable: "NAME      VERSION   USER DATA    OS TYPE   DATA CENTER   ID\n" +
			"ol9-k8s   2         cloud-init   ol9       all           0f9b\n",
		formatName: "ol9-k8s\n",
	} {
		var out bytes.Buffer
		check.Error(t, printTemplates(&out, formatOf(format), list), "")
		check.Equal(t, format, out.String(), want)
	}
}

// TestANameOfAnEngineForgesNoLine has a template whose name was chosen by a stranger.
func TestANameOfAnEngineForgesNoLine(t *testing.T) {
	var out bytes.Buffer

	list := []image.ListedTemplate{{Name: "ol9\nother\x1b[2J"}}
	check.Error(t, printTemplates(&out, formatOf(formatName), list), "")
	check.Equal(t, "lines", strings.Count(out.String(), "\n"), 1)
	check.Lacks(t, "escape", out.String(), "\x1b")
}
