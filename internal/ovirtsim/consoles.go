package ovirtsim

import (
	"fmt"
	"slices"
)

// This file has the graphics consoles of VMs and templates, and the drive for CDs.

// consoleIDs are the protocols in hexadecimal, as the engine has it.
var consoleIDs = map[string]string{"vnc": "766e63", "spice": "7370696365"}

// consoleDocument shows a console. Where to reach it is told only to who asks for the current run.
func consoleDocument(c *call, owner, ownerID string, g graphicsConsole) *element {
	out := object("graphics_console", g.ID, owner+"s", ownerID, "graphicsconsoles", g.ID).str("protocol", g.Protocol)
	if v := c.store.vms.get(ownerID); v != nil && c.flagParam("current") {
		if h := c.store.hosts.get(v.Host); h != nil {
			out.str("address", h.Address).num("port", 5900)
		}
	}
	return out.add(ref(owner, owner+"s", ownerID))
}

func consolesDocument(c *call, owner, ownerID string, consoles []graphicsConsole) *element {
	out := el("graphics_consoles")
	for _, g := range consoles {
		out.items(consoleDocument(c, owner, ownerID, g))
	}
	return out
}

func listConsoles(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return consolesDocument(c, "vm", v.ID, v.Consoles), nil
}

func listTemplateConsoles(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	return consolesDocument(c, "template", t.ID, t.Consoles), nil
}

func (c *call) console() (*vm, int, error) {
	v, err := c.vm()
	if err != nil {
		return nil, 0, err
	}
	known := false
	for _, id := range consoleIDs {
		known = known || id == c.id("id")
	}
	if !known { // the engine takes it for a protocol, and fails
		return nil, 0, brokenPage()
	}
	at := slices.IndexFunc(v.Consoles, func(g graphicsConsole) bool { return g.ID == c.id("id") })
	if at < 0 {
		return nil, 0, gone()
	}
	return v, at, nil
}

func getConsole(c *call) (*element, error) {
	v, at, err := c.console()
	if err != nil {
		return nil, err
	}
	return consoleDocument(c, "vm", v.ID, v.Consoles[at]), nil
}

func addConsole(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	protocol := c.body.value("protocol")
	if protocol == "" {
		return nil, incomplete("GraphicsConsole", "protocol")
	}
	if slices.ContainsFunc(v.Consoles, func(g graphicsConsole) bool { return g.Protocol == protocol }) {
		return nil, conflict("Cannot add Graphics Device. The VM already has a graphics device of this type.")
	}
	v.Consoles = append(v.Consoles, graphicsConsole{consoleIDs[protocol], protocol})
	c.store.vms.put(v.ID, v)
	return c.created(consoleDocument(c, "vm", v.ID, v.Consoles[len(v.Consoles)-1])), nil
}

// ofConsole is an action of a console that there must be.
func ofConsole(action operation) operation {
	return func(c *call) (*element, error) {
		if _, _, err := c.console(); err != nil {
			return nil, err
		}
		return action(c)
	}
}

// viewerFile is what a person opens with a remote viewer. Nobody listens there.
func viewerFile(c *call) (*element, error) {
	v, at, err := c.console()
	if err != nil {
		return nil, err
	}
	h := c.store.hosts.get(v.Host)
	if h == nil {
		return nil, inStatus(v, "connect to VM")
	}
	content := fmt.Sprintf("[virt-viewer]\ntype=%s\nhost=%s\nport=5900\npassword=%s\ntitle=%s:%%d\n", v.Consoles[at].Protocol, h.Address, randomHex(6), v.Name)
	return c.complete(leaf("remote_viewer_connection_file", content)), nil
}

func removeConsole(c *call) (*element, error) {
	v, at, err := c.console()
	if err != nil {
		return nil, err
	}
	v.Consoles = slices.Delete(slices.Clone(v.Consoles), at, at+1)
	c.store.vms.put(v.ID, v)
	return c.complete(), nil
}

// cdrom is the one drive that a VM or template has. Its ID is the zero UUID.
func cdrom(owner, ownerID string) *element {
	return object("cdrom", blankTemplateID, owner+"s", ownerID, "cdroms", blankTemplateID).add(ref(owner, owner+"s", ownerID))
}

func listCDROMs(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return el("cdroms").items(vmCDROM(v)), nil
}

func getCDROM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	return vmCDROM(v), nil
}

// changeCDROM puts an image in, or takes it out. The words of its refusal are not recorded.
func changeCDROM(c *call) (*element, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	wanted := refID(c.body.get("file"))
	if d := c.store.disks.get(wanted); wanted != "" && !c.flagParam("current") && (d == nil || d.ContentType != "iso") {
		return nil, invalid("Cannot edit VM. The ISO image does not exist.")
	}
	v.CDROM = wanted
	c.store.vms.put(v.ID, v)
	return vmCDROM(v), nil
}

// vmCDROM is the drive of a VM with what is in it.
func vmCDROM(v *vm) *element {
	out := cdrom("vm", v.ID)
	if v.CDROM != "" {
		out.add(el("file").set("id", v.CDROM))
	}
	return out
}

func listTemplateCDROMs(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	return el("cdroms").items(cdrom("template", t.ID)), nil
}
