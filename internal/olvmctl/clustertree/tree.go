// Package clustertree shows a cluster as a tree: control plane and MachineDeployments with their machines, the VMs and
// Terraform runs of these, and why what is not ready is not.
package clustertree

import (
	"fmt"
	"io"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// Node is an object in the tree of a cluster.
type Node struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Summary for people.
	Summary string `json:"summary"`
	// Problem is why it is not ready; empty where it is.
	Problem string `json:"problem,omitempty"`
	// Machine is what there is to say of a machine.
	Machine  *Machine `json:"machine,omitempty"`
	Children []Node   `json:"children,omitempty"`
	// Stuck reports that the problem stays until a person mends it.
	Stuck bool `json:"stuck,omitempty"`
	// Waiting is what an owner of machines is still to get; empty for nothing.
	Waiting string `json:"waiting,omitempty"`
	// Version of Kubernetes that an owner of machines is to have.
	Version string `json:"-"`
	// Desired is how many machines their owner is to have.
	Desired int32 `json:"-"`
}

// Machine is what a tree has of a machine beside its problem.
type Machine struct {
	Phase string `json:"phase"`
	// Deleting reports that the machine goes: that it is not ready is no problem then.
	Deleting bool   `json:"deleting,omitempty"`
	Version  string `json:"version,omitempty"`
	Node     string `json:"node,omitempty"`
	VMID     string `json:"vmID,omitempty"`
	VMStatus string `json:"vmStatus,omitempty"`
	// Host that the VM runs on; empty where it runs on none.
	Host string `json:"host,omitempty"`
	// Outdated is why a VM that serves its node is not what its spec asks for; empty where it is.
	Outdated string `json:"outdated,omitempty"`
	// Inventory that the VM is of; empty for a VM that was made.
	Inventory string                   `json:"inventory,omitempty"`
	Addresses []string                 `json:"addresses,omitempty"`
	Terraform *infrav1.TerraformStatus `json:"terraform,omitempty"`
}

// Trouble is what is wrong with a cluster that is not there yet: of the parts that others wait for, the first that is
// not ready.
func (n *Node) Trouble() string {
	_, machine := n.Machines()
	var others []string

	for _, child := range n.Children {
		if child.Problem != "" {
			others = append(others, fmt.Sprintf("%s %s: %s", child.Kind, child.Name, gist(child.Problem)))
		}
	}

	if len(others) > 0 && n.Children[0].Kind == "OLVMCluster" && n.Children[0].Problem != "" {
		return others[0]
	}

	switch {
	case machine != "":
		return machine
	case len(others) > 0:
		return others[0]
	}

	return n.Kind + " " + n.Name + ": " + gist(n.Problem)
}

// Machines of a cluster: how many there are, and what is wrong with the first that is not ready.
func (n *Node) Machines() (count int, trouble string) {
	for _, child := range n.Children {
		if child.Kind == supportKind {
			continue // its VMs are no nodes
		}

		machines := child.Children
		if child.Machine != nil { // it has no owner but the Cluster
			machines = []Node{child}
		}

		for _, machine := range machines {
			count++
			if machine.Problem != "" && trouble == "" {
				trouble = fmt.Sprintf("Machine %s: %s", machine.Name, gist(machine.Problem))
			}
		}
	}

	return count, trouble
}

// StuckAt is what keeps the cluster, or what is below an object of it, from going on until a person mends it; empty for
// nothing.
func (n *Node) StuckAt() string {
	if n.Stuck {
		return n.Kind + " " + n.Name + ": " + gist(n.Problem)
	}

	for i := range n.Children {
		if stuck := n.Children[i].StuckAt(); stuck != "" {
			return stuck
		}
	}

	return ""
}

// Print writes the tree for people.
func (n *Node) Print(out io.Writer) error { return n.printWith(out, painter{}) }

// PrintColored writes the tree for people at a terminal with colors: what is wrong in red, what is waited for in
// yellow.
func (n *Node) PrintColored(out io.Writer) error {
	return n.printWith(out, painter{"!": "\x1b[31m", "…": "\x1b[33m"})
}

func (n *Node) printWith(out io.Writer, paint painter) error {
	var text strings.Builder
	n.print(&text, paint, "", "")
	_, err := io.WriteString(out, text.String())

	return err
}

// painter has the colors of lines by the signs that they begin with; it is empty without colors.
type painter map[string]string

func (p painter) line(sign, text string) string {
	if color := p[sign]; color != "" {
		return color + sign + " " + text + "\x1b[0m"
	}

	return sign + " " + text
}

// print writes an object, and what is below it. first and rest are the prefixes of its first and later lines.
func (n *Node) print(out *strings.Builder, paint painter, first, rest string) {
	fmt.Fprintf(out, "%s%s/%s  %s\n", first, n.Kind, n.Name, n.Summary)

	below, sign, text := "  ", "!", n.Problem
	if len(n.Children) > 0 {
		below = "│ "
	}

	switch {
	case text == "":
		sign, text = "…", n.Waiting
	case n.Machine != nil && n.Machine.Deleting && !n.Stuck:
		sign = "…"
	}

	for line := range strings.Lines(text) {
		fmt.Fprintf(out, "%s%s  %s\n", rest, below, paint.line(sign, strings.TrimRight(line, "\n")))
	}

	for i := range n.Children {
		if i == len(n.Children)-1 {
			n.Children[i].print(out, paint, rest+"└─", rest+"  ")
		} else {
			n.Children[i].print(out, paint, rest+"├─", rest+"│ ")
		}
	}
}
