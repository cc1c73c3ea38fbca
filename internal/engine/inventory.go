package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// DescribedVM is a VM with what a pool of VMs is described by.
type DescribedVM struct {
	VM
	Tags     []Tag           `xml:"tags>tag"`
	Labels   []AffinityLabel `xml:"affinity_labels>affinity_label"`
	NICs     []DescribedNIC  `xml:"nics>nic"`
	Template TemplateName    `xml:"template"`
}

// TemplateName is a template with its name.
type TemplateName struct {
	ID   ID     `xml:"id,attr"`
	Name string `xml:"name"`
}

// DescribedNIC is a network interface with the network that it is connected to.
type DescribedNIC struct {
	Name    string `xml:"name"`
	Profile *struct {
		Network *struct {
			Name string `xml:"name"`
		} `xml:"network"`
	} `xml:"vnic_profile"`
}

// Network is the name of the network; empty where the interface is connected to none.
func (n DescribedNIC) Network() string {
	if n.Profile == nil || n.Profile.Network == nil {
		return ""
	}

	return n.Profile.Network.Name
}

// TaggedVMs lists the VMs that carry a tag themselves, in one request. Their user data is left out, and so are, by the
// engine, the descriptions of their tags, which Tags has.
func (c *Client) TaggedVMs(ctx context.Context, tag string) ([]DescribedVM, error) {
	var list struct {
		XMLName xml.Name      `xml:"vms"`
		Items   []DescribedVM `xml:"vm"`
	}
	query := url.Values{
		"search": {"tag=" + strings.ReplaceAll(tag, `"`, "")},
		// Not host: the engine fails as soon as one VM has none.
		"follow": {"tags,affinity_labels,nics.vnic_profile.network,template"},
	}
	if err := c.do(ctx, http.MethodGet, "/vms", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the VMs with the tag %q: %w", tag, err)
	}

	var out []DescribedVM

	for _, vm := range list.Items {
		if vm.Initialization != nil {
			vm.Initialization.CustomScript = ""
		}

		for _, has := range vm.Tags { // the search finds VMs with a child of the tag, too
			if has.Name == tag {
				out = append(out, vm)
				break
			}
		}
	}

	return out, nil
}

// SearchVMs are the IDs of the VMs that a query of the engine's language finds. The engine finds nothing where it does
// not understand the query.
func (c *Client) SearchVMs(ctx context.Context, query string) (map[ID]bool, error) {
	var list struct {
		XMLName xml.Name `xml:"vms"`
		Items   []struct {
			ID ID `xml:"id,attr"`
		} `xml:"vm"`
	}
	if err := c.do(ctx, http.MethodGet, "/vms", url.Values{"search": {query}}, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to search VMs by %q: %w", query, err)
	}

	out := map[ID]bool{}
	for _, vm := range list.Items {
		out[vm.ID] = true
	}

	return out, nil
}

// DescribedHost is a host with its tags and affinity labels.
type DescribedHost struct {
	Host
	Tags   []Tag           `xml:"tags>tag"`
	Labels []AffinityLabel `xml:"affinity_labels>affinity_label"`
}

// DescribedHosts lists all hosts of the engine by their IDs.
func (c *Client) DescribedHosts(ctx context.Context) (map[ID]DescribedHost, error) {
	var list struct {
		XMLName xml.Name        `xml:"hosts"`
		Items   []DescribedHost `xml:"host"`
	}
	query := url.Values{"follow": {"tags,affinity_labels"}}
	if err := c.do(ctx, http.MethodGet, "/hosts", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list hosts with their labels: %w", err)
	}

	out := map[ID]DescribedHost{}
	for _, host := range list.Items {
		out[host.ID] = host
	}

	return out, nil
}
