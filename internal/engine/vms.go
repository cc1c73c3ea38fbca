package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
)

type vmList struct {
	XMLName xml.Name `xml:"vms"`
	Items   []VM     `xml:"vm"`
}

type action struct {
	XMLName xml.Name `xml:"action"`
	Force   *bool    `xml:"force"`
	// OptimizeCPU is only for the action autopincpuandnumanodes.
	OptimizeCPU *bool `xml:"optimize_cpu_settings"`
	// UseInitialization is only for the action start.
	UseInitialization *bool `xml:"use_initialization"`
	// Host is only for the action migrate.
	Host *Ref `xml:"host"`
	// StorageDomain is only for the action move.
	StorageDomain *Ref `xml:"storage_domain"`
}

func vmPath(id ID) string { return "/vms/" + id.pathSegment() }

func nicPath(vmID, id ID) string { return vmPath(vmID) + "/nics/" + id.pathSegment() }

// ListVMs lists every VM visible to the user in one request, without user data.
func (c *Client) ListVMs(ctx context.Context) ([]VM, error) { return c.queryVMs(ctx, nil) }

// mostIDs limits the IDs in one search. Each ID adds about 50 bytes to the URL.
const mostIDs = 40

// ListVMsByID returns the existing VMs with these IDs, without user data.
func (c *Client) ListVMsByID(ctx context.Context, ids []ID) ([]VM, error) {
	var out []VM

	for some := range slices.Chunk(ids, mostIDs) {
		var terms []string

		for _, id := range some {
			// An invalid ID belongs to no VM, and would change the meaning of the search.
			if _, err := ParseID(id.String()); err == nil {
				terms = append(terms, "id="+id.String())
			}
		}

		if len(terms) == 0 {
			continue
		}

		found, err := c.queryVMs(ctx, url.Values{"search": {strings.Join(terms, " or ")}})
		if err != nil {
			return nil, err
		}

		out = append(out, found...)
	}

	return out, nil
}

func (c *Client) queryVMs(ctx context.Context, query url.Values) ([]VM, error) {
	var list vmList
	if err := c.callEngine(ctx, http.MethodGet, "/vms", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list VMs: %w", err)
	}

	for i := range list.Items {
		list.Items[i].Initialization = nil // the user data would take most of the memory
		if os := list.Items[i].OS; os != nil {
			os.Boot = nil
		}
	}

	return list.Items, nil
}

// FindVM returns the VM with this name in the data center, or nil if it does not exist. A nil data center means the
// whole engine.
func (c *Client) FindVM(ctx context.Context, dc *DataCenter, name string) (*VM, error) {
	vms, err := c.FindVMs(ctx, dc, name)
	if err != nil || len(vms) == 0 {
		return nil, err
	}

	return &vms[0], nil
}

// FindVMs returns the VMs with this name in the data center, or in the whole engine if dc is nil.
func (c *Client) FindVMs(ctx context.Context, dc *DataCenter, name string) ([]VM, error) {
	// The engine's search supports wildcards and ignores case, so FindVMs compares the names again. A VM name has no
	// quotes.
	query := url.Values{"search": {"name=" + strings.ReplaceAll(name, `"`, "")}}
	var list vmList
	err := c.callEngine(ctx, http.MethodGet, "/vms", query, nil, &list)

	var found []VM
	if err == nil {
		found, err = FilterByDataCenter(
			ctx, c, dc, filterItems(list.Items, func(vm VM) bool { return vm.Name == name }),
		)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to look up VM %q: %w", name, err)
	}

	return found, nil
}

// ListVMsWithPrefix lists the VMs of a data center with this prefix in their names, without user data. A nil data
// center means the whole engine.
func (c *Client) ListVMsWithPrefix(ctx context.Context, dc *DataCenter, prefix string) ([]VM, error) {
	name := "name=" + strings.ReplaceAll(prefix, `"`, "") + "*"

	all, err := c.queryVMs(ctx, url.Values{"search": {bypassCache(name)}})
	if err != nil {
		return nil, err
	}

	return FilterByDataCenter(
		ctx, c, dc, filterItems(all, func(vm VM) bool { return strings.HasPrefix(vm.Name, prefix) }),
	)
}

// FetchVM returns the VM with this ID, without its initialization. A missing VM is an IsNotFound error.
func (c *Client) FetchVM(ctx context.Context, id ID) (*VM, error) {
	return c.fetchWholeVM(ctx, vmPath(id), id, nil)
}

// allContent requests the parts that an answer otherwise omits because they cost the engine more.
var allContent = http.Header{"All-Content": {"true"}}

// FetchFullVM returns the VM with this ID, including its console, its sound card and its initialization with the user
// data.
func (c *Client) FetchFullVM(ctx context.Context, id ID) (*VM, error) {
	return c.fetchWholeVM(ctx, vmPath(id), id, allContent)
}

// FetchVMAtNextStart returns the VM with this ID in full, with the settings for its next start.
func (c *Client) FetchVMAtNextStart(ctx context.Context, id ID) (*VM, error) {
	return c.fetchWholeVM(ctx, vmPath(id)+"?"+nextRun.Encode(), id, allContent)
}

// nextRun requests a VM with the settings for its next start, or postpones a change until then.
var nextRun = url.Values{"next_run": {"true"}}

func (c *Client) fetchWholeVM(ctx context.Context, path string, id ID, header http.Header) (*VM, error) {
	var vm wholeVM
	if err := c.fetchInto(ctx, path, header, &vm); err != nil {
		return nil, fmt.Errorf("failed to get VM %s: %w", id, err)
	}

	return vm.toVM(), nil
}

// CreateVM creates a VM and returns it, usually with its disks still locked. A nil clone uses the engine's default.
func (c *Client) CreateVM(ctx context.Context, vm *VM, clone *bool) (*VM, error) {
	var query url.Values
	if clone != nil {
		query = url.Values{"clone": {fmt.Sprint(*clone)}}
	}

	var created VM
	if err := c.callEngine(ctx, http.MethodPost, "/vms", query, vm, &created); err != nil {
		return nil, fmt.Errorf("failed to create VM %q: %w", vm.Name, err)
	}

	return created.dropOVF(), nil
}

// ReplaceInitialization replaces the whole initialization of a VM. A nil initialization removes it. If a request omits
// the user data, the engine keeps them, so ReplaceInitialization first removes everything. Settings pending for the
// next start stay pending.
func (c *Client) ReplaceInitialization(ctx context.Context, id ID, to *Initialization) error {
	settings, err := c.FetchVMSettings(ctx, id)
	if err != nil {
		return err
	}

	_, err = c.changeWithSettings(ctx, id, settings, &VM{Initialization: &Initialization{}})
	if err == nil && to != nil {
		_, err = c.changeWithSettings(ctx, id, settings, &VM{Initialization: to})
	}

	return err
}

// ForgetUserData removes the user data of a VM from the engine's database, answers and lists. The rest of the
// initialization and the settings pending for the next start stay. A running VM keeps running. Written drives, earlier
// snapshots and logs of earlier starts keep the user data.
func (c *Client) ForgetUserData(ctx context.Context, id ID) error {
	settings, err := c.FetchVMSettings(ctx, id)
	if err != nil {
		return err
	}

	initialization := settings.Now.Initialization
	if initialization == nil || initialization.CustomScript == "" {
		return nil
	}

	rest := *initialization
	rest.CustomScript = ""

	if _, err := c.changeWithSettings(ctx, id, settings, &VM{Initialization: &Initialization{}}); err != nil {
		return err
	}

	// Even if the caller gives up, write the rest of the initialization again, because it is stored nowhere else.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()

	return attempt.OnError(restoreSteps, func(error) bool { return ctx.Err() == nil }, func() error {
		_, err := c.changeWithSettings(ctx, id, settings, &VM{Initialization: &rest})
		return err
	})
}

// restoreLimit limits the time to write data that must not be lost. restoreSteps is the number of attempts.
const restoreLimit = 20 * time.Second

var restoreSteps = wait.Backoff{Steps: 6, Duration: 200 * time.Millisecond, Factor: 2}

// UpdateVM changes the set fields of the VM and returns the result. Changes that a running VM cannot take at once wait
// for its next start. Earlier pending changes are lost unless the request repeats them, like ChangeVM.
func (c *Client) UpdateVM(ctx context.Context, id ID, change *VM) (*VM, error) {
	return c.putVM(ctx, id, nil, change)
}

// UpdateVMAtNextStart postpones a change of a running VM until its next start.
func (c *Client) UpdateVMAtNextStart(ctx context.Context, id ID, change *VM) (*VM, error) {
	return c.putVM(ctx, id, nextRun, change)
}

func (c *Client) putVM(ctx context.Context, id ID, query url.Values, change *VM) (*VM, error) {
	var updated VM
	if err := c.callEngine(
		ctx, http.MethodPut, vmPath(id), query, &wholeVM{*change, change.others}, &updated,
	); err != nil {
		return nil, fmt.Errorf("failed to update VM %s: %w", id, err)
	}

	return updated.dropOVF(), nil
}

// DeleteVM deletes a VM that is down, with its disks. It does not wait.
func (c *Client) DeleteVM(ctx context.Context, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, vmPath(id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to delete VM %s: %w", id, err)
	}

	return nil
}

// StartVM starts the VM without waiting. A guest gets the VM's initialization at its first start. It gets it at later
// starts only if initialize is set.
func (c *Client) StartVM(ctx context.Context, id ID, initialize bool) error {
	var body action
	if initialize {
		body.UseInitialization = &initialize
	}

	return c.runAction(ctx, id, "start", body)
}

// StopPatience is how long a stopped VM may still look running, until its host reports the end to the engine. The
// engine refuses a second stop during this time.
const StopPatience = 15 * time.Second

// StopVM powers the VM off. It does not wait. With force, it stops the VM even during a backup.
func (c *Client) StopVM(ctx context.Context, id ID, force bool) error {
	return c.runAction(ctx, id, "stop", action{Force: &force})
}

// ShutdownVM asks the guest to shut down. It does not wait, and the guest may ignore it.
func (c *Client) ShutdownVM(ctx context.Context, id ID, force bool) error {
	return c.runAction(ctx, id, "shutdown", action{Force: &force})
}

// RebootVM asks the guest to reboot. It does not wait, and the guest may ignore it.
func (c *Client) RebootVM(ctx context.Context, id ID) error {
	return c.runAction(ctx, id, "reboot", action{})
}

// MigrateVM moves a running VM to the host with this ID, or to any other host if the ID is empty. It does not wait.
func (c *Client) MigrateVM(ctx context.Context, id, host ID) error {
	return c.runAction(ctx, id, "migrate", action{Host: NewRef(host)})
}

func (c *Client) runAction(ctx context.Context, id ID, verb string, body action) error {
	if err := c.callEngine(ctx, http.MethodPost, vmPath(id)+"/"+verb, nil, body, nil); err != nil {
		return fmt.Errorf("failed to %s VM %s: %w", verb, id, err)
	}

	return nil
}

// ListNICs lists the network interfaces of a VM.
func (c *Client) ListNICs(ctx context.Context, vmID ID) ([]NIC, error) {
	var list struct {
		XMLName xml.Name `xml:"nics"`
		Items   []NIC    `xml:"nic"`
	}
	if err := c.fetchInto(ctx, vmPath(vmID)+"/nics", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the network interfaces of VM %s: %w", vmID, err)
	}

	return list.Items, nil
}

// FetchNIC returns one network interface of a VM.
func (c *Client) FetchNIC(ctx context.Context, vmID, id ID) (*NIC, error) {
	var nic NIC
	if err := c.fetchInto(ctx, nicPath(vmID, id), nil, &nic); err != nil {
		return nil, fmt.Errorf("failed to get network interface %s of VM %s: %w", id, vmID, err)
	}

	return &nic, nil
}

// CreateNIC adds a network interface to a VM.
func (c *Client) CreateNIC(ctx context.Context, vmID ID, nic *NIC) (*NIC, error) {
	var created NIC
	if err := c.callEngine(ctx, http.MethodPost, vmPath(vmID)+"/nics", nil, nic, &created); err != nil {
		return nil, fmt.Errorf("failed to add network interface %q to VM %s: %w", nic.Name, vmID, err)
	}

	return &created, nil
}

// UpdateNIC changes the set fields of a network interface.
func (c *Client) UpdateNIC(ctx context.Context, vmID, id ID, change *NIC) (*NIC, error) {
	var updated NIC
	if err := c.callEngine(ctx, http.MethodPut, nicPath(vmID, id), nil, change, &updated); err != nil {
		return nil, fmt.Errorf("failed to update network interface %s of VM %s: %w", id, vmID, err)
	}

	return &updated, nil
}

// ListTemplateNICs lists the network interfaces a template gives to its VMs.
func (c *Client) ListTemplateNICs(ctx context.Context, templateID ID) ([]NIC, error) {
	var list struct {
		XMLName xml.Name `xml:"nics"`
		Items   []NIC    `xml:"nic"`
	}
	if err := c.fetchInto(ctx, "/templates/"+templateID.pathSegment()+"/nics", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the network interfaces of template %s: %w", templateID, err)
	}

	return list.Items, nil
}

// DeleteNIC removes a network interface from a VM.
func (c *Client) DeleteNIC(ctx context.Context, vmID, id ID) error {
	if err := c.callEngine(ctx, http.MethodDelete, nicPath(vmID, id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to remove network interface %s from VM %s: %w", id, vmID, err)
	}

	return nil
}

// DropNIC removes a network interface from a VM, whether it runs or not.
func (c *Client) DropNIC(ctx context.Context, vmID, id ID) error {
	err := c.DeleteNIC(ctx, vmID, id)
	if !IsConflict(err) || IsTransient(err) {
		return err
	}

	if err := c.UnplugNIC(ctx, vmID, id); err != nil { // the VM runs
		return err
	}

	return c.DeleteNIC(ctx, vmID, id)
}

// PlugNIC puts a network interface into a VM.
func (c *Client) PlugNIC(ctx context.Context, vmID, id ID) error {
	if err := c.callEngine(ctx, http.MethodPost, nicPath(vmID, id)+"/activate", nil, action{}, nil); err != nil {
		return fmt.Errorf("failed to plug network interface %s into VM %s: %w", id, vmID, err)
	}

	return nil
}

// UnplugNIC unplugs a network interface from a running VM. This is necessary before its removal.
func (c *Client) UnplugNIC(ctx context.Context, vmID, id ID) error {
	if err := c.callEngine(ctx, http.MethodPost, nicPath(vmID, id)+"/deactivate", nil, action{}, nil); err != nil {
		return fmt.Errorf("failed to unplug network interface %s of VM %s: %w", id, vmID, err)
	}

	return nil
}
