package planreport

import (
	"fmt"
	"strings"
)

// Pruned is an object in the management cluster missing from the manifests. An apply with pruning would delete it.
type Pruned struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// By is the GitOps tool of the object, or "" if unknown.
	By string `json:"by,omitempty"`
}

// Reason returns why the dependents of the object are deleted, too.
func (p Pruned) Reason() string {
	out := fmt.Sprintf("%s is no longer in the manifests", p)
	if p.By != "" {
		out += ", and " + p.By + " prunes it"
	}

	return out
}

func (p Pruned) String() string {
	return p.Kind + " " + strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
}
