package ovirtsim

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
)

const apiPath = "/ovirt-engine/api"

// routes is the table of all calls.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, handler http.HandlerFunc) {
		method, rest, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+apiPath+rest, handler)
	}
	mux.HandleFunc("POST /ovirt-engine/sso/oauth/token", s.token)
	mux.HandleFunc("POST /ovirt-engine/services/sso-logout", s.logout)

	handle("GET ", s.api)
	handle("GET /datacenters", s.listDataCenters)
	handle("GET /clusters", s.listClusters)
	handle("GET /hosts", s.listHosts)
	handle("GET /networks", s.listNetworks)
	handle("GET /vnicprofiles", s.listVNICProfiles)
	handle("GET /storagedomains", s.listStorageDomains)
	handle("GET /templates", s.listTemplates)
	handle("GET /templates/{id}", s.getTemplate)
	handle("GET /disks", s.listDisks)

	handle("GET /vms", s.listVMs)
	handle("POST /vms", s.addVM)
	handle("GET /vms/{id}", s.getVM)
	handle("PUT /vms/{id}", s.updateVM)
	handle("DELETE /vms/{id}", s.removeVM)
	handle("POST /vms/{id}/start", s.startVM)
	handle("POST /vms/{id}/stop", s.stopVM)
	handle("POST /vms/{id}/shutdown", s.stopVM)
	handle("GET /vms/{id}/nics", s.listNICs)
	handle("POST /vms/{id}/nics", s.addNIC)
	handle("GET /vms/{id}/nics/{nic}", s.getNIC)
	handle("DELETE /vms/{id}/nics/{nic}", s.removeNIC)
	handle("GET /vms/{id}/diskattachments", s.listDiskAttachments)
	handle("GET /vms/{id}/reporteddevices", s.listReportedDevices)

	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { notFound(w) })
	return mux
}

// read decodes the body of a request into document, or answers as the engine does and returns false.
func read(w http.ResponseWriter, r *http.Request, document any) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/xml" {
		refuse(w, http.StatusUnsupportedMediaType, "Unsupported Media Type", "Content-Type must be application/xml")
		return false
	}
	decoder := xml.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20))
	err = decoder.Decode(document)
	if err == nil {
		// The engine reads the whole document; what follows the root element must be nothing.
		if _, trailing := decoder.Token(); !errors.Is(trailing, io.EOF) {
			err = fmt.Errorf("there is something behind the document: %w", errors.Join(trailing, io.ErrUnexpectedEOF))
		}
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "Request syntactically incorrect. See the link below for the correct syntax.", err.Error())
		return false
	}
	return true
}

func ref(collection, id string) *refXML {
	return &refXML{ID: id, Href: path.Join(apiPath, collection, id)}
}

func (s *Server) api(w http.ResponseWriter, _ *http.Request) {
	var body apiXML
	body.Product.Name, body.Product.Vendor = "oVirt Engine", "ovirt.org"
	body.Product.Version = versionXML{Major: 4, Minor: 5, Build: 4, Revision: 0, Full: "4.5.4-1.el8"}
	reply(w, http.StatusOK, body)
}

// list answers with a collection of the static inventory.
func list[T interface{ identity() object }](s *Server, w http.ResponseWriter, collection, element string, items []T, fill func(T, *entityXML)) {
	s.registry.mu.Lock()
	body := entitiesXML{XMLName: xml.Name{Local: element + "s"}}
	for _, item := range items {
		entity := entityFor(collection, element, item)
		fill(item, &entity)
		body.Items = append(body.Items, entity)
	}
	s.registry.mu.Unlock()
	reply(w, http.StatusOK, body)
}

func entityFor[T interface{ identity() object }](collection, element string, item T) entityXML {
	o := item.identity()
	return entityXML{XMLName: xml.Name{Local: element}, ID: o.id, Name: o.name, Href: path.Join(apiPath, collection, o.id)}
}

func (s *Server) listDataCenters(w http.ResponseWriter, _ *http.Request) {
	list(s, w, "datacenters", "data_center", s.registry.dataCenters, func(_ *dataCenter, e *entityXML) { e.Status = "up" })
}

func (s *Server) listClusters(w http.ResponseWriter, _ *http.Request) {
	list(s, w, "clusters", "cluster", s.registry.clusters, func(c *cluster, e *entityXML) { e.DataCenter = ref("datacenters", c.dataCenter) })
}

func (s *Server) listHosts(w http.ResponseWriter, _ *http.Request) {
	list(s, w, "hosts", "host", s.registry.hosts, func(h *host, e *entityXML) {
		e.Status, e.Cluster, e.Memory = "up", ref("clusters", h.cluster), h.memory
	})
}

func (s *Server) listNetworks(w http.ResponseWriter, _ *http.Request) {
	list(s, w, "networks", "network", s.registry.networks, func(n *network, e *entityXML) { e.DataCenter = ref("datacenters", n.dataCenter) })
}

func (s *Server) listVNICProfiles(w http.ResponseWriter, _ *http.Request) {
	list(s, w, "vnicprofiles", "vnic_profile", s.registry.vnicProfiles, func(p *vnicProfile, e *entityXML) { e.Network = ref("networks", p.network) })
}

func (s *Server) listStorageDomains(w http.ResponseWriter, _ *http.Request) {
	list(s, w, "storagedomains", "storage_domain", s.registry.storageDomains, func(d *storageDomain, e *entityXML) {
		e.DataCenter, e.Type, e.Available = ref("datacenters", d.dataCenter), "data", d.bytes
		for _, used := range s.registry.disks {
			if used.domain == d.id {
				e.Available -= used.bytes
			}
		}
	})
}

func fillTemplate(t *template, e *entityXML) {
	e.Status, e.Cluster, e.Memory, e.OS = "ok", ref("clusters", t.cluster), t.memory, &osXML{Type: t.osType}
	e.CPU = &cpuXML{Topology: &topologyXML{Cores: 1, Sockets: 1, Threads: 1}}
}

func (s *Server) listTemplates(w http.ResponseWriter, _ *http.Request) {
	list(s, w, "templates", "template", s.registry.templates, fillTemplate)
}

func (s *Server) getTemplate(w http.ResponseWriter, r *http.Request) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	found := byID(s.registry.templates, r.PathValue("id"))
	if found == nil {
		notFound(w)
		return
	}
	entity := entityFor("templates", "template", found)
	fillTemplate(found, &entity)
	reply(w, http.StatusOK, entity)
}
