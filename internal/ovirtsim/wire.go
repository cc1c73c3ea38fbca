package ovirtsim

import (
	"encoding/xml"
	"io"
	"net/http"
)

// The XML of the engine's API, as the wire shows it. These types are not shared with internal/engine on purpose: an
// element that the client spells wrongly must fail against the simulator.

type refXML struct {
	ID   string `xml:"id,attr,omitempty"`
	Href string `xml:"href,attr,omitempty"`
	Name string `xml:"name,omitempty"`
}

type faultXML struct {
	XMLName xml.Name `xml:"fault"`
	Detail  string   `xml:"detail"`
	Reason  string   `xml:"reason"`
}

type actionXML struct {
	XMLName xml.Name  `xml:"action"`
	Force   *bool     `xml:"force"`
	Status  string    `xml:"status,omitempty"`
	Fault   *faultXML `xml:"fault"`
}

type topologyXML struct {
	Cores   int64 `xml:"cores"`
	Sockets int64 `xml:"sockets"`
	Threads int64 `xml:"threads"`
}

type cpuXML struct {
	Mode     string       `xml:"mode,omitempty"`
	Topology *topologyXML `xml:"topology"`
}

type memoryPolicyXML struct {
	Ballooning *bool  `xml:"ballooning"`
	Guaranteed *int64 `xml:"guaranteed"`
	Max        *int64 `xml:"max"`
}

type osXML struct {
	Type string `xml:"type"`
}

type consoleXML struct {
	Enabled bool `xml:"enabled"`
}

type ipXML struct {
	Address string `xml:"address,omitempty"`
	Gateway string `xml:"gateway,omitempty"`
	Netmask string `xml:"netmask,omitempty"`
	Version string `xml:"version,omitempty"`
}

type nicConfigurationXML struct {
	BootProtocol string `xml:"boot_protocol,omitempty"`
	IP           *ipXML `xml:"ip"`
	IPv6         *ipXML `xml:"ipv6"`
	Name         string `xml:"name"`
	OnBoot       *bool  `xml:"on_boot"`
}

type initializationXML struct {
	CustomScript      string `xml:"custom_script,omitempty"`
	HostName          string `xml:"host_name,omitempty"`
	NICConfigurations *struct {
		Items []nicConfigurationXML `xml:"nic_configuration"`
	} `xml:"nic_configurations"`
}

type vmXML struct {
	XMLName        xml.Name           `xml:"vm"`
	ID             string             `xml:"id,attr,omitempty"`
	Href           string             `xml:"href,attr,omitempty"`
	Name           *string            `xml:"name"`
	Comment        *string            `xml:"comment"`
	Description    *string            `xml:"description"`
	Cluster        *refXML            `xml:"cluster"`
	Template       *refXML            `xml:"template"`
	Host           *refXML            `xml:"host"`
	Status         string             `xml:"status,omitempty"`
	CPU            *cpuXML            `xml:"cpu"`
	Memory         *int64             `xml:"memory"`
	MemoryPolicy   *memoryPolicyXML   `xml:"memory_policy"`
	OS             *osXML             `xml:"os"`
	Type           string             `xml:"type,omitempty"`
	Console        *consoleXML        `xml:"console"`
	Soundcard      *bool              `xml:"soundcard_enabled"`
	Initialization *initializationXML `xml:"initialization"`
	CreationTime   string             `xml:"creation_time,omitempty"`
}

type vmsXML struct {
	XMLName xml.Name `xml:"vms"`
	Items   []vmXML  `xml:"vm"`
}

type macXML struct {
	Address string `xml:"address"`
}

type nicXML struct {
	XMLName     xml.Name `xml:"nic"`
	ID          string   `xml:"id,attr,omitempty"`
	Href        string   `xml:"href,attr,omitempty"`
	Name        string   `xml:"name,omitempty"`
	VM          *refXML  `xml:"vm"`
	VNICProfile *refXML  `xml:"vnic_profile"`
	Interface   string   `xml:"interface,omitempty"`
	MAC         *macXML  `xml:"mac"`
}

type nicsXML struct {
	XMLName xml.Name `xml:"nics"`
	Items   []nicXML `xml:"nic"`
}

type diskXML struct {
	XMLName         xml.Name `xml:"disk"`
	ID              string   `xml:"id,attr"`
	Href            string   `xml:"href,attr,omitempty"`
	Alias           string   `xml:"alias"`
	Name            string   `xml:"name"`
	Format          string   `xml:"format"`
	ProvisionedSize int64    `xml:"provisioned_size"`
	TotalSize       int64    `xml:"total_size"`
	Sparse          bool     `xml:"sparse"`
	Status          string   `xml:"status"`
	StorageDomains  struct {
		Items []refXML `xml:"storage_domain"`
	} `xml:"storage_domains"`
}

type disksXML struct {
	XMLName xml.Name  `xml:"disks"`
	Items   []diskXML `xml:"disk"`
}

type diskAttachmentXML struct {
	XMLName   xml.Name `xml:"disk_attachment"`
	ID        string   `xml:"id,attr"`
	Href      string   `xml:"href,attr,omitempty"`
	Active    bool     `xml:"active"`
	Bootable  bool     `xml:"bootable"`
	Interface string   `xml:"interface"`
	Disk      refXML   `xml:"disk"`
	VM        refXML   `xml:"vm"`
}

type diskAttachmentsXML struct {
	XMLName xml.Name            `xml:"disk_attachments"`
	Items   []diskAttachmentXML `xml:"disk_attachment"`
}

type reportedDevicesXML struct {
	XMLName xml.Name            `xml:"reported_devices"`
	Items   []reportedDeviceXML `xml:"reported_device"`
}

type reportedDeviceXML struct {
	ID   string `xml:"id,attr"`
	Name string `xml:"name"`
	Type string `xml:"type"`
	IPs  struct {
		Items []ipXML `xml:"ip"`
	} `xml:"ips"`
	MAC *macXML `xml:"mac"`
}

// entityXML is an object of a list by which names are resolved: what all of them have, and what some have.
type entityXML struct {
	XMLName    xml.Name
	ID         string  `xml:"id,attr"`
	Href       string  `xml:"href,attr"`
	Name       string  `xml:"name"`
	Status     string  `xml:"status,omitempty"`
	DataCenter *refXML `xml:"data_center"`
	Cluster    *refXML `xml:"cluster"`
	Network    *refXML `xml:"network"`
	CPU        *cpuXML `xml:"cpu"`
	Memory     int64   `xml:"memory,omitempty"`
	OS         *osXML  `xml:"os"`
	Available  int64   `xml:"available,omitempty"`
	Type       string  `xml:"type,omitempty"`
}

type entitiesXML struct {
	XMLName xml.Name
	Items   []entityXML
}

type versionXML struct {
	Build    int    `xml:"build"`
	Full     string `xml:"full_version"`
	Major    int    `xml:"major"`
	Minor    int    `xml:"minor"`
	Revision int    `xml:"revision"`
}

type apiXML struct {
	XMLName xml.Name `xml:"api"`
	Product struct {
		Name    string     `xml:"name"`
		Vendor  string     `xml:"vendor"`
		Version versionXML `xml:"version"`
	} `xml:"product_info"`
}

// reply writes a document.
func reply(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/xml; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(document)
}

// refuse writes a fault in the engine's words.
func refuse(w http.ResponseWriter, status int, reason, detail string) {
	reply(w, status, faultXML{Reason: reason, Detail: detail})
}

const operationFailed = "Operation Failed"

func notFound(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, operationFailed, "Entity not found")
}
