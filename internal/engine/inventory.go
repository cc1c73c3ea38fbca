package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// DescribedVM is a VM with the properties needed to describe an inventory.
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

// DescribedNIC is a network interface with its network.
type DescribedNIC struct {
	Name    string          `xml:"name"`
	Profile *NetworkProfile `xml:"vnic_profile"`
}

// NetworkProfile is a vNIC profile with its network, or nil.
type NetworkProfile struct {
	ID      ID           `xml:"id,attr"`
	Network *NetworkName `xml:"network"`
}

// NetworkName is a network with its name. The engine omits the name if the answer already has it elsewhere.
type NetworkName struct {
	ID   ID     `xml:"id,attr"`
	Name string `xml:"name"`
}

// ConnectedNetwork returns the name of the network, or "" if the interface is not connected.
func (n DescribedNIC) ConnectedNetwork() string {
	if n.Profile == nil || n.Profile.Network == nil {
		return ""
	}

	return n.Profile.Network.Name
}

// ListTaggedVMs lists the VMs with this tag, but not those with only a child of it. It omits their user data. The
// engine omits the descriptions of their tags; ListTags has them.
func (c *Client) ListTaggedVMs(ctx context.Context, tag string) ([]DescribedVM, error) {
	var list struct {
		XMLName xml.Name      `xml:"vms"`
		Items   []DescribedVM `xml:"vm"`
	}
	query := url.Values{
		"search": {bypassCache("tag=" + strings.ReplaceAll(tag, `"`, ""))},
		// Do not follow host: the request fails as soon as one VM has no host.
		"follow": {"tags,affinity_labels,nics.vnic_profile.network,template"},
	}
	if err := c.callEngine(ctx, http.MethodGet, "/vms", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the VMs with the tag %q: %w", tag, err)
	}

	if err := c.fillNetworkNames(ctx, list.Items); err != nil {
		return nil, err
	}

	var out []DescribedVM

	for _, vm := range list.Items {
		if vm.Initialization != nil {
			vm.Initialization.CustomScript = ""
		}

		for _, has := range vm.Tags { // the search also finds VMs with a child of the tag
			if has.Name == tag {
				out = append(out, vm)
				break
			}
		}
	}

	return out, nil
}

// bypassCache changes a search so that the engine does not answer it from its cache. If a search for a tag comes before
// the tag exists, the same search finds nothing for a day, as the recording "tag-searches" shows. A search with sorting
// or paging stays unchanged, because no condition can follow it.
func bypassCache(search string) string {
	for word := range strings.FieldsSeq(strings.ToLower(search)) {
		if word == "sortby" || word == "page" {
			return search
		}
	}

	return search + " and name=*"
}

// fillNetworkNames fills in names of networks missing from an answer. The engine expands a followed object only once in
// each answer, as the recording "follow-once" shows.
func (c *Client) fillNetworkNames(ctx context.Context, vms []DescribedVM) error {
	names, unnamed := map[ID]string{}, []*NetworkName(nil)

	for _, vm := range vms {
		for _, nic := range vm.NICs {
			switch {
			case nic.Profile == nil || nic.Profile.Network == nil:
			case nic.Profile.Network.Name == "":
				unnamed = append(unnamed, nic.Profile.Network)
			default:
				names[nic.Profile.Network.ID] = nic.Profile.Network.Name
			}
		}
	}

	for _, network := range unnamed {
		if names[network.ID] == "" {
			found, err := c.fetchNetworkName(ctx, network.ID)
			if err != nil {
				return err
			}

			names[network.ID] = found
		}

		network.Name = names[network.ID]
	}

	return nil
}

// fetchNetworkName fetches the name of a network.
func (c *Client) fetchNetworkName(ctx context.Context, id ID) (string, error) {
	var network NetworkName
	if err := c.callEngine(ctx, http.MethodGet, "/networks/"+id.String(), nil, nil, &network); err != nil {
		return "", fmt.Errorf("failed to get network %s: %w", id, err)
	}

	return network.Name, nil
}

// SearchVMs returns the IDs of the VMs found by a query in the engine's search language. For an invalid query, the
// engine finds no VMs.
func (c *Client) SearchVMs(ctx context.Context, query string) (map[ID]bool, error) {
	var list struct {
		XMLName xml.Name `xml:"vms"`
		Items   []struct {
			ID ID `xml:"id,attr"`
		} `xml:"vm"`
	}
	if err := c.callEngine(
		ctx, http.MethodGet, "/vms", url.Values{"search": {bypassCache(query)}}, nil, &list,
	); err != nil {
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

// ListDescribedHosts lists all hosts of the engine by ID.
func (c *Client) ListDescribedHosts(ctx context.Context) (map[ID]DescribedHost, error) {
	var list struct {
		XMLName xml.Name        `xml:"hosts"`
		Items   []DescribedHost `xml:"host"`
	}
	query := url.Values{"follow": {"tags,affinity_labels"}}
	if err := c.callEngine(ctx, http.MethodGet, "/hosts", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list hosts with their labels: %w", err)
	}

	out := map[ID]DescribedHost{}
	for _, host := range list.Items {
		out[host.ID] = host
	}

	return out, nil
}
