package planreport

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// OwnerChange is what would become of the machines of a control plane or a MachineDeployment.
type OwnerChange struct {
	// From is Kind/name.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	From      string `json:"from"`
	// Machines that there are, and Replicas that are asked for.
	Machines int64 `json:"machines"`
	Replicas int64 `json:"replicas"`
	// Replaced are the machines that a rollout replaces; Reasons say why.
	Replaced []string `json:"replaced,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	// Differences between the templates, and what else is the reason, in the words of who wrote them.
	Differences []string `json:"differences,omitempty"`
	// Deleted is how many machines a smaller number of replicas deletes, without others in their places. Destroyed are
	// those of them that are known.
	Deleted   int64    `json:"deleted,omitempty"`
	Destroyed []string `json:"destroyed,omitempty"`

	// Candidates are the machines of which Cluster API chooses the rest, and Kept is how many no rollout replaces.
	Candidates []string `json:"-"`
	Kept       int64    `json:"-"`
}

// String is a line for people.
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
