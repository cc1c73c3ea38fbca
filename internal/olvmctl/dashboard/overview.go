package dashboard

import (
	"cmp"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
)

// These are the kinds of states. Each kind has a color and a shape, and determines the position of clusters in lists.
const (
	kindBad  = "bad"
	kindBusy = "busy"
	kindOff  = "off"
	kindOK   = "ok"
)

// kindOrder is the order of clusters in the overview. Clusters in trouble come first.
var kindOrder = []string{kindBad, kindBusy, kindOff, kindOK}

// Count has the number of items by state.
type Count struct {
	Total int `json:"total"`
	Bad   int `json:"bad"`
	Busy  int `json:"busy"`
	Off   int `json:"off"`
	OK    int `json:"ok"`
}

func (c *Count) addKind(kind string) {
	c.Total++

	switch kind {
	case kindBad:
		c.Bad++
	case kindBusy:
		c.Busy++
	case kindOff:
		c.Off++
	default:
		c.OK++
	}
}

// addCount adds the numbers of another count.
func (c *Count) addCount(other Count) {
	c.Total += other.Total
	c.Bad += other.Bad
	c.Busy += other.Busy
	c.Off += other.Off
	c.OK += other.OK
}

// Trouble is a problem that probably remains until a user acts.
type Trouble struct {
	// About is an object, or something without a namespace: an engine or a manager.
	About Ref    `json:"about"`
	What  string `json:"what"`
}

// kindOfMachine returns the kind of the state of a machine.
func kindOfMachine(node *clustertree.Node) string {
	switch ended := node.Machine.Phase == "Running" || node.Machine.Phase == "Failed"; {
	case node.Stuck:
		return kindBad
	case node.Machine.Deleting:
		return kindOff
	case node.Problem == "":
		return kindOK
	case ended:
		return kindBad
	default:
		return kindBusy
	}
}

// assessState sets the state of the cluster, its troubles, and the numbers of its machines. All numbers on the page
// come from here, so they agree with each other and with the listed machines.
func (c *Cluster) assessState() {
	c.Kinds = map[string]string{}
	c.Troubles = nil

	plane, workers, hasPlane := clustertree.Replicas{}, clustertree.Replicas{}, false

	for i := range c.Tree.Children {
		part := &c.Tree.Children[i]
		if part.Stuck && part.Machine == nil {
			c.addTrouble(part)
		}

		ready := c.countMachines(part)

		switch part.Kind {
		case "KubeadmControlPlane":
			hasPlane = true
			plane.Ready, plane.Desired = plane.Ready+ready, plane.Desired+part.Desired
		case "MachineDeployment":
			workers.Ready, workers.Desired = workers.Ready+ready, workers.Desired+part.Desired
		case "Machine":
			workers.Ready, workers.Desired = workers.Ready+ready, workers.Desired+1
		}
	}

	if hasPlane { // the tree lacks the machines of another provider's control plane
		c.ControlPlane, c.Workers = plane, workers
	}

	if c.Phase == "Failed" && len(c.Troubles) == 0 {
		c.addTrouble(c.Tree)
	}

	c.Kind, c.State = c.stateOf()
}

// countMachines counts the machines in a part, and returns the number of ready machines. It does not count the VMs of
// support services, because they are not nodes.
func (c *Cluster) countMachines(part *clustertree.Node) (ready int32) {
	machines := part.Children
	if part.Machine != nil { // the Cluster is its only owner
		machines = []clustertree.Node{*part}
	}

	for i := range machines {
		machine := &machines[i]
		if machine.Machine == nil {
			continue
		}

		kind := kindOfMachine(machine)
		c.Kinds[machine.Kind+"/"+machine.Name] = kind

		if kind == kindBad {
			c.addTrouble(machine)
		}

		if machine.Kind == "Machine" {
			c.Machines.addKind(kind)
		}

		if kind == kindOK {
			ready++
		}
	}

	return ready
}

func (c *Cluster) addTrouble(node *clustertree.Node) {
	c.Troubles = append(c.Troubles, Trouble{
		About: Ref{Kind: node.Kind, Namespace: c.Namespace, Name: node.Name},
		What:  cmp.Or(node.Problem, "its phase is Failed"),
	})
}

// stateOf returns the kind of the state of a cluster, and a word for the state.
func (c *Cluster) stateOf() (kind, word string) {
	switch {
	case len(c.Troubles) > 0:
		return kindBad, "In trouble"
	case c.Phase == "Deleting":
		return kindOff, "Deleting"
	case c.Paused:
		return kindOff, "Paused"
	case !c.Available && c.Phase != "Provisioned":
		return kindBusy, cmp.Or(c.Phase, "Pending")
	case !c.Available:
		return kindBusy, "Not available"
	case c.Updating:
		return kindBusy, "Updating"
	default:
		return kindOK, "Available"
	}
}

// sortByTrouble sorts clusters by trouble, then by namespace and name.
func sortByTrouble(clusters []Cluster) {
	slices.SortStableFunc(clusters, func(a, b Cluster) int {
		return cmp.Or(
			cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind)),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// setTotals sets the totals over all clusters.
func (s *State) setTotals() {
	if s.Away == "" && s.Manager != "" {
		s.Troubles = append(s.Troubles, Trouble{About: Ref{Kind: "The manager"}, What: s.Manager})
	}

	for i := range s.Clusters {
		c := &s.Clusters[i]
		s.Counts.addKind(c.Kind)
		s.Machines.addCount(c.Machines)
		s.Troubles = append(s.Troubles, c.Troubles...)
	}

	for i := range s.Engines {
		if e := &s.Engines[i]; s.Away == "" && e.Error != "" {
			s.Troubles = append(s.Troubles, Trouble{
				About: Ref{Kind: "Engine", Name: e.URL},
				What:  "unreachable: " + e.Error,
			})
		}
	}
}
