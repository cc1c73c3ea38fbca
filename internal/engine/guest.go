package engine

import (
	"context"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
)

// ReportedDevice is a device reported by the guest agent.
type ReportedDevice struct {
	Name string `xml:"name"`
	Type string `xml:"type"`
	IPs  struct {
		Items []IP `xml:"ip"`
	} `xml:"ips"`
}

// GuestInterface is a network interface of the guest with its reachable addresses.
type GuestInterface struct {
	// Name in the guest, such as enp1s0.
	Name string
	// IPv4 and IPv6 are the addresses, in the order of the guest's report.
	IPv4, IPv6 []netip.Addr
}

// dummyInterface matches interfaces without a network.
var dummyInterface = regexp.MustCompile(`^(lo|dummy\d+)$`)

// ListGuestInterfaces lists the guest's network interfaces with addresses, except loopback and link-local ones. The
// list is empty until the guest agent reports.
func (c *Client) ListGuestInterfaces(ctx context.Context, vmID ID) ([]GuestInterface, error) {
	var list struct {
		XMLName xml.Name         `xml:"reported_devices"`
		Items   []ReportedDevice `xml:"reported_device"`
	}
	if err := c.fetchInto(ctx, vmPath(vmID)+"/reporteddevices", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the addresses of VM %s: %w", vmID, err)
	}

	return filterGuestInterfaces(list.Items), nil
}

// ListAllGuestInterfaces returns the result of ListGuestInterfaces for every VM by ID, in one request.
func (c *Client) ListAllGuestInterfaces(ctx context.Context) (map[ID][]GuestInterface, error) {
	var list struct {
		XMLName xml.Name `xml:"vms"`
		Items   []struct {
			ID      ID               `xml:"id,attr"`
			Devices []ReportedDevice `xml:"reported_devices>reported_device"`
		} `xml:"vm"`
	}
	if err := c.callEngine(
		ctx, http.MethodGet, "/vms", url.Values{"follow": {"reported_devices"}}, nil, &list,
	); err != nil {
		return nil, fmt.Errorf("failed to list the addresses of VMs: %w", err)
	}

	out := map[ID][]GuestInterface{}
	for _, vm := range list.Items {
		out[vm.ID] = filterGuestInterfaces(vm.Devices)
	}

	return out, nil
}

func filterGuestInterfaces(devices []ReportedDevice) []GuestInterface {
	var out []GuestInterface

	for _, device := range devices {
		if device.Type != "network" || dummyInterface.MatchString(device.Name) {
			continue
		}

		found := GuestInterface{Name: device.Name}
		for _, ip := range device.IPs.Items {
			address, err := netip.ParseAddr(ip.Address)
			switch {
			case err != nil || address.Zone() != "" || !address.IsGlobalUnicast(): // a zone may contain any text
			case address.Unmap().Is4():
				found.IPv4 = append(found.IPv4, address.Unmap())
			default:
				found.IPv6 = append(found.IPv6, address)
			}
		}

		if len(found.IPv4)+len(found.IPv6) > 0 {
			out = append(out, found)
		}
	}

	return out
}

// ConsoleID is the ID of a graphics console within its VM. It is not a UUID, but the name of its protocol in
// hexadecimal.
type ConsoleID string

// UnmarshalXMLAttr decodes the ID in an answer.
func (id *ConsoleID) UnmarshalXMLAttr(attr xml.Attr) error {
	if _, err := hex.DecodeString(attr.Value); err != nil || attr.Value == "" {
		return fmt.Errorf("the engine names a console by an ID that is none: %q", abridgeText(attr.Value))
	}

	*id = ConsoleID(attr.Value)

	return nil
}

// ListGraphicsConsoles lists the IDs of the graphics consoles of a VM.
func (c *Client) ListGraphicsConsoles(ctx context.Context, vmID ID) ([]ConsoleID, error) {
	var list struct {
		XMLName xml.Name `xml:"graphics_consoles"`
		Items   []struct {
			ID ConsoleID `xml:"id,attr"`
		} `xml:"graphics_console"`
	}
	if err := c.fetchInto(ctx, vmPath(vmID)+"/graphicsconsoles", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the graphics consoles of VM %s: %w", vmID, err)
	}

	var ids []ConsoleID
	for _, console := range list.Items {
		ids = append(ids, console.ID)
	}

	return ids, nil
}

// FetchViewerFile returns the virt-viewer connection file for a graphics console of a running VM. The file contains a
// short-lived password. FetchViewerFile fails if the VM has no such console.
func (c *Client) FetchViewerFile(ctx context.Context, vmID ID) (string, error) {
	consoles, err := c.ListGraphicsConsoles(ctx, vmID)
	if err != nil {
		return "", err
	}

	if len(consoles) == 0 {
		return "", fmt.Errorf("VM %s has no graphics console", vmID)
	}

	var made struct {
		XMLName xml.Name `xml:"action"`
		File    string   `xml:"remote_viewer_connection_file"`
	}
	path := vmPath(vmID) + "/graphicsconsoles/" + string(consoles[0]) + "/remoteviewerconnectionfile"
	if err := c.callEngine(ctx, http.MethodPost, path, nil, action{}, &made); err != nil {
		return "", fmt.Errorf("failed to get the connection file of VM %s: %w", vmID, err)
	}

	return made.File, nil
}

// DeleteGraphicsConsole removes a graphics console from a VM.
func (c *Client) DeleteGraphicsConsole(ctx context.Context, vmID ID, id ConsoleID) error {
	err := c.callEngine(
		ctx, http.MethodDelete, vmPath(vmID)+"/graphicsconsoles/"+url.PathEscape(string(id)), nil, nil, nil,
	)
	if err != nil {
		return fmt.Errorf("failed to remove graphics console %s from VM %s: %w", id, vmID, err)
	}

	return nil
}

// AutoPinningOff is the automatic pinning policy of a VM if the engine does not pin its CPUs.
const AutoPinningOff = "disabled"

// OptimizeCPU lets the engine pin the VM's CPUs and NUMA nodes.
func (c *Client) OptimizeCPU(ctx context.Context, vmID ID) error {
	on := true
	return c.runAction(ctx, vmID, "autopincpuandnumanodes", action{OptimizeCPU: &on})
}

// StopOptimizingCPU disables the engine's pinning. On every engine, the action of OptimizeCPU can only enable it.
func (c *Client) StopOptimizingCPU(ctx context.Context, vmID ID) error {
	_, err := c.ChangeVM(ctx, vmID, &VM{AutoPinning: AutoPinningOff})
	return err
}
