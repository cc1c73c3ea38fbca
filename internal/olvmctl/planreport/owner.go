package planreport

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// OwnerChange describes what happens to the machines of a control plane or a MachineDeployment.
type OwnerChange struct {
	// From is the owner as Kind/name.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	From      string `json:"from"`
	// Machines is the current number of machines, and Replicas is the wanted number.
	Machines int64 `json:"machines"`
	Replicas int64 `json:"replicas"`
	// Replaced are the machines replaced by a rollout. Reasons are the reasons of the replacements.
	Replaced []string `json:"replaced,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	// Differences are the differences between the templates, and other reasons, in the terms used in the manifests.
	Differences []string `json:"differences,omitempty"`
	// Deleted is the number of machines deleted without a replacement, because the number of replicas decreases.
	// Destroyed are the names of those machines already certain.
	Deleted   int64    `json:"deleted,omitempty"`
	Destroyed []string `json:"destroyed,omitempty"`

	// Candidates are the machines from which Cluster API chooses the others. Kept is the number of machines not
	// affected by a rollout.
	Candidates []string `json:"-"`
	Kept       int64    `json:"-"`
}

// String returns the change as a line for users.
func (c OwnerChange) String() string {
	var words []string
	if c.Kept < c.Machines {
		words = append(
			words,
			fmt.Sprintf("rolls out %d of %d machines (%s)", c.Machines-c.Kept, c.Machines,
				strings.Join(c.Reasons, "; ")),
		)
	}

	if c.Machines != c.Replicas {
		to := english.Plural(int(c.Replicas), "machine", "")
		words = append(words, fmt.Sprintf("scales from %d to %s", c.Machines, to))
	}

	text := fmt.Sprintf("%s/%s of cluster %s %s", c.Namespace, c.From, c.Cluster, strings.Join(words, ", and "))
	if len(c.Destroyed) > 0 {
		text += "; destroyed: " + strings.Join(c.Destroyed, ", ")
	}

	if rest := c.Deleted - int64(len(c.Destroyed)); rest > 0 {
		text += fmt.Sprintf("; destroyed: %d of these %d: %s", rest, len(c.Candidates),
			strings.Join(c.Candidates, ", "))
	}

	return text
}
