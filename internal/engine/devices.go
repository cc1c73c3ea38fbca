package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// This file has the devices with API collections of their own: watchdogs, host devices, and mediated devices.

// Watchdog is the watchdog device of a VM. A VM has at most one.
type Watchdog struct {
	XMLName xml.Name `xml:"watchdog"`
	ID      ID       `xml:"id,attr,omitempty"`
	Model   string   `xml:"model,omitempty"`
	Action  string   `xml:"action,omitempty"`
}

func watchdogsPath(vmID ID) string { return vmPath(vmID) + "/watchdogs" }

// ListWatchdogs returns the watchdog of a VM, if it has one. For a deleted VM, an engine returns an empty list, too.
func (c *Client) ListWatchdogs(ctx context.Context, vmID ID) ([]Watchdog, error) {
	var list struct {
		XMLName xml.Name   `xml:"watchdogs"`
		Items   []Watchdog `xml:"watchdog"`
	}
	if err := c.fetchInto(ctx, watchdogsPath(vmID), nil, &list); err != nil {
		return nil, fmt.Errorf("failed to get the watchdog of VM %s: %w", vmID, err)
	}

	return list.Items, nil
}

// HasTemplateWatchdog reports whether a template gives its VMs a watchdog.
func (c *Client) HasTemplateWatchdog(ctx context.Context, templateID ID) (bool, error) {
	var list struct {
		XMLName xml.Name   `xml:"watchdogs"`
		Items   []Watchdog `xml:"watchdog"`
	}
	if err := c.fetchInto(ctx, templatePath(templateID)+"/watchdogs", nil, &list); err != nil {
		return false, fmt.Errorf("failed to get the watchdog of template %s: %w", templateID, err)
	}

	return len(list.Items) > 0, nil
}

// AddWatchdog adds a watchdog to a VM, and returns it.
func (c *Client) AddWatchdog(ctx context.Context, vmID ID, watchdog Watchdog) (*Watchdog, error) {
	var made Watchdog
	if err := c.callEngine(ctx, http.MethodPost, watchdogsPath(vmID), nil, watchdog, &made); err != nil {
		return nil, fmt.Errorf("failed to add a watchdog to VM %s: %w", vmID, err)
	}

	return &made, nil
}

// UpdateWatchdog changes the model and action of a watchdog.
func (c *Client) UpdateWatchdog(ctx context.Context, vmID ID, watchdog Watchdog) error {
	id := watchdog.ID
	watchdog.ID = ""

	if err := c.callEngine(
		ctx, http.MethodPut, watchdogsPath(vmID)+"/"+id.pathSegment(), nil, watchdog, nil,
	); err != nil {
		return fmt.Errorf("failed to update the watchdog of VM %s: %w", vmID, err)
	}

	return nil
}

// RemoveWatchdog removes the watchdog from a VM.
func (c *Client) RemoveWatchdog(ctx context.Context, vmID, id ID) error {
	if err := c.callEngine(
		ctx, http.MethodDelete, watchdogsPath(vmID)+"/"+id.pathSegment(), nil, nil, nil,
	); err != nil {
		return fmt.Errorf("failed to remove the watchdog of VM %s: %w", vmID, err)
	}

	return nil
}

// hostDevice is a device of a host. It is looked up by name, because its ID is its name in hexadecimal, not a UUID.
type hostDevice struct {
	XMLName xml.Name `xml:"host_device"`
	Name    string   `xml:"name"`
}

func (c *Client) listDeviceNames(ctx context.Context, path string) ([]string, error) {
	var list struct {
		XMLName xml.Name     `xml:"host_devices"`
		Items   []hostDevice `xml:"host_device"`
	}
	if err := c.fetchInto(ctx, path, nil, &list); err != nil {
		return nil, err
	}

	var out []string
	for _, device := range list.Items {
		out = append(out, device.Name)
	}

	return out, nil
}

// ListHostDevices returns the names of a host's devices.
func (c *Client) ListHostDevices(ctx context.Context, hostID ID) ([]string, error) {
	names, err := c.listDeviceNames(ctx, "/hosts/"+hostID.pathSegment()+"/devices")
	if err != nil {
		return nil, fmt.Errorf("failed to list the devices of host %s: %w", hostID, err)
	}

	return names, nil
}

// ListVMHostDevices returns the names of the host devices of a VM.
func (c *Client) ListVMHostDevices(ctx context.Context, vmID ID) ([]string, error) {
	names, err := c.listDeviceNames(ctx, vmPath(vmID)+"/hostdevices")
	if err != nil {
		return nil, fmt.Errorf("failed to list the host devices of VM %s: %w", vmID, err)
	}

	return names, nil
}

// AddHostDevice adds a host device to a VM pinned to the host.
func (c *Client) AddHostDevice(ctx context.Context, vmID ID, name string) error {
	err := c.callEngine(ctx, http.MethodPost, vmPath(vmID)+"/hostdevices", nil, hostDevice{Name: name}, nil)
	if err != nil {
		return fmt.Errorf("failed to give host device %s to VM %s: %w", name, vmID, err)
	}

	return nil
}

// RemoveHostDevice removes a host device from a VM.
func (c *Client) RemoveHostDevice(ctx context.Context, vmID ID, name string) error {
	path := vmPath(vmID) + "/hostdevices/" + url.PathEscape(fmt.Sprintf("%x", name))
	if err := c.callEngine(ctx, http.MethodDelete, path, nil, nil, nil); err != nil {
		return fmt.Errorf("failed to take host device %s from VM %s: %w", name, vmID, err)
	}

	return nil
}

// MediatedDevice is a mediated device of a VM, such as a virtual GPU.
type MediatedDevice struct {
	XMLName    xml.Name   `xml:"vm_mediated_device"`
	ID         ID         `xml:"id,attr,omitempty"`
	Parameters []Property `xml:"spec_params>property"`
}

// mediatedType is the name of the parameter with the type of a mediated device.
const mediatedType = "mdevType"

// Type returns the type of the device, such as nvidia-63.
func (d *MediatedDevice) Type() string {
	at := slices.IndexFunc(d.Parameters, func(p Property) bool { return p.Name == mediatedType })
	if at < 0 {
		return ""
	}

	return d.Parameters[at].Value
}

func mediatedPath(vmID ID) string { return vmPath(vmID) + "/mediateddevices" }

// ListMediatedDevices returns the mediated devices of a VM.
func (c *Client) ListMediatedDevices(ctx context.Context, vmID ID) ([]MediatedDevice, error) {
	var list struct {
		XMLName xml.Name         `xml:"vm_mediated_devices"`
		Items   []MediatedDevice `xml:"vm_mediated_device"`
	}
	if err := c.fetchInto(ctx, mediatedPath(vmID), nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the mediated devices of VM %s: %w", vmID, err)
	}

	return list.Items, nil
}

// AddMediatedDevice adds a mediated device of a type to a VM, and returns it.
func (c *Client) AddMediatedDevice(ctx context.Context, vmID ID, kind string) (*MediatedDevice, error) {
	var made MediatedDevice
	wanted := MediatedDevice{Parameters: []Property{{Name: mediatedType, Value: kind}}}
	if err := c.callEngine(ctx, http.MethodPost, mediatedPath(vmID), nil, wanted, &made); err != nil {
		return nil, fmt.Errorf("failed to give mediated device %s to VM %s: %w", kind, vmID, err)
	}

	return &made, nil
}

// RemoveMediatedDevice removes a mediated device from a VM.
func (c *Client) RemoveMediatedDevice(ctx context.Context, vmID, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, mediatedPath(vmID)+"/"+id.pathSegment(), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to take mediated device %s from VM %s: %w", id, vmID, err)
	}

	return nil
}
