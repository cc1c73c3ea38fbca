// Command rights writes the table of the manager's rights into docs/operate/security.md: the objects and verbs of
// config/rbac/role.yaml, and what each is for. It fails on a right that it cannot explain.
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
	roleFile = "config/rbac/role.yaml"
	page     = "docs/operate/security.md"
	begin    = "<!-- made by hack/rights: begin -->\n"
	end      = "<!-- made by hack/rights: end -->"
)

// reasons are what the manager does with each kind of object.
var reasons = map[string]string{
	"configmaps":                  "the engine's CA, user data of yours; finalizer and move label of the CA",
	"namespaces":                  "labels, by which an OLVMClusterIdentity chooses namespaces",
	"secrets":                     "credentials, bootstrap data, states, kubeconfigs, user data; contents are not cached",
	"events":                      "events",
	"tokenreviews":                "who asks for metrics",
	"subjectaccessreviews":        "who may read metrics",
	"clusters":                    "owners, pauses",
	"machines":                    "owners, versions, failure domains, nodes",
	"machinesets":                 "how many machines a group of a pool wants",
	"kubeadmcontrolplanes":        "how many machines a control plane wants of a pool",
	"olvmclusteridentities":       "credentials that an administrator gives to several namespaces",
	"olvmclusters":                "specs, finalizers, annotations",
	"olvmclusters/finalizers":     "owner references, if the API server checks who may block a deletion",
	"olvmclusters/status":         "conditions, failure domains",
	"olvminventories":             "pools of VMs",
	"olvminventories/finalizers":  "the same",
	"olvminventories/status":      "conditions, counts",
	"olvminventoryvms":            "the VMs of pools: one object for each, with who has it",
	"olvminventoryvms/finalizers": "the same",
	"olvminventoryvms/status":     "conditions, what the engine has",
	"olvmmachines":                "specs, finalizers, annotations, provider ID; VMs of support services",
	"olvmmachines/finalizers":     "the same",
	"olvmmachines/status":         "conditions, addresses",
	"olvmmachinetemplates":        "capacity for the autoscaler; templates of pools",
	"olvmmachinetemplates/status": "capacity",
	"ipaddressclaims":             "addresses of IPAM providers",
	"ipaddresses":                 "the same",
}

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "rights:", err)
		os.Exit(1)
	}
}

func write() error {
	content, err := os.ReadFile(roleFile)
	if err != nil {
		return err
	}

	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal(content, &role); err != nil {
		return fmt.Errorf("failed to read %s: %w", roleFile, err)
	}

	table, err := tableOf(role.Rules)
	if err != nil {
		return err
	}

	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}

	before, rest, found := bytes.Cut(text, []byte(begin))
	_, after, foundEnd := bytes.Cut(rest, []byte(end))
	if !found || !foundEnd {
		return fmt.Errorf("%s has no place for the table", page)
	}

	return os.WriteFile(page, slices.Concat(before, []byte(begin+table+end), after), 0o644)
}

// tableOf is the table of rules, a row for each kind of object.
func tableOf(rules []rbacv1.PolicyRule) (string, error) {
	var out strings.Builder

	out.WriteString("| objects | verbs | what for |\n|---|---|---|\n")

	for _, rule := range rules {
		for _, resource := range rule.Resources {
			reason, known := reasons[resource]
			if !known {
				return "", fmt.Errorf("%s has a right to %s; say in hack/rights what for", roleFile, resource)
			}

			fmt.Fprintf(&out, "| %s | %s | %s |\n", resource, strings.Join(rule.Verbs, ", "), reason)
		}
	}

	return out.String(), nil
}
