package engine

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// listTTL is the maximum age of a list. Data centers, clusters, networks and templates change rarely.
	listTTL = time.Minute
	// listMissTTL is the maximum age of a list without the wanted name. The client must find a new object soon, but a
	// missing name must not cost a request per reconcile.
	listMissTTL = 5 * time.Second
)

// listCache holds the lists for resolving names.
type listCache struct {
	dataCenters  cachedList[DataCenter]
	clusters     cachedList[Cluster]
	templates    cachedList[Template]
	networks     cachedList[Network]
	vnicProfiles cachedList[VNICProfile]
	types        cachedList[InstanceType]
	systems      cachedList[OperatingSystem]
	tags         cachedList[Tag]
	hardware     hardwareCache
	storage      cachedList[StorageDomain]
	attached     attachedDomains
	hosts        cachedList[Host]
	labels       cachedList[AffinityLabel]
	product      cachedList[Product]
}

type cachedList[T any] struct {
	mu    lock
	items []T
	at    time.Time
}

// findInList returns the first matching item. It reads the list again if the cached one is too old to decide.
func findInList[T any](
	ctx context.Context, c *Client, list *cachedList[T], collection string, match func(T) bool,
) (*T, []T, error) {
	if err := list.mu.acquire(ctx); err != nil {
		return nil, nil, err
	}

	defer list.mu.release()
	lookup := func() *T {
		if i := slices.IndexFunc(list.items, match); i >= 0 {
			item := list.items[i]
			return &item
		}

		return nil
	}
	age := c.now().Sub(list.at)
	if !list.at.IsZero() && age < listTTL {
		if item := lookup(); item != nil || age < listMissTTL {
			return item, list.items, nil
		}
	}

	var reply struct {
		XMLName xml.Name
		Items   []T `xml:",any"`
	}
	if err := c.callEngine(ctx, http.MethodGet, "/"+collection, nil, nil, &reply); err != nil {
		return nil, nil, fmt.Errorf("failed to list %s: %w", collection, err)
	}

	list.items, list.at = reply.Items, c.now()

	return lookup(), list.items, nil
}

func collectNames[T any](items []T, keep func(T) bool, name func(T) string) []string {
	var out []string

	for _, item := range items {
		// An engine may include elements that are not items in a list. They have no name.
		if text := name(item); text != "" && keep(item) {
			out = append(out, text)
		}
	}

	slices.Sort(out)

	return slices.Compact(out)
}

// FetchProduct reads the engine's version and identity. It is the cheapest call that needs a session.
func (c *Client) FetchProduct(ctx context.Context) (Product, error) {
	var reply struct {
		XMLName xml.Name `xml:"api"`
		Info    struct {
			ID      string `xml:"instance_id"`
			Name    string `xml:"name"`
			Version struct {
				Major int    `xml:"major"`
				Minor int    `xml:"minor"`
				Build int    `xml:"build"`
				Full  string `xml:"full_version"`
			} `xml:"version"`
		} `xml:"product_info"`
	}
	if err := c.readRoot(ctx, &reply); err != nil {
		return Product{}, fmt.Errorf("failed to ask the engine for its version: %w", err)
	}

	v := reply.Info.Version

	return Product{
		InstanceID: validateID(reply.Info.ID), Name: reply.Info.Name,
		Version: v.Full, Major: v.Major, Minor: v.Minor, Build: v.Build,
	}, nil
}

// readRoot reads the root document. If a user without an administrator role requests unfiltered objects, the engine
// answers with an internal error. A collection answers the same user with the real cause, so after such an error
// readRoot also requests a collection.
func (c *Client) readRoot(ctx context.Context, out any) error {
	err := c.callEngine(ctx, http.MethodGet, "", nil, nil, out)
	if hasStatus(err, http.StatusInternalServerError) {
		query := url.Values{"max": {"1"}}
		if told := c.callEngine(ctx, http.MethodGet, "/clusters", query, nil, nil); IsNotAnAdministrator(told) {
			return told
		}
	}

	return err
}

// installationID matches IDs of installations: UUIDs and similar texts. Messages show these IDs, and objects store
// them.
var installationID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// validateID returns the ID of an installation, or "" if it is invalid.
func validateID(text string) string {
	if !installationID.MatchString(text) {
		return ""
	}

	return text
}

// SupportsVersion reports whether the engine has at least this version, and returns its product.
func (c *Client) SupportsVersion(ctx context.Context, major, minor, build int) (bool, Product, error) {
	list := &c.lists.product
	if err := list.mu.acquire(ctx); err != nil {
		return false, Product{}, err
	}

	defer list.mu.release()
	if len(list.items) == 0 || c.now().Sub(list.at) > listTTL {
		product, err := c.FetchProduct(ctx)
		if err != nil {
			return false, Product{}, err
		}

		list.items, list.at = []Product{product}, c.now()
	}

	product := list.items[0]

	return slices.Compare(
		[]int{product.Major, product.Minor, product.Build},
		[]int{major, minor, build},
	) >= 0, product, nil
}

// FindDataCenter returns the data center with this name, or a NameError.
func (c *Client) FindDataCenter(ctx context.Context, name string) (*DataCenter, error) {
	item, all, err := findInList(ctx, c, &c.lists.dataCenters, "datacenters", func(d DataCenter) bool {
		return d.Name == name
	})
	if err != nil || item != nil {
		return item, err
	}

	return nil, &NameError{Kind: "data center", Name: name, Scope: "the engine",
		Known: collectNames(all, func(DataCenter) bool { return true }, func(d DataCenter) string { return d.Name })}
}

// FindCluster returns the cluster with this name in the data center, or a NameError.
func (c *Client) FindCluster(ctx context.Context, dc *DataCenter, name string) (*Cluster, error) {
	item, _, err := findNamed(ctx, c, &c.lists.clusters, "clusters", "cluster", dc, name, acceptAny[Cluster])
	return item, err
}

// ListClusters lists the clusters of the data center.
func (c *Client) ListClusters(ctx context.Context, dc *DataCenter) ([]Cluster, error) {
	all, err := c.listAllClusters(ctx)
	if err != nil {
		return nil, err
	}

	return FilterByDataCenter(ctx, c, dc, all)
}

// listAllClusters lists the clusters of all data centers.
func (c *Client) listAllClusters(ctx context.Context) ([]Cluster, error) {
	_, all, err := findInList(ctx, c, &c.lists.clusters, "clusters", func(Cluster) bool { return true })
	return all, err
}

func (c *Client) findClusterByID(ctx context.Context, id ID) (*Cluster, error) {
	item, _, err := findInList(ctx, c, &c.lists.clusters, "clusters", func(cl Cluster) bool { return cl.ID == id })
	return item, err
}

// FindTemplate returns the newest usable version of the template with this name in the data center, or a NameError.
func (c *Client) FindTemplate(ctx context.Context, dc *DataCenter, name string) (*Template, error) {
	return c.FindTemplateVersion(ctx, dc, name, 0)
}

// FindTemplateVersion is FindTemplate for a specific version. 0 means the newest.
func (c *Client) FindTemplateVersion(ctx context.Context, dc *DataCenter, name string, version int) (*Template, error) {
	usable := func(t Template) bool { return t.Status == TemplateOK }
	wanted := func(t Template) bool { return usable(t) && (version == 0 || t.Version.Number == version) }

	first, all, err := findNamed(ctx, c, &c.lists.templates, "templates", "template", dc, name, wanted)

	var missing *NameError
	if err != nil && !errors.As(err, &missing) {
		return nil, err
	}

	usables, failed := FilterByDataCenter(ctx, c, dc, filterItems(all, usable))
	if failed != nil {
		return nil, failed
	}

	there := filterItems(usables, func(t Template) bool { return t.Name == name })

	switch {
	case missing != nil && len(there) > 0:
		return nil, &NameError{
			Kind:  "version",
			Name:  strconv.Itoa(version),
			Scope: fmt.Sprintf("template %q", name),
			Known: collectNames(there, usable, func(t Template) string { return strconv.Itoa(t.Version.Number) }),
		}
	case missing != nil:
		missing.Known = collectNames(usables, usable, Template.getName)
		return nil, missing
	}

	newest := *first
	for _, t := range there {
		if wanted(t) && t.Version.Number > newest.Version.Number {
			newest = t
		}
	}

	return &newest, nil
}

// FindNetwork returns the network with this name in the data center, or a NameError.
func (c *Client) FindNetwork(ctx context.Context, dc *DataCenter, name string) (*Network, error) {
	item, _, err := findNamed(ctx, c, &c.lists.networks, "networks", "network", dc, name, acceptAny[Network])
	return item, err
}

func (c *Client) findNetworkByID(ctx context.Context, id ID) (*Network, error) {
	item, _, err := findInList(ctx, c, &c.lists.networks, "networks", func(n Network) bool { return n.ID == id })
	return item, err
}

// ListVNICProfiles lists the vNIC profiles with this name on the data center's networks, with their networks.
func (c *Client) ListVNICProfiles(ctx context.Context, dc *DataCenter, name string) ([]VNICProfile, []Network, error) {
	var failed error
	has := c.newScopeFilter(ctx, dc, &failed)
	named := func(p VNICProfile) bool { return p.Name == name && has(p) }
	_, profiles, err := findInList(ctx, c, &c.lists.vnicProfiles, "vnicprofiles", named)
	found := filterItems(profiles, named)

	if err = errors.Join(err, failed); err != nil {
		return nil, nil, err
	}

	var (
		there    []VNICProfile
		networks []Network
	)

	for _, p := range found {
		network, err := c.findNetworkByID(ctx, p.Network.ID)
		if err != nil {
			return nil, nil, err
		}

		if network != nil { // the network may be gone, or the engine lists a profile without its network
			there, networks = append(there, p), append(networks, *network)
		}
	}

	return there, networks, nil
}

// ProfileChoiceError reports that the vNIC profile is ambiguous for a network.
type ProfileChoiceError struct {
	Network string
	// Profiles are the sorted names of the network's profiles.
	Profiles []string
}

func (e *ProfileChoiceError) Error() string {
	if len(e.Profiles) == 0 {
		return fmt.Sprintf("network %q has no vNIC profile; create one in the engine, or name another network",
			e.Network)
	}

	return fmt.Sprintf("network %q has several vNIC profiles and none is named like it; name one of %s", e.Network,
		strings.Join(e.Profiles, ", "))
}

// FindDefaultVNICProfile returns the network's only vNIC profile, or the one with the name of the network. Otherwise,
// it returns a ProfileChoiceError.
func (c *Client) FindDefaultVNICProfile(ctx context.Context, network *Network) (*VNICProfile, error) {
	onNetwork := func(p VNICProfile) bool { return p.Network.ID == network.ID }
	item, all, err := findInList(ctx, c, &c.lists.vnicProfiles, "vnicprofiles", func(p VNICProfile) bool {
		return onNetwork(p) && p.Name == network.Name
	})
	if err != nil || item != nil {
		return item, err
	}

	known := collectNames(all, onNetwork, func(p VNICProfile) string { return p.Name })
	if len(known) == 1 {
		return &all[slices.IndexFunc(all, onNetwork)], nil
	}

	return nil, &ProfileChoiceError{Network: network.Name, Profiles: known}
}

// FindVNICProfile returns the vNIC profile with this name on the network, or a NameError.
func (c *Client) FindVNICProfile(ctx context.Context, network *Network, name string) (*VNICProfile, error) {
	onNetwork := func(p VNICProfile) bool { return p.Network.ID == network.ID }
	item, all, err := findInList(ctx, c, &c.lists.vnicProfiles, "vnicprofiles", func(p VNICProfile) bool {
		return onNetwork(p) && p.Name == name
	})
	if err != nil || item != nil {
		return item, err
	}

	return nil, &NameError{Kind: "vNIC profile", Name: name, Scope: fmt.Sprintf("network %q", network.Name),
		Known: collectNames(all, onNetwork, func(p VNICProfile) string { return p.Name })}
}

// FindInstanceType returns the instance type with this name, or a NameError.
func (c *Client) FindInstanceType(ctx context.Context, name string) (*InstanceType, error) {
	item, all, err := findInList(
		ctx, c, &c.lists.types, "instancetypes", func(t InstanceType) bool { return t.Name == name },
	)
	if err != nil || item != nil {
		return item, err
	}

	return nil, &NameError{
		Kind:  "instance type",
		Name:  name,
		Scope: "the engine",
		Known: collectNames(
			all, func(InstanceType) bool { return true }, func(t InstanceType) string { return t.Name },
		),
	}
}

// FindTag returns the tag with this name, or a NameError. If several tags have the name, it always returns the same
// one. Unlike ListTagsNamed, it may use a cached list up to a minute old.
func (c *Client) FindTag(ctx context.Context, name string) (*Tag, error) {
	item, all, err := findInList(ctx, c, &c.lists.tags, "tags", func(t Tag) bool { return t.Name == name })
	if err != nil {
		return nil, err
	}

	for i := range all {
		if item != nil && all[i].Name == name && all[i].ID < item.ID {
			item = &all[i]
		}
	}

	if item != nil {
		return item, nil
	}

	return nil, &NameError{Kind: "tag", Name: name, Scope: "the engine",
		Known: collectNames(all, func(t Tag) bool { return t.Name != "root" }, func(t Tag) string { return t.Name })}
}

// Hardware is the hardware a template gives to its VMs.
type Hardware struct {
	// RootDisk is the bootable disk, or nil.
	RootDisk *Disk
	// OtherDisks are all other disks.
	OtherDisks []*Disk
	// NICs are the network interfaces.
	NICs []NIC
}

type hardwareCache struct {
	mu    lock
	items map[ID]cachedHardware // by template ID
}

type cachedHardware struct {
	hardware Hardware
	at       time.Time
}

// FetchHardware reads the disks and network interfaces of a template. They do not change while the template exists, so
// the client caches the answer as long as a list.
func (c *Client) FetchHardware(ctx context.Context, templateID ID) (*Hardware, error) {
	cache := &c.lists.hardware
	if err := cache.mu.acquire(ctx); err != nil {
		return nil, err
	}

	defer cache.mu.release()
	if known, ok := cache.items[templateID]; ok && c.now().Sub(known.at) < listTTL {
		return &known.hardware, nil
	}

	attached, err := c.ListTemplateDiskAttachments(ctx, templateID)
	if err != nil {
		return nil, err
	}

	var out Hardware

	for i := range attached {
		disk, err := c.FetchDisk(ctx, attached[i].DiskID())
		if err != nil {
			return nil, err
		}

		if bootable := attached[i].Bootable; bootable != nil && *bootable && out.RootDisk == nil {
			out.RootDisk = disk
		} else {
			out.OtherDisks = append(out.OtherDisks, disk)
		}
	}

	if out.NICs, err = c.ListTemplateNICs(ctx, templateID); err != nil {
		return nil, err
	}

	if cache.items == nil {
		cache.items = map[ID]cachedHardware{}
	}

	cache.items[templateID] = cachedHardware{out, c.now()}

	return &out, nil
}

// CheckTPM returns a NameError if the engine does not offer a TPM for the operating system.
func (c *Client) CheckTPM(ctx context.Context, name string) error {
	return c.checkSystem(ctx, "operating system with TPM", name, func(o OperatingSystem) bool {
		return o.TPM == "supported" || o.TPM == "required"
	})
}

// CheckOperatingSystem returns a NameError if the engine does not know an operating system with this name, such as
// rhel_9x64. The engine itself would not refuse the name, but create the VM with another operating system.
func (c *Client) CheckOperatingSystem(ctx context.Context, name string) error {
	return c.checkSystem(ctx, "operating system", name, func(OperatingSystem) bool { return true })
}

// checkSystem returns a NameError if the engine has no operating system with this name that fits.
func (c *Client) checkSystem(ctx context.Context, kind, name string, fits func(OperatingSystem) bool) error {
	item, all, err := findInList(ctx, c, &c.lists.systems, "operatingsystems", func(o OperatingSystem) bool {
		return o.Name == name && fits(o)
	})
	if err != nil || item != nil {
		return err
	}

	return &NameError{
		Kind:  kind,
		Name:  name,
		Scope: "the engine",
		Known: collectNames(all, fits, func(o OperatingSystem) string { return o.Name }),
	}
}
