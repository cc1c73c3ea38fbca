package planinput_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// TestTheRoleOfAPlanReadsAllThatAPlanReads compares the shipped roles with the kinds read by a plan.
func TestTheRoleOfAPlanReadsAllThatAPlanReads(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(testenv.Toolchain(t).Root(), "config", "rbac", "plan_role.yaml"))
	check.Error(t, err, "")

	granted := map[string][]string{}

	for _, document := range strings.Split(string(content), "---\n") {
		var role rbacv1.ClusterRole
		check.Error(t, yaml.UnmarshalStrict([]byte(document), &role), "")

		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				granted[rule.APIGroups[0]+"/"+resource] = rule.Verbs
			}

			for _, verb := range rule.Verbs {
				check.Equal(t, role.Name+" only reads: "+verb, verb == "get" || verb == "list", true)
			}
		}
	}

	for _, kind := range planinput.LiveKinds {
		resource := strings.ToLower(kind.Kind) + "s"
		switch kind.Kind {
		case "OLVMInventory":
			resource = "olvminventories"
		case support.Kind:
			resource = "olvmsupportservices"
		}

		check.Equal(t, kind.Kind+" can be listed", slices.Contains(granted[kind.Group+"/"+resource], "list"), true)
	}

	check.Equal(t, "Applications can be listed", slices.Contains(granted["argoproj.io/applications"], "list"), true)

	for _, resource := range []string{"/secrets", "/configmaps", "/namespaces",
		"infrastructure.cluster.x-k8s.io/olvmclusteridentities", "cluster.x-k8s.io/clusterclasses",
		"cluster.x-k8s.io/machinehealthchecks",
		"bootstrap.cluster.x-k8s.io/kubeadmconfigtemplates", "controlplane.cluster.x-k8s.io/kubeadmcontrolplanetemplates",
		"infrastructure.cluster.x-k8s.io/olvmclustertemplates", "infrastructure.cluster.x-k8s.io/olvmremediations",
		"infrastructure.cluster.x-k8s.io/olvmremediationtemplates", "apiextensions.k8s.io/customresourcedefinitions"} {
		check.Equal(t, resource+" can be read", slices.Contains(granted[resource], "get"), true)
	}

	// A plan refuses a change of a control plane of another provider, or of its templates, and so has to read it.
	for group, kinds := range map[string][]string{
		"controlplane": {"RKE2ControlPlane", "RKE2ControlPlaneTemplate", "KamajiControlPlane", "KamajiControlPlaneTemplate",
			"K0sControlPlane", "K0sControlPlaneTemplate", "K0smotronControlPlane", "K0smotronControlPlaneTemplate",
			"KThreesControlPlane", "KThreesControlPlaneTemplate"},
		"bootstrap": {"RKE2ConfigTemplate", "K0sWorkerConfigTemplate", "KThreesConfigTemplate"},
	} {
		for _, kind := range kinds {
			resource := group + ".cluster.x-k8s.io/" + strings.ToLower(kind) + "s"
			check.Equal(t, resource+" can be read", slices.Contains(granted[resource], "get"), true)
		}
	}

	// With generateType: none, their data is the whole configuration of a machine, with its token and the key of the CA.
	for _, resource := range []string{"controlplane.cluster.x-k8s.io/taloscontrolplanes",
		"bootstrap.cluster.x-k8s.io/talosconfigtemplates"} {
		check.Length(t, resource+" may have secrets", granted[resource], 0)
	}

	// The configurations of machines have the tokens by which they join.
	for resource := range granted {
		isConfig := strings.HasPrefix(resource, "bootstrap.") && !strings.HasSuffix(resource, "templates")
		check.Equal(t, resource+" has tokens of machines", isConfig || strings.HasSuffix(resource, "/*"), false)
	}
}
