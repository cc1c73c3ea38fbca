package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var consoleRoutes = []route{
	{"GET", "/templates/{template}/cdroms", listTemplateCDROMs},
	{"GET", "/templates/{template}/graphicsconsoles", listTemplateConsoles},
	{"GET", "/vms/{vm}/cdroms", listCDROMs},
	{"GET", "/vms/{vm}/cdroms/{id}", getCDROM},
	{"PUT", "/vms/{vm}/cdroms/{id}", changeCDROM},
	{"GET", "/vms/{vm}/graphicsconsoles", listConsoles},
	{"POST", "/vms/{vm}/graphicsconsoles", addConsole},
	{"GET", "/vms/{vm}/graphicsconsoles/{id}", getConsole},
	{"DELETE", "/vms/{vm}/graphicsconsoles/{id}", removeConsole},
	{"POST", "/vms/{vm}/graphicsconsoles/{id}/remoteviewerconnectionfile", requireConsole(viewerFile)},
	{"POST", "/vms/{vm}/graphicsconsoles/{id}/ticket", requireConsole(ticketVM)},
}

// consoleDocument shows a console. It includes the address only for requests with the parameter current.
func consoleDocument(c *call, owner, ownerID string, g store.GraphicsConsole) *wire.Element {
	out := wire.NewObject("graphics_console", g.ID, owner+"s", ownerID, "graphicsconsoles", g.ID).
		Str("protocol", g.Protocol)
	if v := c.store.VMs.Get(ownerID); v != nil && c.flagParam("current") {
		if h := c.store.Hosts.Get(v.Host); h != nil {
			out.Str("address", h.Address).Num("port", 5900)
		}
	}

	return out.Add(wire.Ref(owner, owner+"s", ownerID))
}

func consolesDocument(c *call, owner, ownerID string, consoles []store.GraphicsConsole) *wire.Element {
	out := wire.El("graphics_consoles")
	for _, g := range consoles {
		out.AddItems(consoleDocument(c, owner, ownerID, g))
	}

	return out
}

func listConsoles(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	return consolesDocument(c, "vm", v.ID, v.Consoles), nil
}

func listTemplateConsoles(c *call) (*wire.Element, error) {
	t, err := c.findTemplate()
	if err != nil {
		return nil, err
	}

	return consolesDocument(c, "template", t.ID, t.Consoles), nil
}

func (c *call) findConsole() (*store.VM, int, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, 0, err
	}

	known := false
	for _, id := range store.ConsoleIDs {
		known = known || id == c.pathID("id")
	}

	if !known { // the engine takes the ID for a protocol, and fails
		return nil, 0, wire.BrokenPage()
	}

	at := slices.IndexFunc(v.Consoles, func(g store.GraphicsConsole) bool { return g.ID == c.pathID("id") })
	if at < 0 {
		return nil, 0, wire.NotFound()
	}

	return v, at, nil
}

func getConsole(c *call) (*wire.Element, error) {
	v, at, err := c.findConsole()
	if err != nil {
		return nil, err
	}

	return consoleDocument(c, "vm", v.ID, v.Consoles[at]), nil
}

// addConsole adds a console. The texts of its refusals are from the engine's sources. In these texts, the command has
// no words for its action and its object.
func addConsole(c *call) (*wire.Element, error) {
	if err := requireParameter(c.body, "console", "protocol"); err != nil {
		return nil, err
	}

	v := c.store.VMs.Get(c.pathID("vm"))
	if v == nil {
		return nil, wire.Invalid("Cannot ${action} ${type}. VM is not found.")
	}

	protocol := c.body.Value("protocol")
	if slices.ContainsFunc(v.Consoles, func(g store.GraphicsConsole) bool { return g.Protocol == protocol }) {
		return nil, wire.Invalid("Cannot ${action} ${type}. One VM can not contain more than one device with the " +
			"same " +
			"graphics type.")
	}

	v.Consoles = append(v.Consoles, store.GraphicsConsole{ID: store.ConsoleIDs[protocol], Protocol: protocol})
	c.store.VMs.Put(v.ID, v)

	return c.answerCreated(consoleDocument(c, "vm", v.ID, v.Consoles[len(v.Consoles)-1])), nil
}

// requireConsole wraps an action that requires an existing console.
func requireConsole(action operation) operation {
	return func(c *call) (*wire.Element, error) {
		if _, _, err := c.findConsole(); err != nil {
			return nil, err
		}

		return action(c)
	}
}

// viewerFile returns a connection file for a remote viewer. No server listens at the address in the file.
func viewerFile(c *call) (*wire.Element, error) {
	v, at, err := c.findConsole()
	if err != nil {
		return nil, err
	}

	h := c.store.Hosts.Get(v.Host)
	if h == nil {
		return nil, inStatus(v, "connect to VM")
	}

	content := fmt.Sprintf("[virt-viewer]\ntype=%s\nhost=%s\nport=5900\npassword=%s\ntitle=%s:%%d\n",
		v.Consoles[at].Protocol, h.Address, wire.RandomHex(6), v.Name)

	return c.answerComplete(wire.NewLeaf("remote_viewer_connection_file", content)), nil
}

func removeConsole(c *call) (*wire.Element, error) {
	v, at, err := c.findConsole()
	if err != nil {
		return nil, err
	}

	v.Consoles = slices.Delete(slices.Clone(v.Consoles), at, at+1)
	c.store.VMs.Put(v.ID, v)

	return c.answerComplete(), nil
}

// cdromElement returns the only drive of a VM or template. Its ID is the zero UUID.
func cdromElement(owner, ownerID string) *wire.Element {
	return wire.NewObject("cdrom", store.BlankTemplateID, owner+"s", ownerID, "cdroms", store.BlankTemplateID).
		Add(wire.Ref(owner, owner+"s", ownerID))
}

func listCDROMs(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	return wire.El("cdroms").AddItems(vmCDROM(v)), nil
}

func getCDROM(c *call) (*wire.Element, error) {
	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	return vmCDROM(v), nil
}

// changeCDROM inserts or ejects an image. The texts of its refusals are from the engine's sources.
func changeCDROM(c *call) (*wire.Element, error) {
	if !c.body.Has("file") {
		return nil, incompleteErrorFor("update", "Cdrom", "file")
	}

	v, err := c.findVM()
	if err != nil {
		return nil, err
	}

	wanted := wire.RefID(c.body.Get("file"))
	d, current := c.store.Disks.Get(wanted), c.flagParam("current")

	switch {
	case current && !v.IsRunning():
		return nil, inStatus(v, "Change CD VM")
	case current && wanted != "" && uuid.Validate(wanted) != nil && !strings.HasSuffix(strings.ToLower(wanted), ".iso"):
		return nil, wire.Invalid("Cannot Change CD VM. Invalid CD image format.")
	case wanted != "" && !current && (d == nil || d.ContentType != "iso"):
		return nil, wire.Invalid("Invalid ISO image path")
	}

	v.CDROM = wanted
	c.store.VMs.Put(v.ID, v)

	return vmCDROM(v), nil
}

// vmCDROM returns the CD-ROM drive of a VM, with its contents.
func vmCDROM(v *store.VM) *wire.Element {
	out := cdromElement("vm", v.ID)
	if v.CDROM != "" {
		out.Add(wire.El("file").SetAttr("id", v.CDROM))
	}

	return out
}

func listTemplateCDROMs(c *call) (*wire.Element, error) {
	t, err := c.findTemplate()
	if err != nil {
		return nil, err
	}

	return wire.El("cdroms").AddItems(cdromElement("template", t.ID)), nil
}
