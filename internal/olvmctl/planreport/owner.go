package planreport

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// OwnerChange describes the fate of the machines of a control plane or a MachineDeployment.
type OwnerChange struct {
	// From is Kind/name.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	From      string `json:"from"`
	// Machines is the present number, and Replicas the wanted one.
	Machines int64 `json:"machines"`
	Replicas int64 `json:"replicas"`
	// Replaced are the machines replaced by a rollout; Reasons say why.
	Replaced []string `json:"replaced,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	// Differences between the templates, and other reasons, in the words of their author.
	Differences []string `json:"differences,omitempty"`
	// Deleted is the number of machines deleted by lower replicas, without replacements. Destroyed lists them as far as
	// known.
	Deleted   int64    `json:"deleted,omitempty"`
	Destroyed []string `json:"destroyed,omitempty"`

	// Candidates are the machines among which Cluster API chooses the rest. Kept is the number of machines unaffected
	// by a rollout.
	Candidates []string `json:"-"`
	Kept       int64    `json:"-"`
}

// String returns a line for users.
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
