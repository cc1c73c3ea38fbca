// Command rights writes the table of the manager's rights into docs/operate/security.md. The table contains the objects
// and verbs of config/rbac/role.yaml, and the purpose of each right. It fails if a right has no explanation.
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const (
	roleFile    = "config/rbac/role.yaml"
	page        = "docs/operate/security.md"
	beginMarker = "<!-- made by hack/rights: begin -->\n"
	endMarker   = "<!-- made by hack/rights: end -->"
)

// reasons explains why the manager needs access to each resource.
var reasons = map[string]string{ //nolint:gosec // no credentials
	"configmaps":                     "read the engine's CA and your user data; set finalizer and move label on the CA",
	"namespaces":                     "read the labels that an OLVMClusterIdentity selects by",
	"secrets":                        "read credentials, bootstrap data and kubeconfigs; store states and user data",
	"events":                         "report events",
	"tokenreviews":                   "authenticate readers of metrics",
	"subjectaccessreviews":           "authorize readers of metrics",
	"deployments":                    "see whether Oracle's provider runs: the one of that name alone",
	"clusters":                       "read owners and pauses",
	"machines":                       "read versions, failure domains and nodes",
	"machinesets":                    "read how many machines a pool must serve",
	"kubeadmcontrolplanes":           "read how many machines a pool must serve",
	"olvmclusteridentities":          "read the credentials that an administrator shares; set finalizers",
	"olvmclusters":                   "read specs; set finalizers and annotations",
	"olvmclusters/finalizers":        "set owner references with `blockOwnerDeletion`",
	"olvmclusters/status":            "report conditions and failure domains",
	"olvminventories":                "read pools; set finalizers",
	"olvminventories/finalizers":     "set owner references with `blockOwnerDeletion`",
	"olvminventories/status":         "report conditions and counts",
	"olvminventoryvms":               "record each VM of a pool, and its claim",
	"olvminventoryvms/finalizers":    "set owner references with `blockOwnerDeletion`",
	"olvminventoryvms/status":        "report conditions, and what the engine has",
	"olvmmachines":                   "read specs; set metadata and provider IDs; make machines of support services",
	"olvmmachines/finalizers":        "set owner references with `blockOwnerDeletion`",
	"olvmmachines/status":            "report conditions and addresses",
	"olvmmachinetemplates":           "read specs; set annotations",
	"olvmmachinetemplates/status":    "report capacity for the autoscaler",
	"machines/status":                "ask the owner of a Machine to replace it when remediation gives up",
	"olvmremediations":               "read which machines to reboot; set finalizers",
	"olvmremediations/status":        "report the steps of a remediation",
	"olvmsupportservices":            "read support services; set metadata; delete them with their cluster",
	"olvmsupportservices/finalizers": "set owner references with `blockOwnerDeletion`",
	"olvmclusteridentities/status":   "report whether what they name can be used",
	"olvmsupportservices/status":     "report conditions, addresses and machines",
	"ipaddressclaims":                "claim addresses from IPAM providers",
	"ipaddresses":                    "read the addresses that IPAM providers allocate",
}

func main() {
	if err := updatePage(); err != nil {
		fmt.Fprintln(os.Stderr, "rights:", err)
		os.Exit(1)
	}
}

func updatePage() error {
	content, err := os.ReadFile(roleFile)
	if err != nil {
		return err
	}

	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(content, &role); err != nil {
		return fmt.Errorf("failed to read %s: %w", roleFile, err)
	}

	table, err := renderTable(role.Rules)
	if err != nil {
		return err
	}

	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}

	before, rest, found := bytes.Cut(text, []byte(beginMarker))
	_, after, foundEnd := bytes.Cut(rest, []byte(endMarker))
	if !found || !foundEnd {
		return fmt.Errorf("%s does not contain the markers %q and %q", page, beginMarker, endMarker)
	}

	return os.WriteFile(page, slices.Concat(before, []byte(beginMarker+table+endMarker), after), 0o644)
}

// renderTable returns a table of the rules with a row for each resource.
func renderTable(rules []rbacv1.PolicyRule) (string, error) {
	var out strings.Builder

	out.WriteString("| objects | verbs | what for |\n|---|---|---|\n")

	for _, rule := range rules {
		for _, resource := range rule.Resources {
			reason, known := reasons[resource]
			if !known {
				return "", fmt.Errorf("%s grants rights to %s; explain them in hack/rights/main.go", roleFile, resource)
			}

			fmt.Fprintf(&out, "| %s | %s | %s |\n", resource, strings.Join(rule.Verbs, ", "), reason)
		}
	}

	return out.String(), nil
}
