package api

import (
	"net/http"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var storageDomainRoutes = []route{
	{"GET", "/datacenters/{id}/storagedomains", listDataCenterStorageDomains},
	{"GET", "/datacenters/{id}/storagedomains/{domain}", getDataCenterStorageDomain},
	{"GET", "/diskprofiles", listDiskProfiles},
	{"GET", "/diskprofiles/{id}", readItem(listDiskProfiles)},
	{"GET", "/storageconnections", listStorageConnections},
	{"GET", "/storageconnections/{id}", readItem(listStorageConnections)},
	{"GET", "/storagedomains", listStorageDomains},
	{"GET", "/storagedomains/{domain}/disks/{id}", ofDomain(getDisk)},
	{"DELETE", "/storagedomains/{domain}/disks/{id}", ofDomain(removeDisk)},
	{"GET", "/storagedomains/{id}", getStorageDomain},
	{"GET", "/storagedomains/{id}/diskprofiles", listDomainDiskProfiles},
	{"GET", "/storagedomains/{id}/disks", listStorageDomainDisks},
	{"GET", "/storagedomains/{id}/files", listNothing("files")},
	{"GET", "/storagedomains/{id}/permissions", permissionsOf("storage_domain", "storagedomains", "id")},
}

// storageDomainDocument shows a storage domain. Only the data center of a domain shows the domain's status.
func storageDomainDocument(c *call, d *store.StorageDomain) *wire.Element {
	used, committed := c.store.Usage(d.ID)

	return wire.NewObject("storage_domain", d.ID, "storagedomains", d.ID).Str("name", d.Name).Str("description", "").
		Str("comment", "").
		Num("available", d.Bytes-used).Flag("backup", false).Num("block_size", 512).Num("committed", committed).
		Num("critical_space_action_blocker", 5).
		Flag("discard_after_delete", false).Str("external_status", "ok").Flag("master", c.store.IsMaster(d)).
		Add(storageElement("storage", d)).
		Str("storage_format", "v5").Flag("supports_discard", false).Flag("supports_discard_zeroes_data", false).
		Str("type", "data").Num("used", used).
		Num("warning_low_space_indicator", 10).Flag("wipe_after_delete", false).
		Add(wire.El("data_centers").AddItems(wire.Ref("data_center", "datacenters", d.DataCenter)))
}

// storageElement shows the location of a storage domain.
func storageElement(name string, d *store.StorageDomain) *wire.Element {
	return wire.El(name).Str("address", d.Name+".storage.example.com").Str("path", "/export/"+d.Name).
		Str("type", d.StorageType)
}

func storageDomainsOf(
	c *call, match func(*store.StorageDomain) bool, document func(*call, *store.StorageDomain) *wire.Element,
) (*wire.Element, error) {
	center := singleValue(func(d *store.StorageDomain) string { return c.store.DataCenterName(d.DataCenter) })
	of := fields[*store.StorageDomain]{
		"name":            singleValue(func(d *store.StorageDomain) string { return d.Name }),
		"id":              singleValue(func(d *store.StorageDomain) string { return d.ID }),
		"type":            singleValue(func(*store.StorageDomain) string { return "data" }),
		"status":          singleValue(func(d *store.StorageDomain) string { return d.Status() }),
		"datacenter":      center,
		"datacenter.name": center,
		"datacenter_name": center,
		"comment":         singleValue(func(*store.StorageDomain) string { return "" }),
		"description":     singleValue(func(*store.StorageDomain) string { return "" }),
	}

	return answerList(c, "storage_domains", c.store.StorageDomains.Where(match, func(d *store.StorageDomain) string {
		return d.Name + d.ID
	}), of, document)
}

func listStorageDomains(c *call) (*wire.Element, error) {
	return storageDomainsOf(c, nil, storageDomainDocument)
}

// attachedDomain shows a storage domain in the context of a data center.
func attachedDomain(c *call, d *store.StorageDomain) *wire.Element {
	out := storageDomainDocument(c, d).Str("status", d.Status())
	out.Attrs[0].Value = wire.Href("datacenters", d.DataCenter, "storagedomains", d.ID)
	return out.Add(wire.Ref("data_center", "datacenters", d.DataCenter))
}

func listDataCenterStorageDomains(c *call) (*wire.Element, error) {
	return storageDomainsOf(
		c, func(d *store.StorageDomain) bool { return d.DataCenter == c.pathID("id") }, attachedDomain,
	)
}

func getStorageDomain(c *call) (*wire.Element, error) {
	d, err := findRow(c.store.StorageDomains, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return storageDomainDocument(c, d), nil
}

func getDataCenterStorageDomain(c *call) (*wire.Element, error) {
	d := c.store.StorageDomains.Get(c.pathID("domain"))
	if d == nil || d.DataCenter != c.pathID("id") {
		return nil, wire.NotFound()
	}

	return attachedDomain(c, d), nil
}

func listStorageDomainDisks(c *call) (*wire.Element, error) {
	if c.store.StorageDomains.Get(c.pathID("id")) == nil {
		return nil, wire.PlainFault(
			http.StatusBadRequest,
			`cannot invoke "org.ovirt.engine.core.common.businessentities.storagedomain.getstoragetype()" `+
				`because "storagedomain" is null`,
		)
	}

	return disksWhere(c, func(d *store.Disk) bool { return d.IsOnDomain(c.pathID("id")) })
}

// ofDomain applies an operation to a disk whose path starts with its storage domain.
func ofDomain(op operation) operation {
	return func(c *call) (*wire.Element, error) {
		if d := c.store.Disks.Get(c.pathID("id")); d != nil && !d.IsOnDomain(c.pathID("domain")) {
			return nil, wire.NotFound()
		}

		return op(c)
	}
}

func listStorageConnections(c *call) (*wire.Element, error) {
	out := wire.El("storage_connections")
	for _, d := range c.store.StorageDomains.Where(nil, func(d *store.StorageDomain) string { return d.Name + d.ID }) {
		out.AddItems(connectionDocument(c, d))
	}

	return out, nil
}

func connectionDocument(c *call, d *store.StorageDomain) *wire.Element {
	id := c.store.IDOf("", "storageconnection", d.ID)
	out := wire.NewObject("storage_connection", id, "storageconnections", id)
	return out.Add(storageElement("storage", d).Kids...)
}

func diskProfilesOf(c *call, domainID string) (*wire.Element, error) {
	out := wire.El("disk_profiles")

	for _, d := range c.store.StorageDomains.Where(func(d *store.StorageDomain) bool {
		return domainID == "" ||
			d.ID == domainID
	}, func(d *store.StorageDomain) string { return d.Name + d.ID }) {
		id := c.store.DiskProfileID(d.ID)
		out.AddItems(
			wire.NewObject("disk_profile", id, "diskprofiles", id).
				Str("name", d.Name).
				Add(wire.Ref("storage_domain", "storagedomains", d.ID)),
		)
	}

	return out, nil
}

func listDiskProfiles(c *call) (*wire.Element, error) { return diskProfilesOf(c, "") }

func listDomainDiskProfiles(c *call) (*wire.Element, error) { return diskProfilesOf(c, c.pathID("id")) }
