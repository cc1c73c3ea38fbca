package api

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains templates and their versions.

var templateRoutes = []route{
	{"GET", "/templates", listTemplates},
	{"POST", "/templates", addTemplate},
	{"GET", "/templates/{template}", getTemplate},
	{"PUT", "/templates/{template}", updateTemplate},
	{"DELETE", "/templates/{template}", removeTemplate},
	{"GET", "/templates/{template}/diskattachments", listTemplateAttachments},
	{"GET", "/templates/{template}/diskattachments/{id}", getTemplateAttachment},
	{"GET", "/templates/{template}/nics", listTemplateNICs},
	{"GET", "/templates/{template}/nics/{id}", getTemplateNIC},
	{"GET", "/templates/{template}/permissions", permissionsOf("template", "templates", "template")},
	{"GET", "/templates/{template}/watchdogs", listNothing("watchdogs")},
}

func templateDocument(c *call, t *store.Template) *wire.Element {
	full := c.allContent()
	out := wire.NewObject("template", t.ID, "templates", t.ID).Str("name", t.Name).Str("description", t.Description).
		Str("comment", t.Comment)
	architecture := "x86_64"
	if t.ID == store.BlankTemplateID {
		architecture = "undefined"
	}

	describeHardware(&t.Hardware, out, architecture, full)
	if t.ID != store.BlankTemplateID && !out.Has("bios", "type") {
		out.SetText(store.DefaultBios, "bios", "type")
	}

	if len(t.Consoles) > 0 {
		out.SetText(t.Consoles[0].Protocol, "display", "type")
	}

	large, small := c.iconRefs(strings.SplitN(t.OSType, "_", 2)[0])
	out.Str("creation_time", formatTime(t.Created)).Add(large, small).Str("status", t.Status)
	if t.Cluster != "" {
		out.Add(wire.Ref("cluster", "clusters", t.Cluster),
			wire.Ref("cpu_profile", "cpuprofiles", c.store.CPUProfileID(t.Cluster))).
			Add(wire.El("quota").SetAttr("id", c.store.QuotaID(t.Cluster)))
	}

	out.Add(shownInitialization(t.Initialization))
	number := t.Version
	if t.ID == store.BlankTemplateID {
		number = 0
	}

	return out.Add(
		wire.El("version").
			Str("version_name", t.VersionName).
			Num("version_number", number).
			Add(wire.Ref("base_template", "templates", t.Base)),
	)
}

func listTemplates(c *call) (*wire.Element, error) {
	of := fields[*store.Template]{
		"name":           singleValue(func(t *store.Template) string { return t.Name }),
		"id":             singleValue(func(t *store.Template) string { return t.ID }),
		"status":         singleValue(func(t *store.Template) string { return t.Status }),
		"description":    singleValue(func(t *store.Template) string { return t.Description }),
		"comment":        singleValue(func(t *store.Template) string { return t.Comment }),
		"cluster":        singleValue(func(t *store.Template) string { return c.store.ClusterName(t.Cluster) }),
		"os":             singleValue(func(t *store.Template) string { return t.OSType }),
		"datacenter":     singleValue(func(t *store.Template) string { return c.store.DataCenterName(t.DataCenter) }),
		"version_name":   singleValue(func(t *store.Template) string { return t.VersionName }),
		"version_number": singleValue(func(t *store.Template) string { return strconv.FormatInt(t.Version, 10) }),
		"vm.name": func(t *store.Template) []string {
			var names []string

			for _, v := range c.store.VMs.Rows {
				if v.Original == t.ID {
					names = append(names, v.Name)
				}
			}

			return names
		},
	}

	return answerList(c, "templates", c.store.Templates.Where(nil, store.TemplateKey), of, templateDocument)
}

func (c *call) findTemplate() (*store.Template, error) {
	return findRow(c.store.Templates, c.pathID("template"))
}

func getTemplate(c *call) (*wire.Element, error) {
	t, err := c.findTemplate()
	if err != nil {
		return nil, err
	}

	return templateDocument(c, t), nil
}

func listTemplateNICs(c *call) (*wire.Element, error) {
	return nicsOf(c, c.pathID("template"), "template"), nil
}

func getTemplateNIC(c *call) (*wire.Element, error) {
	n := c.store.NICs.Get(c.pathID("id"))
	if n == nil || n.Owner != c.pathID("template") {
		return nil, wire.NotFound()
	}

	return nicDocument(c, n, "template"), nil
}

func listTemplateAttachments(c *call) (*wire.Element, error) {
	return attachmentsDocument(c, c.pathID("template"), "template"), nil
}

func getTemplateAttachment(c *call) (*wire.Element, error) {
	a, err := findRow(c.store.Attachments, c.pathID("template")+"/"+c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return attachmentDocument(a, "template"), nil
}

// checkTemplateName rejects invalid names of templates.
func checkTemplateName(name string) error {
	switch {
	case utf8.RuneCountInString(name) > 255:
		return wire.Invalid("VM Template name must not exceed 255 characters, Attribute: name")
	case !store.IsPlainName(name):
		return wire.Invalid(
			"Can not add Template. The given name contains special characters. Only lower-case and upper-case " +
				"letters, numbers, '_', '-', '.' are allowed., Attribute: name",
		)
	}

	return nil
}

// addTemplate copies a stopped VM to a template, and locks the VM until the end. Refusals are in the order of the
// engine's AddVmTemplateCommand. The text about a VM that is not down is from the engine's sources.
func addTemplate(c *call) (*wire.Element, error) {
	in := c.body
	if !in.Has("name") || wire.RefID(in.Get("vm")) == "" && !in.Has("vm", "name") {
		return nil, invalidInput("No matching signature found, make sure that mandatory attributes are provided.")
	}

	if err := checkRef(in.Get("vm")); err != nil {
		return nil, err
	}

	v := findReferred(c.store.VMs, in.Get("vm"), func(v *store.VM) string { return v.Name })
	if v == nil {
		return nil, wire.EntityNotFound("GetVmByVmId")
	}

	if err := checkTemplateName(in.Value("name")); err != nil {
		return nil, err
	}

	if v.Status != store.StatusDown {
		return nil, wire.Conflict(
			"Cannot add Template. VM is locked or still running, try again once VM is in the Down state.")
	}

	made := c.newTemplateOf(v, in)
	if err := c.setVersion(made, in); err != nil {
		return nil, err
	}

	var origins []*store.Disk

	for _, a := range c.store.AttachmentsOf(v.ID) {
		origin := c.store.Disks.Get(a.Disk)
		if origin.Status != store.StatusOK {
			return nil, wire.Conflict(
				"Cannot add Template: The following disks are locked: %s. Please try again in a few minutes.",
				origin.Name,
			)
		}

		origins = append(origins, origin)
	}

	if err := c.checkTotalSpace(origins); err != nil {
		return nil, err
	}

	c.copyInto(made, v)
	wait := 2 * c.settings.Timings.Clone
	v.Status = store.StatusImageLocked
	c.scheduleVM(v, store.StatusDown, wait)
	c.scheduleTemplate(made, store.StatusOK, wait)
	c.recordJob("Creating Template "+made.Name+" from VM "+v.Name, made.ID)

	return c.answerCreated(templateDocument(c, made)), nil
}

// newTemplateOf returns a new template with the hardware of its VM, but does not store it.
func (c *call) newTemplateOf(v *store.VM, in *wire.Element) *store.Template {
	made := &store.Template{
		Hardware:       v.CopyOf(),
		ID:             store.NewID(),
		Name:           in.Value("name"),
		Description:    in.Value("description"),
		Comment:        textOr(in, "comment", v.Comment),
		Cluster:        v.Cluster,
		DataCenter:     c.store.DataCenterOf(v.Cluster),
		Status:         store.StatusLocked,
		Version:        1,
		VersionName:    cmp.Or(in.Value("version", "version_name"), store.BaseVersion),
		Created:        c.now(),
		Consoles:       slices.Clone(v.Consoles),
		Initialization: v.Initialization.Clone(),
		Kubernetes:     v.Kubernetes,
		Ignition:       v.Ignition,
		Image:          v.Image,
	}
	made.Base = made.ID

	return made
}

// setVersion makes a template a version of another template. Otherwise, it checks that the template's name is free.
func (c *call) setVersion(made *store.Template, in *wire.Element) error {
	base := wire.RefID(in.Get("version", "base_template"))
	if base != "" && c.store.Templates.Get(base) == nil {
		return wire.Invalid("Cannot add Template. The relevant Template doesn't exist.")
	}

	for _, other := range c.store.Templates.Rows {
		switch {
		case base != "" && other.Base == base:
			made.Base, made.Name, made.Version = base, other.Name, max(made.Version, other.Version+1)
		case base == "" && other.Name == made.Name && other.DataCenter == made.DataCenter:
			return wire.Conflict(
				"Cannot add Template. The Template name is already in use, please choose a unique name and try again.",
			)
		}
	}

	return nil
}

// copyInto copies the disks and network interfaces of a VM to a template.
func (c *call) copyInto(made *store.Template, v *store.VM) {
	for _, a := range c.store.AttachmentsOf(v.ID) {
		copied := *c.store.Disks.Get(a.Disk)
		copied.ID, copied.Parent, copied.Status = store.NewID(), "", store.StatusLocked
		c.store.Disks.Put(copied.ID, &copied)
		c.store.Attachments.Put(made.ID+"/"+copied.ID, &store.Attachment{
			Owner:     made.ID,
			Disk:      copied.ID,
			Interface: a.Interface,
			Bootable:  a.Bootable,
			Active:    true,
		})
	}

	for _, n := range c.store.NICsOf(v.ID) {
		copied := *n
		copied.ID, copied.Owner, copied.MAC = store.NewID(), made.ID, ""
		c.store.NICs.Put(copied.ID, &copied)
	}
}

func (s *Engine) scheduleTemplate(t *store.Template, status string, in time.Duration) {
	t.Status, t.Until = store.StatusLocked, store.Transition{Status: status, At: s.now().Add(in)}
	s.store.Templates.Put(t.ID, t)
	s.startTemplateTimer(t)
}

func (s *Engine) startTemplateTimer(t *store.Template) {
	due := t.Until
	s.scheduleChange(due.At, func() {
		if s.store.Templates.Get(t.ID) != t || t.Until != due {
			return
		}

		if due.Status == StatusRemoved {
			s.dropTemplate(t)
		} else {
			t.Status, t.Until = due.Status, store.Transition{}
			s.store.Templates.Put(t.ID, t)

			for _, a := range s.store.AttachmentsOf(t.ID) {
				d := s.store.Disks.Get(a.Disk)
				d.Status = store.StatusOK
				s.store.Disks.Put(d.ID, d)
			}
		}

		s.finishJobs(t.ID)
	})
}

func (s *Engine) dropTemplate(t *store.Template) {
	for _, a := range s.store.AttachmentsOf(t.ID) {
		s.dropDisk(s.store.Disks.Get(a.Disk))
	}

	for _, n := range s.store.NICsOf(t.ID) {
		s.store.NICs.Drop(n.ID)
	}

	s.store.Templates.Drop(t.ID)
}

func updateTemplate(c *call) (*wire.Element, error) {
	t, err := c.findTemplate()
	if err != nil {
		return nil, err
	}

	if t.Status != store.StatusOK {
		return nil, wire.Conflict("Cannot edit Template. Template ${TemplateName} is being created.")
	}

	next := *t
	next.Hardware = t.CopyOf()
	next.Name = textOr(c.body, "name", t.Name)
	next.Description = textOr(c.body, "description", t.Description)
	next.Comment = textOr(c.body, "comment", t.Comment)
	if err := checkTemplateName(next.Name); err != nil {
		return nil, err
	}

	for _, other := range c.store.Templates.Rows {
		if other.Base != t.Base && other.Name == next.Name && other.DataCenter == t.DataCenter {
			return nil, wire.Conflict(
				"Cannot edit Template. The Template name is already in use, please choose a unique name and try again.",
			)
		}
	}

	fail := commandOn("edit Template")
	if err := c.changeHardware(&next.Hardware, c.body, false, nil, fail); err != nil {
		return nil, err
	}

	if next.Initialization, err = mergeInitialization(
		t.Initialization, c.body.Get("initialization"), fail,
	); err != nil {
		return nil, err
	}

	*t = next
	c.store.Templates.Put(t.ID, t)

	return templateDocument(c, t), nil
}

// removeTemplate removes a template. The engine refuses this while VMs depend on the template, or while the removal of
// deleted VMs' disks continues. The order, the texts about VMs and disks, and the handling of versions follow the
// engine's RemoveVmTemplateCommand.
func removeTemplate(c *call) (*wire.Element, error) {
	t, err := c.findTemplate()
	if err != nil {
		return nil, err
	}

	const command = "Cannot remove Template. "

	switch {
	case t.NotDeletable:
		return nil, wire.Invalid("%s", command+"The relevant Cluster doesn't exist.")
	case t.Status == store.StatusLocked:
		return nil, wire.Conflict("%s", command+"Template ${TemplateName} is being created.")
	case t.DeleteProtected:
		return nil, wire.Conflict("%s", command+
			"Delete protection is enabled. In order to delete, disable Delete protection first.")
	}

	var users []string

	for _, v := range c.store.VMs.Where(func(v *store.VM) bool { return v.Template == t.ID }, store.VMKey) {
		if v.Status == store.StatusImageLocked {
			return nil, wire.Conflict("%s", command+"This template is currently in use to create VM "+v.Name+".")
		}

		users = append(users, v.Name)
	}

	if len(users) > 0 {
		return nil, wire.Conflict("Cannot delete Template. Template is being used by the following VMs: %s.",
			strings.Join(users, ","))
	}

	versions := c.store.Templates.Where(func(o *store.Template) bool { return o.Base == t.ID && o.ID != t.ID },
		store.TemplateKey)
	if len(versions) > 0 {
		return nil, wire.Conflict("%s", command+"It is the base of version "+versions[0].VersionName+".")
	}

	if based := c.disksBasedOn(t); len(based) > 0 {
		return nil, wire.Conflict("%s", command+"The following Disk(s) are based on it: \n "+
			strings.Join(based, "%n")+".")
	}

	c.recordJob("Removing Template "+t.Name, t.ID)
	if wait := c.settings.Timings.Remove; wait > 0 {
		c.scheduleTemplate(t, StatusRemoved, wait)
	} else {
		c.dropTemplate(t)
		c.finishJobs(t.ID)
	}

	return c.answerComplete(), nil
}

// disksBasedOn returns the disks that depend on a template's disks, in the notation of the engine's errors.
func (c *call) disksBasedOn(t *store.Template) []string {
	var out []string

	for _, a := range c.store.AttachmentsOf(t.ID) {
		for _, d := range c.store.Disks.Where(func(d *store.Disk) bool {
			return d.Parent == a.Disk
		}, func(d *store.Disk) string { return d.Name + d.ID }) {
			out = append(out, d.Name+"  ("+d.ID+") ")
		}
	}

	return out
}
