package ovirtsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// This file has templates and their versions.

func templateDocument(c *call, t *template) *element {
	full := c.allContent()
	out := object("template", t.ID, "templates", t.ID).str("name", t.Name).str("description", t.Description).str("comment", t.Comment)
	architecture := "x86_64"
	if t.ID == blankTemplateID {
		architecture = "undefined"
	}
	t.describe(out, architecture, full)
	if t.ID != blankTemplateID && !out.has("bios", "type") {
		out.put(defaultBios, "bios", "type")
	}
	if len(t.Consoles) > 0 {
		out.put(t.Consoles[0].Protocol, "display", "type")
	}
	large, small := c.icons(strings.SplitN(t.OSType, "_", 2)[0])
	out.str("creation_time", stamp(t.Created)).add(large, small).str("status", t.Status)
	if t.Cluster != "" {
		out.add(ref("cluster", "clusters", t.Cluster), ref("cpu_profile", "cpuprofiles", c.store.cpuProfileID(t.Cluster))).
			add(el("quota").set("id", c.store.quotaID(t.Cluster)))
	}
	out.add(shownInitialization(t.Initialization))
	number := t.Version
	if t.ID == blankTemplateID {
		number = 0
	}
	return out.add(el("version").str("version_name", t.VersionName).num("version_number", number).add(ref("base_template", "templates", t.Base)))
}

func templateKey(t *template) string { return fmt.Sprintf("%s %06d", t.Name, t.Version) }

func listTemplates(c *call) (*element, error) {
	of := fields[*template]{
		"name": val(func(t *template) string { return t.Name }), "id": val(func(t *template) string { return t.ID }), "status": val(func(t *template) string { return t.Status }),
		"description": val(func(t *template) string { return t.Description }), "comment": val(func(t *template) string { return t.Comment }),
		"cluster": val(func(t *template) string { return c.store.clusterName(t.Cluster) }), "os": val(func(t *template) string { return t.OSType }),
		"datacenter":     val(func(t *template) string { return c.store.dataCenterName(t.DataCenter) }),
		"version_name":   val(func(t *template) string { return t.VersionName }),
		"version_number": val(func(t *template) string { return strconv.FormatInt(t.Version, 10) }),
		"vm.name": func(t *template) []string {
			var names []string
			for _, v := range c.store.vms.rows {
				if v.Original == t.ID {
					names = append(names, v.Name)
				}
			}
			return names
		},
	}
	return collect(c, "templates", c.store.templates.where(nil, templateKey), of, templateDocument)
}

func (c *call) template() (*template, error) {
	return one(c.store.templates, c.id("template"))
}

func getTemplate(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	return templateDocument(c, t), nil
}

func listTemplateNICs(c *call) (*element, error) {
	return nicsOf(c, c.id("template"), "template"), nil
}

func getTemplateNIC(c *call) (*element, error) {
	n := c.store.nics.get(c.id("id"))
	if n == nil || n.Owner != c.id("template") {
		return nil, gone()
	}
	return nicDocument(c, n, "template"), nil
}

func listTemplateAttachments(c *call) (*element, error) {
	return attachmentsDocument(c, c.id("template"), "template"), nil
}

func getTemplateAttachment(c *call) (*element, error) {
	a, err := one(c.store.attachments, c.id("template")+"/"+c.id("id"))
	if err != nil {
		return nil, err
	}
	return attachmentDocument(a, "template"), nil
}

// checkTemplateName refuses names that no template may have.
func checkTemplateName(name string) error {
	switch {
	case utf8.RuneCountInString(name) > 255:
		return invalid("VM Template name must not exceed 255 characters, Attribute: name")
	case !plainName(name):
		return invalid("Can not add Template. The given name contains special characters. Only lower-case and upper-case letters, numbers, '_', '-', '.' are allowed., Attribute: name")
	}
	return nil
}

// addTemplate copies a VM that is down, which is locked for the time.
func addTemplate(c *call) (*element, error) {
	in := c.body
	if err := mandatory(in, "template", "name"); err != nil {
		return nil, err
	}
	if err := require(in, "Template", "name", "vm.id|name"); err != nil {
		return nil, err
	}
	if err := checkRef(in.get("vm")); err != nil {
		return nil, err
	}
	v := referred(c.store.vms, in.get("vm"), func(v *vm) string { return v.Name })
	if v == nil {
		return nil, entityNotFound("GetVmByVmId")
	}
	if err := checkTemplateName(in.value("name")); err != nil {
		return nil, err
	}
	made := c.templateOf(v, in)
	if err := c.versionOf(made, in); err != nil {
		return nil, err
	}
	switch {
	case v.Status == statusImageLocked:
		return nil, conflict("Cannot add Template: VM is locked. Please try again in a few minutes.")
	case v.running():
		return nil, conflict("Cannot add Template. VM is not down.")
	}
	var origins []*disk
	for _, a := range c.store.attachmentsOf(v.ID) {
		origin := c.store.disks.get(a.Disk)
		if origin.Status != statusOK {
			return nil, conflict("Cannot add Template: The following disks are locked: %s. Please try again in a few minutes.", origin.Name)
		}
		origins = append(origins, origin)
	}
	if err := c.room(origins); err != nil {
		return nil, err
	}
	c.copyInto(made, v)
	wait := 2 * c.settings.Timings.Clone
	v.Status = statusImageLocked
	c.arrange(v, statusDown, wait)
	c.arrangeTemplate(made, statusOK, wait)
	c.work("Creating Template "+made.Name+" from VM "+v.Name, made.ID)
	return c.created(templateDocument(c, made)), nil
}

// templateOf is a new template with what its VM gives it; it is not stored yet.
func (c *call) templateOf(v *vm, in *element) *template {
	made := &template{
		hardware: v.copyOf(), ID: newID(), Name: in.value("name"), Description: in.value("description"), Comment: textOr(in, "comment", v.Comment),
		Cluster: v.Cluster, DataCenter: c.store.dataCenterOf(v.Cluster), Status: statusLocked, Version: 1, VersionName: orElse(in.value("version", "version_name"), baseVersion),
		Created: time.Now(), Consoles: slices.Clone(v.Consoles), Initialization: v.Initialization.clone(), Kubernetes: v.Kubernetes, Ignition: v.Ignition,
	}
	made.Base = made.ID
	return made
}

// baseVersion is what the first version of a template is called.
const baseVersion = "base version"

// versionOf makes a template a version of another one, or checks that its name is free.
func (c *call) versionOf(made *template, in *element) error {
	base := refID(in.get("version", "base_template"))
	if base != "" && c.store.templates.get(base) == nil {
		return invalid("Cannot add Template. The relevant Template doesn't exist.")
	}
	for _, other := range c.store.templates.rows {
		switch {
		case base != "" && other.Base == base:
			made.Base, made.Name, made.Version = base, other.Name, max(made.Version, other.Version+1)
		case base == "" && other.Name == made.Name && other.DataCenter == made.DataCenter:
			return conflict("Cannot add Template. The Template name is already in use, please choose a unique name and try again.")
		}
	}
	return nil
}

// copyInto gives a template copies of the disks and network interfaces of its VM.
func (c *call) copyInto(made *template, v *vm) {
	for _, a := range c.store.attachmentsOf(v.ID) {
		copied := *c.store.disks.get(a.Disk)
		copied.ID, copied.Parent, copied.Status = newID(), "", statusLocked
		c.store.disks.put(copied.ID, &copied)
		c.store.attachments.put(made.ID+"/"+copied.ID, &attachment{Owner: made.ID, Disk: copied.ID, Interface: a.Interface, Bootable: a.Bootable, Active: true})
	}
	for _, n := range c.store.nicsOf(v.ID) {
		copied := *n
		copied.ID, copied.Owner, copied.MAC = newID(), made.ID, ""
		c.store.nics.put(copied.ID, &copied)
	}
}

func (s *Engine) arrangeTemplate(t *template, status string, in time.Duration) {
	t.Status, t.Until = statusLocked, transition{Status: status, At: time.Now().Add(in)}
	s.store.templates.put(t.ID, t)
	s.wakeTemplate(t)
}

func (s *Engine) wakeTemplate(t *template) {
	due := t.Until
	s.at(due.At, func() {
		if s.store.templates.get(t.ID) != t || t.Until != due {
			return
		}
		if due.Status == statusRemoved {
			s.dropTemplate(t)
		} else {
			t.Status, t.Until = due.Status, transition{}
			s.store.templates.put(t.ID, t)
			for _, a := range s.store.attachmentsOf(t.ID) {
				d := s.store.disks.get(a.Disk)
				d.Status = statusOK
				s.store.disks.put(d.ID, d)
			}
		}
		s.finish(t.ID)
	})
}

func (s *Engine) dropTemplate(t *template) {
	for _, a := range s.store.attachmentsOf(t.ID) {
		s.dropDisk(s.store.disks.get(a.Disk))
	}
	for _, n := range s.store.nicsOf(t.ID) {
		s.store.nics.drop(n.ID)
	}
	s.store.templates.drop(t.ID)
}

func updateTemplate(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	if t.Status != statusOK {
		return nil, conflict("Cannot edit Template. Template ${TemplateName} is being created.")
	}
	next := *t
	next.hardware = t.copyOf()
	next.Name, next.Description, next.Comment = textOr(c.body, "name", t.Name), textOr(c.body, "description", t.Description), textOr(c.body, "comment", t.Comment)
	if err := checkTemplateName(next.Name); err != nil {
		return nil, err
	}
	for _, other := range c.store.templates.rows {
		if other.Base != t.Base && other.Name == next.Name && other.DataCenter == t.DataCenter {
			return nil, conflict("Cannot edit Template. The Template name is already in use, please choose a unique name and try again.")
		}
	}
	fail := commandOn("edit Template")
	if err := c.changeHardware(&next.hardware, c.body, false, nil, fail); err != nil {
		return nil, err
	}
	if next.Initialization, err = layInitialization(t.Initialization, c.body.get("initialization"), fail); err != nil {
		return nil, err
	}
	*t = next
	c.store.templates.put(t.ID, t)
	return templateDocument(c, t), nil
}

// removeTemplate is refused while VMs depend on the template, and while disks of VMs that are gone are still removed.
func removeTemplate(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	const command = "Cannot remove Template. "
	versions := c.store.templates.where(func(o *template) bool { return o.Base == t.ID && o.ID != t.ID }, templateKey)
	switch {
	case t.NotDeletable:
		return nil, invalid("%s", command+"The relevant Cluster doesn't exist.")
	case t.Status == statusLocked:
		return nil, conflict("%s", command+"Template ${TemplateName} is being created.")
	case len(versions) > 0:
		return nil, conflict("%s", command+"The template has the following versions: "+joinSome(names(versions))+". Please remove them first.")
	}
	var users []string
	for _, v := range c.store.vms.where(func(v *vm) bool { return v.Template == t.ID }, vmKey) {
		if v.Status == statusImageLocked {
			return nil, conflict("%s", command+"This template is currently in use to create VM "+v.Name+".")
		}
		users = append(users, v.Name)
	}
	if len(users) > 0 {
		return nil, conflict("%s", command+"The following VMs depend on it: "+joinSome(users)+".")
	}
	if based := c.disksBasedOn(t); len(based) > 0 {
		return nil, conflict("%s", command+"The following Disk(s) are based on it: "+strings.Join(based, ", ")+".")
	}
	c.work("Removing Template "+t.Name, t.ID)
	if wait := c.settings.Timings.Remove; wait > 0 {
		c.arrangeTemplate(t, statusRemoved, wait)
	} else {
		c.dropTemplate(t)
		c.finish(t.ID)
	}
	return c.complete(), nil
}

// disksBasedOn are the disks that depend on those of a template, as the engine names them.
func (c *call) disksBasedOn(t *template) []string {
	var out []string
	for _, a := range c.store.attachmentsOf(t.ID) {
		for _, d := range c.store.disks.where(func(d *disk) bool { return d.Parent == a.Disk }, func(d *disk) string { return d.Name + d.ID }) {
			out = append(out, d.Name+"(Disk ID: "+d.ID+")")
		}
	}
	return out
}

func names(templates []*template) []string {
	var out []string
	for _, t := range templates {
		out = append(out, t.Name)
	}
	return out
}

func joinSome(names []string) string {
	const shown = 10
	if len(names) > shown {
		names = append(slices.Clone(names[:shown]), "...")
	}
	return strings.Join(names, ", ")
}
