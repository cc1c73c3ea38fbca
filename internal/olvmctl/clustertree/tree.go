// Package clustertree shows a cluster as a tree: the control plane and MachineDeployments with their machines, VMs and
// Terraform runs. It explains why an object is not ready.
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
	// Summary for users.
	Summary string `json:"summary"`
	// Problem explains why it is not ready; "" if it is.
	Problem string `json:"problem,omitempty"`
	// Machine holds the details of a machine.
	Machine  *Machine `json:"machine,omitempty"`
	Children []Node   `json:"children,omitempty"`
	// Stuck is true if the problem stays until a user corrects it.
	Stuck bool `json:"stuck,omitempty"`
	// Waiting describes the machines an owner still waits for. It is empty if there are none.
	Waiting string `json:"waiting,omitempty"`
	// Version of Kubernetes desired by an owner of machines.
	Version string `json:"-"`
	// Desired is the number of machines an owner requests.
	Desired int32 `json:"-"`
}

// Machine holds a machine's details besides its problem.
type Machine struct {
	Phase string `json:"phase"`
	// Deleting reports that the machine is in deletion. Then it is no problem if it is not ready.
	Deleting bool   `json:"deleting,omitempty"`
	Version  string `json:"version,omitempty"`
	Node     string `json:"node,omitempty"`
	VMID     string `json:"vmID,omitempty"`
	VMStatus string `json:"vmStatus,omitempty"`
	// Host is the name of the VM's host, or "" if it has none.
	Host string `json:"host,omitempty"`
	// Outdated explains why a VM with a ready node does not match its spec. It is empty if it does.
	Outdated string `json:"outdated,omitempty"`
	// Inventory of the VM; "" for a VM created by us.
	Inventory string                   `json:"inventory,omitempty"`
	Addresses []string                 `json:"addresses,omitempty"`
	Terraform *infrav1.TerraformStatus `json:"terraform,omitempty"`
}

// DescribeTrouble describes the main problem of an unfinished cluster: the first part not ready among those others wait
// for.
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

// CountMachines returns the number of a cluster's machines, and the first machine's problem.
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

// StuckAt returns the first problem below n that needs a user's correction, or "".
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

// PrintColored writes the tree for users at a terminal with colors: problems in red, waiting in yellow.
func (n *Node) PrintColored(out io.Writer) error {
	return n.printWith(out, painter{"!": "\x1b[31m", "…": "\x1b[33m"})
}

func (n *Node) printWith(out io.Writer, paint painter) error {
	var text strings.Builder
	n.printTo(&text, paint, "", "")
	_, err := io.WriteString(out, text.String())

	return err
}

// painter maps the signs at the start of lines to colors; it is empty without colors.
type painter map[string]string

func (p painter) colorLine(sign, text string) string {
	if color := p[sign]; color != "" {
		return color + sign + " " + text + "\x1b[0m"
	}

	return sign + " " + text
}

// printTo writes an object and its descendants. first and rest are the prefixes of its first and later lines.
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
