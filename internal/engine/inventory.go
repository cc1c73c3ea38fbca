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
	Name    string          `xml:"name"`
	Profile *NetworkProfile `xml:"vnic_profile"`
}

// NetworkProfile is a vNIC profile with its network; nil if it has none.
type NetworkProfile struct {
	ID      ID           `xml:"id,attr"`
	Network *NetworkName `xml:"network"`
}

// NetworkName is a network with its name. The engine omits the name if the answer has it elsewhere.
type NetworkName struct {
	ID   ID     `xml:"id,attr"`
	Name string `xml:"name"`
}

// Network is the name of the network; empty where the interface is connected to none.
func (n DescribedNIC) Network() string {
	if n.Profile == nil || n.Profile.Network == nil {
		return ""
	}

	return n.Profile.Network.Name
}

// TaggedVMs lists the VMs that carry a tag themselves. Their user data is left out, and so are, by the engine, the
// descriptions of their tags, which Tags has.
func (c *Client) TaggedVMs(ctx context.Context, tag string) ([]DescribedVM, error) {
	var list struct {
		XMLName xml.Name      `xml:"vms"`
		Items   []DescribedVM `xml:"vm"`
	}
	query := url.Values{
		"search": {uncached("tag=" + strings.ReplaceAll(tag, `"`, ""))},
		// Not host: the engine fails as soon as one VM has none.
		"follow": {"tags,affinity_labels,nics.vnic_profile.network,template"},
	}
	if err := c.do(ctx, http.MethodGet, "/vms", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the VMs with the tag %q: %w", tag, err)
	}

	if err := c.nameNetworks(ctx, list.Items); err != nil {
		return nil, err
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

// uncached returns a search whose answer an engine does not remember. An engine that is asked for a tag before the tag
// exists otherwise finds nothing by the same text for a day (recording tag-searches). A search that sorts or pages
// stays as it is, because a condition cannot follow that.
func uncached(search string) string {
	for word := range strings.FieldsSeq(strings.ToLower(search)) {
		if word == "sortby" || word == "page" {
			return search
		}
	}

	return search + " and name=*"
}

// nameNetworks sets the names of networks to which an answer refers without them. The engine expands a followed object
// once in each answer (recording follow-once).
func (c *Client) nameNetworks(ctx context.Context, vms []DescribedVM) error {
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
			found, err := c.networkName(ctx, network.ID)
			if err != nil {
				return err
			}

			names[network.ID] = found
		}

		network.Name = names[network.ID]
	}

	return nil
}

// networkName fetches the name of a network.
func (c *Client) networkName(ctx context.Context, id ID) (string, error) {
	var network NetworkName
	if err := c.do(ctx, http.MethodGet, "/networks/"+id.String(), nil, nil, &network); err != nil {
		return "", fmt.Errorf("failed to get network %s: %w", id, err)
	}

	return network.Name, nil
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
	if err := c.do(ctx, http.MethodGet, "/vms", url.Values{"search": {uncached(query)}}, nil, &list); err != nil {
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
