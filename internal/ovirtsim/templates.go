package ovirtsim

import (
	"fmt"
	"slices"
	"time"
)

func templateDocument(c *call, t *template) *element {
	out := object("template", t.ID, "templates", t.ID).links("diskattachments", "nics").str("name", t.Name).
		str("description", t.Description).str("comment", t.Comment).add(cpuElement("", t.CPU)).num("memory", t.Memory).
		add(el("memory_policy").flag("ballooning", true).num("guaranteed", t.Memory).num("max", 4*t.Memory)).add(el("os").str("type", t.OSType)).
		str("type", t.Type).str("status", t.Status).str("creation_time", stamp(t.Created)).flag("delete_protected", false).str("origin", "ovirt").
		add(el("version").num("version_number", t.Version).str("version_name", t.VersionName).add(ref("base_template", "templates", t.Base)))
	return out.add(ref("cluster", "clusters", t.Cluster))
}

func templateKey(t *template) string { return fmt.Sprintf("%s %06d", t.Name, t.Version) }

func listTemplates(c *call) (*element, error) {
	of := fields[*template]{
		"name": val(func(t *template) string { return t.Name }), "id": val(func(t *template) string { return t.ID }), "status": val(func(t *template) string { return t.Status }),
		"description": val(func(t *template) string { return t.Description }), "comment": val(func(t *template) string { return t.Comment }),
		"cluster": val(func(t *template) string { return c.store.clusterName(t.Cluster) }), "os": val(func(t *template) string { return t.OSType }),
		"datacenter":   val(func(t *template) string { return c.store.dataCenterName(t.DataCenter) }),
		"version_name": val(func(t *template) string { return t.VersionName }),
	}
	return collect(c, "templates", c.store.templates.where(nil, templateKey), of, templateDocument)
}

func (c *call) template() (*template, error) {
	return one(c.store.templates, "Template", c.id("template"))
}

func getTemplate(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	return templateDocument(c, t), nil
}

func listTemplateNICs(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	return nicsOf(c, t.ID, "template"), nil
}

func listTemplateAttachments(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	return attachmentsDocument(c, t.ID, "template"), nil
}

func getTemplateAttachment(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	a := c.store.attachments.get(t.ID + "/" + c.id("id"))
	if a == nil {
		return nil, notFound("DiskAttachment", c.id("id"))
	}
	return attachmentDocument(a, "template"), nil
}

// addTemplate copies a VM that is down, which is locked for the time.
func addTemplate(c *call) (*element, error) {
	in := c.body
	if err := require(in, "Template", "name", "vm.id|name"); err != nil {
		return nil, err
	}
	v := referred(c.store.vms, in.get("vm"), func(v *vm) string { return v.Name })
	switch {
	case v == nil:
		return nil, notFound("VM", refID(in.get("vm")))
	case v.Status == statusImageLocked:
		return nil, conflict("Cannot add Template: VM is locked. Please try again in a few minutes.")
	case v.Status != statusDown:
		return nil, conflict("Cannot add Template. VM is not down.")
	case !vmNamePattern.MatchString(in.value("name")):
		return nil, invalid("Cannot add Template. The given name contains special characters.")
	}
	made := &template{
		ID: newID(), Name: in.value("name"), Description: in.value("description"), Comment: in.value("comment"), Cluster: v.Cluster, DataCenter: c.store.dataCenterOf(v.Cluster), Status: statusLocked, Version: 1,
		VersionName: orElse(in.value("version", "version_name"), "base version"), OSType: v.OSType, Type: v.Type, Memory: v.Memory, CPU: v.CPU, Created: time.Now(),
	}
	made.Base = made.ID
	made.Kubernetes, made.Ignition = v.Kubernetes, v.Ignition
	base := refID(in.get("version", "base_template"))
	if base != "" && c.store.templates.get(base) == nil {
		return nil, notFound("Template", base)
	}
	for _, other := range c.store.templates.rows {
		switch {
		case base != "" && other.Base == base:
			made.Base, made.Name, made.Version = base, other.Name, max(made.Version, other.Version+1)
		case base == "" && other.Name == made.Name && other.DataCenter == made.DataCenter:
			return nil, conflict("Cannot add Template. The Template name is already in use, please choose a unique name and try again.")
		}
	}
	var copies []*disk
	for _, a := range c.store.attachmentsOf(v.ID) {
		origin := c.store.disks.get(a.Disk)
		if origin.Status != statusOK {
			return nil, conflict("Cannot add Template: The following disks are locked: %s. Please try again in a few minutes.", origin.Name)
		}
		copies = append(copies, origin)
	}
	if err := c.room(copies); err != nil {
		return nil, err
	}
	for i, a := range c.store.attachmentsOf(v.ID) {
		origin := c.store.disks.get(a.Disk)
		copied := *origin
		copied.ID, copied.Parent, copied.Name, copied.Status = newID(), "", fmt.Sprintf("%s_Disk%d", made.Name, i+1), statusLocked
		c.store.disks.put(copied.ID, &copied)
		c.store.attachments.put(made.ID+"/"+copied.ID, &attachment{Owner: made.ID, Disk: copied.ID, Interface: a.Interface, Bootable: a.Bootable, Active: true})
	}
	for _, n := range c.store.nicsOf(v.ID) {
		copied := *n
		copied.ID, copied.Owner, copied.MAC = newID(), made.ID, ""
		c.store.nics.put(copied.ID, &copied)
	}
	wait := 2 * c.options.Timings.Clone
	v.Status = statusImageLocked
	c.arrange(v, statusDown, wait)
	c.arrangeTemplate(made, statusOK, wait)
	c.work("Creating Template "+made.Name+" from VM "+v.Name, made.ID)
	c.created = true
	return templateDocument(c, made), nil
}

func (s *Server) arrangeTemplate(t *template, status string, in time.Duration) {
	t.Status, t.Until = statusLocked, transition{Status: status, At: time.Now().Add(in)}
	s.store.templates.put(t.ID, t)
	s.wakeTemplate(t)
}

func (s *Server) wakeTemplate(t *template) {
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

func (s *Server) dropTemplate(t *template) {
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
	name := c.body.value("name")
	switch {
	case t.NotDeletable:
		return nil, conflict("Cannot edit Template. Blank Template cannot be edited.")
	case t.Status != statusOK:
		return nil, conflict("Cannot edit Template: Template is locked. Please try again later.")
	case c.body.has("name") && !vmNamePattern.MatchString(name):
		return nil, invalid("Cannot edit Template. The given name contains special characters.")
	}
	for _, other := range c.store.templates.rows {
		if c.body.has("name") && other.Base != t.Base && other.Name == name && other.DataCenter == t.DataCenter {
			return nil, conflict("Cannot edit Template. The Template name is already in use, please choose a unique name and try again.")
		}
	}
	for name, field := range map[string]*string{"name": &t.Name, "description": &t.Description, "comment": &t.Comment} {
		if c.body.has(name) {
			*field = c.body.value(name)
		}
	}
	c.store.templates.put(t.ID, t)
	return templateDocument(c, t), nil
}

func removeTemplate(c *call) (*element, error) {
	t, err := c.template()
	if err != nil {
		return nil, err
	}
	switch {
	case t.NotDeletable:
		return nil, conflict("Cannot remove Template. Blank Template cannot be removed.")
	case t.Status == statusLocked:
		return nil, conflict("Cannot remove Template: Template is locked. Please try again later.")
	}
	var users []string
	for _, v := range c.store.vms.rows {
		if v.Template == t.ID {
			users = append(users, v.Name)
		}
	}
	if len(users) > 0 {
		slices.Sort(users)
		return nil, conflict("Cannot remove Template. The following VMs depend on it: %s.", joinSome(users))
	}
	c.work("Removing Template "+t.Name, t.ID)
	if wait := c.options.Timings.Remove; wait > 0 {
		c.arrangeTemplate(t, statusRemoved, wait)
	} else {
		c.dropTemplate(t)
		c.finish(t.ID)
	}
	return c.complete(), nil
}

func joinSome(names []string) string {
	const shown = 10
	if len(names) > shown {
		names = append(slices.Clone(names[:shown]), "...")
	}
	return fmt.Sprint(names)
}
