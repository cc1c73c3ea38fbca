package ovirtsim

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The statuses of a VM that the simulator gives.
const (
	statusImageLocked   = "image_locked"
	statusDown          = "down"
	statusWaitForLaunch = "wait_for_launch"
	statusPoweringUp    = "powering_up"
	statusUp            = "up"
	statusPoweringDown  = "powering_down"
)

var vmName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,255}$`)

func (s *Server) vmDocument(v *vm, allContent bool) vmXML {
	guaranteed, maximum := v.memory, v.maxMemory
	if maximum == 0 {
		maximum = 4 * v.memory
	}
	document := vmXML{
		ID: v.id, Href: path.Join(apiPath, "vms", v.id), Name: &v.name, Comment: &v.comment, Description: &v.description,
		Cluster: ref("clusters", v.cluster), Template: ref("templates", v.template), Status: v.status,
		CPU: &cpuXML{Mode: v.cpuMode, Topology: &v.cpu}, Memory: &v.memory,
		MemoryPolicy: &memoryPolicyXML{Ballooning: v.ballooning, Guaranteed: &guaranteed, Max: &maximum},
		OS:           &osXML{Type: v.osType}, Type: v.vmType, Console: &consoleXML{Enabled: v.console}, Soundcard: &v.soundcard,
		CreationTime: v.created.UTC().Format(time.RFC3339),
	}
	if v.host != "" {
		document.Host = ref("hosts", v.host)
	}
	if allContent { // the engine keeps user data out of plain answers
		document.Initialization = v.initialization
	}
	return document
}

func allContent(r *http.Request) bool { return r.Header.Get("All-Content") == "true" }

func (s *Server) listVMs(w http.ResponseWriter, r *http.Request) {
	match, err := search(r.URL.Query().Get("search"))
	if err != nil {
		refuse(w, http.StatusBadRequest, operationFailed, err.Error())
		return
	}
	limit := -1
	if raw := r.URL.Query().Get("max"); raw != "" {
		if limit, err = strconv.Atoi(raw); err != nil {
			refuse(w, http.StatusBadRequest, operationFailed, "max must be a number")
			return
		}
	}
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	var body vmsXML
	for _, v := range s.registry.sortedVMs() {
		if match(v) && (limit < 0 || len(body.Items) < limit) {
			body.Items = append(body.Items, s.vmDocument(v, allContent(r)))
		}
	}
	reply(w, http.StatusOK, body)
}

// search understands the part of the engine's language that look-ups use: name=VALUE, with * as wildcard.
func search(query string) (func(*vm) bool, error) {
	query = strings.TrimSpace(query)
	if query == "" {
		return func(*vm) bool { return true }, nil
	}
	field, value, ok := strings.Cut(query, "=")
	value = strings.Trim(value, `"`)
	if !ok || strings.TrimSpace(field) != "name" || strings.ContainsAny(value, " ") {
		return nil, fmt.Errorf("the search query %q is not valid", query)
	}
	pattern := regexp.MustCompile("^(?i:" + strings.ReplaceAll(regexp.QuoteMeta(value), `\*`, ".*") + ")$")
	return func(v *vm) bool { return pattern.MatchString(v.name) }, nil
}

// find returns the VM that the request names, with the registry locked, or answers 404.
func (s *Server) find(w http.ResponseWriter, r *http.Request) (*vm, func()) {
	s.registry.mu.Lock()
	found := s.registry.vms[r.PathValue("id")]
	if found == nil {
		s.registry.mu.Unlock()
		notFound(w)
		return nil, nil
	}
	return found, s.registry.mu.Unlock
}

func (s *Server) getVM(w http.ResponseWriter, r *http.Request) {
	if v, unlock := s.find(w, r); v != nil {
		defer unlock()
		reply(w, http.StatusOK, s.vmDocument(v, allContent(r)))
	}
}

func (s *Server) addVM(w http.ResponseWriter, r *http.Request) {
	var in vmXML
	if !read(w, r, &in) {
		return
	}
	missing := func(what string) {
		refuse(w, http.StatusBadRequest, "Incomplete parameters", "Vm ["+what+"] required for add")
	}
	switch {
	case in.Name == nil || *in.Name == "":
		missing("name")
		return
	case in.Cluster == nil || in.Cluster.ID == "" && in.Cluster.Name == "":
		missing("cluster.id|name")
		return
	case in.Template == nil || in.Template.ID == "" && in.Template.Name == "":
		missing("template.id|name")
		return
	}
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	made, problem := s.newVM(&in)
	if problem != nil {
		refuse(w, problem.status, operationFailed, problem.detail)
		return
	}
	s.registry.vms[made.id] = made
	s.addRootDisk(made)
	s.after(made, s.options.Timings.Clone, func() {
		made.status = statusDown
		for _, d := range s.registry.disksOf(made.id) {
			d.locked = false
		}
	})
	reply(w, http.StatusCreated, s.vmDocument(made, allContent(r)))
}

type refusal struct {
	status int
	detail string
}

// newVM validates a request and makes the VM that it asks for.
func (s *Server) newVM(in *vmXML) (*vm, *refusal) {
	group := byID(s.registry.clusters, in.Cluster.ID)
	if group == nil {
		return nil, &refusal{http.StatusBadRequest, "[Cannot add VM. Cluster ID is not valid.]"}
	}
	source := byID(s.registry.templates, in.Template.ID)
	if source == nil {
		return nil, &refusal{http.StatusNotFound, "Entity not found: Template: id=" + in.Template.ID}
	}
	if source.id != blankTemplateID && s.registry.dataCenterOf(source.cluster) != group.dataCenter {
		return nil, &refusal{http.StatusConflict, "[Cannot add VM. The Template is not in the Data Center of the Cluster.]"}
	}
	if !vmName.MatchString(*in.Name) {
		return nil, &refusal{http.StatusBadRequest, "[Can not add VM. The given name contains special characters. Only lower-case and upper-case letters, numbers, '_', '-', '.' are allowed.]"}
	}
	for _, other := range s.registry.vms {
		if other.name == *in.Name && s.registry.dataCenterOf(other.cluster) == group.dataCenter {
			return nil, &refusal{http.StatusConflict, "[Cannot add VM. The VM name is already in use, please choose a unique name and try again.]"}
		}
	}
	made := &vm{
		object: object{id: newID(), name: *in.Name}, cluster: group.id, template: source.id, status: statusImageLocked,
		memory: source.memory, cpu: topologyXML{Cores: 1, Sockets: 1, Threads: 1}, osType: source.osType, vmType: "server", created: time.Now(),
		initialization: in.Initialization,
	}
	if in.Comment != nil {
		made.comment = *in.Comment
	}
	if in.Description != nil {
		made.description = *in.Description
	}
	if in.Memory != nil {
		if *in.Memory < 1<<20 || *in.Memory%(1<<20) != 0 {
			return nil, &refusal{http.StatusBadRequest, "[Cannot add VM. Memory size must be a positive multiple of 1 MiB.]"}
		}
		made.memory = *in.Memory
	}
	if in.CPU != nil {
		made.cpuMode = in.CPU.Mode
		if t := in.CPU.Topology; t != nil {
			if t.Cores < 1 || t.Sockets < 1 || t.Threads < 1 {
				return nil, &refusal{http.StatusBadRequest, "[Cannot add VM. CPU topology must be positive.]"}
			}
			made.cpu = *t
		}
	}
	if p := in.MemoryPolicy; p != nil {
		made.ballooning = p.Ballooning
		if p.Max != nil {
			made.maxMemory = *p.Max
		}
		if made.maxMemory != 0 && made.maxMemory < made.memory {
			return nil, &refusal{http.StatusBadRequest, "[Cannot add VM. Maximum memory must not be less than memory.]"}
		}
	}
	if in.OS != nil && in.OS.Type != "" {
		made.osType = in.OS.Type
	}
	if in.Type != "" {
		made.vmType = in.Type
	}
	if in.Console != nil {
		made.console = in.Console.Enabled
	}
	if in.Soundcard != nil {
		made.soundcard = *in.Soundcard
	}
	return made, nil
}

// addRootDisk copies the template's disk.
func (s *Server) addRootDisk(v *vm) {
	source := byID(s.registry.templates, v.template)
	if source == nil || source.diskBytes == 0 {
		return
	}
	root := &disk{object: object{id: newID(), name: v.name + "_Disk1"}, vm: v.id, bytes: source.diskBytes, locked: true}
	center := s.registry.dataCenterOf(v.cluster)
	for _, domain := range s.registry.storageDomains {
		if domain.dataCenter == center {
			root.domain = domain.id
			break
		}
	}
	s.registry.disks[root.id] = root
}

// after runs a change of the VM once the time has passed, unless the VM was started, stopped or removed in between.
func (s *Server) after(v *vm, delay time.Duration, change func()) {
	epoch := v.epoch
	time.AfterFunc(delay, func() {
		s.registry.mu.Lock()
		defer s.registry.mu.Unlock()
		if s.ctx.Err() == nil && s.registry.vms[v.id] == v && v.epoch == epoch {
			change()
		}
	})
}

func (s *Server) updateVM(w http.ResponseWriter, r *http.Request) {
	var in vmXML
	if !read(w, r, &in) {
		return
	}
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	if in.Name != nil && *in.Name != v.name {
		for _, other := range s.registry.vms {
			if other != v && other.name == *in.Name {
				refuse(w, http.StatusConflict, operationFailed, "[Cannot edit VM. The VM name is already in use, please choose a unique name and try again.]")
				return
			}
		}
		if !vmName.MatchString(*in.Name) {
			refuse(w, http.StatusBadRequest, operationFailed, "[Cannot edit VM. The given name contains special characters.]")
			return
		}
		v.name = *in.Name
	}
	if in.Comment != nil {
		v.comment = *in.Comment
	}
	if in.Description != nil {
		v.description = *in.Description
	}
	if in.Memory != nil {
		v.memory = *in.Memory
	}
	reply(w, http.StatusOK, s.vmDocument(v, allContent(r)))
}

func (s *Server) removeVM(w http.ResponseWriter, r *http.Request) {
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	switch v.status {
	case statusDown:
	case statusImageLocked:
		refuse(w, http.StatusConflict, operationFailed, "[Cannot remove VM: VM is locked. Please try again later.]")
		return
	default:
		refuse(w, http.StatusConflict, operationFailed, "[Cannot remove VM. VM is running.]")
		return
	}
	s.registry.removeVM(v.id)
	if s.options.Guest != nil {
		go s.options.Guest.Removed(v.id)
	}
	reply(w, http.StatusOK, actionXML{Status: "complete"})
}

func (s *Server) startVM(w http.ResponseWriter, r *http.Request) {
	var in actionXML
	if !read(w, r, &in) {
		return
	}
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	switch v.status {
	case statusDown:
	case statusImageLocked:
		refuse(w, http.StatusConflict, operationFailed, "[Cannot run VM: VM is locked. Please try again in a few minutes.]")
		return
	default:
		refuse(w, http.StatusConflict, operationFailed, "[Cannot run VM. VM is running.]")
		return
	}
	if len(s.registry.disksOf(v.id)) == 0 {
		refuse(w, http.StatusConflict, operationFailed, "[Cannot run VM without at least one bootable disk.]")
		return
	}
	placed := s.registry.place(v)
	if placed == nil {
		refuse(w, http.StatusConflict, operationFailed, "[Cannot run VM. There is no host that satisfies current scheduling constraints.]")
		return
	}
	v.epoch++
	v.host, v.status, v.guestError = placed.id, statusWaitForLaunch, ""
	s.after(v, s.options.Timings.Launch, func() {
		v.status = statusPoweringUp
		s.after(v, s.options.Timings.PowerUp, func() {
			v.status = statusUp
			s.boot(v)
		})
	})
	reply(w, http.StatusOK, actionXML{Status: "complete"})
}

// stopVM serves stop and shutdown; a VM that is down stays down, which the engine counts as success.
func (s *Server) stopVM(w http.ResponseWriter, r *http.Request) {
	var in actionXML
	if !read(w, r, &in) {
		return
	}
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	switch v.status {
	case statusImageLocked:
		refuse(w, http.StatusConflict, operationFailed, "[Cannot stop VM: VM is locked. Please try again in a few minutes.]")
		return
	case statusDown, statusPoweringDown:
	default:
		v.epoch++
		v.status = statusPoweringDown
		s.halt(v)
		s.after(v, s.options.Timings.PowerDown, func() { v.status, v.host = statusDown, "" })
	}
	reply(w, http.StatusOK, actionXML{Status: "complete"})
}

func (s *Server) nicDocument(n *nic) nicXML {
	return nicXML{
		ID: n.id, Href: path.Join(apiPath, "vms", n.vm, "nics", n.id), Name: n.name, VM: ref("vms", n.vm),
		VNICProfile: ref("vnicprofiles", n.profile), Interface: "virtio", MAC: &macXML{Address: n.mac},
	}
}

func (s *Server) listNICs(w http.ResponseWriter, r *http.Request) {
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	var body nicsXML
	for _, n := range s.registry.nicsOf(v.id) {
		body.Items = append(body.Items, s.nicDocument(n))
	}
	reply(w, http.StatusOK, body)
}

func (s *Server) addNIC(w http.ResponseWriter, r *http.Request) {
	var in nicXML
	if !read(w, r, &in) {
		return
	}
	if in.Name == "" {
		refuse(w, http.StatusBadRequest, "Incomplete parameters", "Nic [name] required for add")
		return
	}
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	if in.VNICProfile == nil || byID(s.registry.vnicProfiles, in.VNICProfile.ID) == nil {
		refuse(w, http.StatusBadRequest, operationFailed, "[Cannot add Interface. The specified VM network interface profile doesn't exist.]")
		return
	}
	for _, other := range s.registry.nicsOf(v.id) {
		if other.name == in.Name {
			refuse(w, http.StatusConflict, operationFailed, "[Cannot add Interface. The network interface name is already in use.]")
			return
		}
	}
	made := &nic{object: object{id: newID(), name: in.Name}, vm: v.id, profile: in.VNICProfile.ID, mac: s.registry.nextMAC()}
	s.registry.nics[made.id] = made
	reply(w, http.StatusCreated, s.nicDocument(made))
}

// findNIC returns the network interface that the request names, with the registry locked, or answers 404.
func (s *Server) findNIC(w http.ResponseWriter, r *http.Request) (*nic, func()) {
	v, unlock := s.find(w, r)
	if v == nil {
		return nil, nil
	}
	found := s.registry.nics[r.PathValue("nic")]
	if found == nil || found.vm != v.id {
		unlock()
		notFound(w)
		return nil, nil
	}
	return found, unlock
}

func (s *Server) getNIC(w http.ResponseWriter, r *http.Request) {
	if n, unlock := s.findNIC(w, r); n != nil {
		defer unlock()
		reply(w, http.StatusOK, s.nicDocument(n))
	}
}

func (s *Server) removeNIC(w http.ResponseWriter, r *http.Request) {
	if n, unlock := s.findNIC(w, r); n != nil {
		defer unlock()
		delete(s.registry.nics, n.id)
		reply(w, http.StatusOK, actionXML{Status: "complete"})
	}
}

func (s *Server) listDisks(w http.ResponseWriter, _ *http.Request) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	var body disksXML
	for _, v := range s.registry.sortedVMs() {
		for _, d := range s.registry.disksOf(v.id) {
			document := diskXML{
				ID: d.id, Href: path.Join(apiPath, "disks", d.id), Alias: d.name, Name: d.name, Format: "cow",
				ProvisionedSize: d.bytes, TotalSize: d.bytes / 10, Sparse: true, Status: "ok",
			}
			if d.locked {
				document.Status = "locked"
			}
			document.StorageDomains.Items = []refXML{*ref("storagedomains", d.domain)}
			body.Items = append(body.Items, document)
		}
	}
	reply(w, http.StatusOK, body)
}

func (s *Server) listDiskAttachments(w http.ResponseWriter, r *http.Request) {
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	var body diskAttachmentsXML
	for _, d := range s.registry.disksOf(v.id) {
		body.Items = append(body.Items, diskAttachmentXML{
			ID: d.id, Href: path.Join(apiPath, "vms", v.id, "diskattachments", d.id), Active: true, Bootable: true, Interface: "virtio_scsi",
			Disk: *ref("disks", d.id), VM: *ref("vms", v.id),
		})
	}
	reply(w, http.StatusOK, body)
}

func (s *Server) listReportedDevices(w http.ResponseWriter, r *http.Request) {
	v, unlock := s.find(w, r)
	if v == nil {
		return
	}
	defer unlock()
	var body reportedDevicesXML
	if nics := s.registry.nicsOf(v.id); len(nics) > 0 && len(v.addresses) > 0 {
		device := reportedDeviceXML{ID: newID(), Name: "enp1s0", Type: "network", MAC: &macXML{Address: nics[0].mac}}
		for _, address := range v.addresses {
			version := "v4"
			if strings.Contains(address, ":") {
				version = "v6"
			}
			device.IPs.Items = append(device.IPs.Items, ipXML{Address: address, Version: version})
		}
		body.Items = append(body.Items, device)
	}
	reply(w, http.StatusOK, body)
}
