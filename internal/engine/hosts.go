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

// Host is a host of a cluster.
type Host struct {
	ID      ID     `xml:"id,attr"`
	Name    string `xml:"name"`
	Status  string `xml:"status"`
	Cluster *Ref   `xml:"cluster"`
	// FreeMemory is the memory available to the scheduler for more VMs, in bytes.
	FreeMemory int64     `xml:"max_scheduling_memory"`
	Topology   *Topology `xml:"cpu>topology"`
}

// CPUs returns the number of the host's threads, or 0 if the engine omits it.
func (h *Host) CPUs() int64 {
	if h.Topology == nil {
		return 0
	}

	return h.Topology.Cores * h.Topology.Sockets * h.Topology.Threads
}

// HostUp is the status of a host that can run VMs.
const HostUp = "up"

// ListHostsWithin lists all hosts of the engine from a cached list at most maxAge old. Hosts may change at any time,
// but many machines need the list.
func (c *Client) ListHostsWithin(ctx context.Context, maxAge time.Duration) ([]Host, error) {
	list := &c.lists.hosts
	if err := list.mu.acquire(ctx); err != nil {
		return nil, err
	}

	defer list.mu.release()
	if list.at.IsZero() || c.now().Sub(list.at) > maxAge {
		hosts, err := c.ListHosts(ctx)
		if err != nil {
			return nil, err
		}

		list.items, list.at = hosts, c.now()
	}

	return slices.Clone(list.items), nil
}

const (
	// hostNamesAge is the maximum age of the list for the name of a host on it. Hosts are seldom renamed.
	hostNamesAge = 10 * time.Minute
	// newHostAge is the maximum age of the list if it lacks the host.
	newHostAge = time.Minute
)

// FindHostName returns the name of a host from a cached list. It returns false if the engine does not have the host, or
// does not answer.
func (c *Client) FindHostName(ctx context.Context, id ID) (name string, known bool) {
	for _, maxAge := range []time.Duration{hostNamesAge, newHostAge} {
		hosts, err := c.ListHostsWithin(ctx, maxAge)
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

// FindAffinityLabel returns the label with this name and its hosts, from a cached list at most maxAge old. A missing
// label is a NameError.
func (c *Client) FindAffinityLabel(ctx context.Context, name string, maxAge time.Duration) (*AffinityLabel, error) {
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
		err := c.sendWithSession(
			ctx, http.MethodGet, "/affinitylabels", url.Values{"follow": {"hosts"}}, nil, nil, &reply,
		)
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
		Known: collectNames(list.items, func(AffinityLabel) bool {
			return true
		}, func(l AffinityLabel) string { return l.Name }),
	}
}

// ListHosts lists all hosts of the engine.
func (c *Client) ListHosts(ctx context.Context) ([]Host, error) {
	var list struct {
		XMLName xml.Name `xml:"hosts"`
		Items   []Host   `xml:"host"`
	}
	if err := c.fetchInto(ctx, "/hosts", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list hosts: %w", err)
	}

	return list.Items, nil
}
