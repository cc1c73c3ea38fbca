package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Host of a cluster.
type Host struct {
	ID      ID     `xml:"id,attr"`
	Name    string `xml:"name"`
	Status  string `xml:"status"`
	Cluster *Ref   `xml:"cluster"`
	// FreeMemory is what the scheduler can give to more VMs, in bytes.
	FreeMemory int64     `xml:"max_scheduling_memory"`
	Topology   *Topology `xml:"cpu>topology"`
}

// CPUs are the threads of the host; 0 where the engine does not say.
func (h *Host) CPUs() int64 {
	if h.Topology == nil {
		return 0
	}

	return h.Topology.Cores * h.Topology.Sockets * h.Topology.Threads
}

// HostUp is the status of a host that runs VMs.
const HostUp = "up"

// HostsWithin lists all hosts of the engine, out of a list that is at most maxAge old. Hosts come and go, and who asks
// is many machines.
func (c *Client) HostsWithin(ctx context.Context, maxAge time.Duration) ([]Host, error) {
	list := &c.lists.hosts
	if err := list.mu.acquire(ctx); err != nil {
		return nil, err
	}

	defer list.mu.release()
	if list.at.IsZero() || c.now().Sub(list.at) > maxAge {
		hosts, err := c.Hosts(ctx)
		if err != nil {
			return nil, err
		}

		list.items, list.at = hosts, c.now()
	}

	return slices.Clone(list.items), nil
}

const (
	// hostNamesAge is how old a list of hosts may be for the name of one that is in it; hosts are seldom renamed.
	hostNamesAge = 10 * time.Minute
	// newHostAge is how old it may be for one that is not.
	newHostAge = time.Minute
)

// HostName is the name of a host out of a list; false where the engine does not have the host, or does not answer.
func (c *Client) HostName(ctx context.Context, id ID) (name string, known bool) {
	for _, maxAge := range []time.Duration{hostNamesAge, newHostAge} {
		hosts, err := c.HostsWithin(ctx, maxAge)
		if err != nil {
			return "", false
		}

		for i := range hosts {
			if hosts[i].ID == id {
				return hosts[i].Name, true
			}
		}
	}

	return "", false
}

// AffinityLabel binds VMs to hosts.
type AffinityLabel struct {
	ID    ID     `xml:"id,attr"`
	Name  string `xml:"name"`
	Hosts struct {
		Items []Ref `xml:"host"`
	} `xml:"hosts"`
}

// AffinityLabel returns the label of that name with its hosts, or a NameError, out of a list that is at most maxAge
// old.
func (c *Client) AffinityLabel(ctx context.Context, name string, maxAge time.Duration) (*AffinityLabel, error) {
	list := &c.lists.labels
	if err := list.mu.acquire(ctx); err != nil {
		return nil, err
	}

	defer list.mu.release()
	if list.at.IsZero() || c.now().Sub(list.at) > maxAge {
		var reply struct {
			XMLName xml.Name        `xml:"affinity_labels"`
			Items   []AffinityLabel `xml:"affinity_label"`
		}
		err := c.exchange(ctx, http.MethodGet, "/affinitylabels", url.Values{"follow": {"hosts"}}, nil, nil, &reply)
		if err != nil {
			return nil, fmt.Errorf("failed to list affinity labels: %w", err)
		}

		list.items, list.at = reply.Items, c.now()
	}

	for _, label := range list.items {
		if label.Name == name {
			return &label, nil
		}
	}

	return nil, &NameError{Kind: "affinity label", Name: name, Scope: "the engine",
		Known: names(list.items, func(AffinityLabel) bool {
			return true
		}, func(l AffinityLabel) string { return l.Name }),
	}
}

// Hosts lists all hosts of the engine.
func (c *Client) Hosts(ctx context.Context) ([]Host, error) {
	var list struct {
		XMLName xml.Name `xml:"hosts"`
		Items   []Host   `xml:"host"`
	}
	if err := c.get(ctx, "/hosts", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list hosts: %w", err)
	}

	return list.Items, nil
}
