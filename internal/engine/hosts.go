package engine

import (
	"context"
	"encoding/xml"
	"fmt"
)

// Host of a cluster.
type Host struct {
	ID      string `xml:"id,attr"`
	Name    string `xml:"name"`
	Status  string `xml:"status"`
	Cluster *Ref   `xml:"cluster"`
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
