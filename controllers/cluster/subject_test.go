package cluster

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

func TestGuardGroups(t *testing.T) {
	for action, refused := range map[string]bool{
		"create":  false,
		"update":  false,
		"import":  false,
		"delete":  true,
		"replace": true,
	} {
		refusal := guardGroups(terraform.Change{Type: "ovirt_affinity_group", Action: action})
		if (refusal != "") != refused {
			t.Errorf("%s: %q", action, refusal)
		}
	}
}
