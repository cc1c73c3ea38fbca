// Package clustertree represents a cluster as a tree: the control plane and MachineDeployments with their machines, VMs
// and Terraform runs. For each object, the tree explains why it is not ready.
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
	// Summary is a summary for users.
	Summary string `json:"summary"`
	// Problem explains why the object is not ready, or is "".
	Problem string `json:"problem,omitempty"`
	// Machine has the details of a machine.
	Machine  *Machine `json:"machine,omitempty"`
	Children []Node   `json:"children,omitempty"`
	// Stuck is true if the problem remains until a user corrects it.
	Stuck bool `json:"stuck,omitempty"`
	// Waiting describes the machines that an owner still waits for. It is empty if the owner waits for none.
	Waiting string `json:"waiting,omitempty"`
	// Version is the Kubernetes version requested by an owner of machines.
	Version string `json:"-"`
	// Desired is the number of machines requested by an owner.
	Desired int32 `json:"-"`
}

// Machine has the details of a machine, except its problem.
type Machine struct {
	Phase string `json:"phase"`
	// Deleting reports whether the machine is being deleted. It is then no problem if the machine is not ready.
	Deleting bool   `json:"deleting,omitempty"`
	Version  string `json:"version,omitempty"`
	Node     string `json:"node,omitempty"`
	VMID     string `json:"vmID,omitempty"`
	VMStatus string `json:"vmStatus,omitempty"`
	// Host is the name of the VM's host, or "" if it has none.
	Host string `json:"host,omitempty"`
	// Outdated explains why a VM with a ready node does not match its spec. It is empty if the VM matches.
	Outdated string `json:"outdated,omitempty"`
	// Inventory is the inventory of the VM, or "" if this provider has created the VM.
	Inventory string                   `json:"inventory,omitempty"`
	Addresses []string                 `json:"addresses,omitempty"`
	Terraform *infrav1.TerraformStatus `json:"terraform,omitempty"`
}

// DescribeTrouble describes the main problem of an unfinished cluster. It is the problem of the first part that is not
// ready and that other parts wait for.
func (n *Node) DescribeTrouble() string {
	_, machine := n.CountMachines()
	var others []string

	for _, child := range n.Children {
		if child.Problem != "" {
			others = append(others, fmt.Sprintf("%s %s: %s", child.Kind, child.Name, shortenMessage(child.Problem)))
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

	return n.Kind + " " + n.Name + ": " + shortenMessage(n.Problem)
}

// CountMachines returns the number of machines in a cluster, and the problem of the first machine with one.
func (n *Node) CountMachines() (count int, trouble string) {
	for _, child := range n.Children {
		if child.Kind == supportKind {
			continue // its VMs are not nodes
		}

		machines := child.Children
		if child.Machine != nil { // the Cluster is its only owner
			machines = []Node{child}
		}

		for _, machine := range machines {
			count++
			if machine.Problem != "" && trouble == "" {
				trouble = fmt.Sprintf("Machine %s: %s", machine.Name, shortenMessage(machine.Problem))
			}
		}
	}

	return count, trouble
}

// StuckAt returns the first problem below n that a user must correct, or "".
func (n *Node) StuckAt() string {
	if n.Stuck {
		return n.Kind + " " + n.Name + ": " + shortenMessage(n.Problem)
	}

	for i := range n.Children {
		if stuck := n.Children[i].StuckAt(); stuck != "" {
			return stuck
		}
	}

	return ""
}

// Print writes the tree for users.
func (n *Node) Print(out io.Writer) error { return n.printWith(out, painter{}) }

// PrintColored writes the tree for users at a terminal with colors. Problems are red, and waiting is yellow.
func (n *Node) PrintColored(out io.Writer) error {
	return n.printWith(out, painter{"!": "\x1b[31m", "…": "\x1b[33m"})
}

func (n *Node) printWith(out io.Writer, paint painter) error {
	var text strings.Builder
	n.printTo(&text, paint, "", "")
	_, err := io.WriteString(out, text.String())

	return err
}

// painter maps the sign at the start of a line to its color. It is empty without colors.
type painter map[string]string

func (p painter) colorLine(sign, text string) string {
	if color := p[sign]; color != "" {
		return color + sign + " " + text + "\x1b[0m"
	}

	return sign + " " + text
}

// printTo writes an object and its descendants. first is the prefix of its first line, and rest that of all other
// lines.
func (n *Node) printTo(out *strings.Builder, paint painter, first, rest string) {
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
		fmt.Fprintf(out, "%s%s  %s\n", rest, below, paint.colorLine(sign, strings.TrimRight(line, "\n")))
	}

	for i := range n.Children {
		if i == len(n.Children)-1 {
			n.Children[i].printTo(out, paint, rest+"└─", rest+"  ")
		} else {
			n.Children[i].printTo(out, paint, rest+"├─", rest+"│ ")
		}
	}
}
