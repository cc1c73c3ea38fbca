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
	"k8s.io/client-go/util/retry"
)

type vmList struct {
	XMLName xml.Name `xml:"vms"`
	Items   []VM     `xml:"vm"`
}

type action struct {
	XMLName xml.Name `xml:"action"`
	Force   *bool    `xml:"force"`
	// OptimizeCPU is read by autopincpuandnumanodes alone.
	OptimizeCPU *bool `xml:"optimize_cpu_settings"`
	// UseInitialization is read by start alone.
	UseInitialization *bool `xml:"use_initialization"`
	// Host is read by migrate alone.
	Host *Ref `xml:"host"`
	// StorageDomain is read by move alone.
	StorageDomain *Ref `xml:"storage_domain"`
}

func vmPath(id ID) string { return "/vms/" + id.segment() }

func nicPath(vmID, id ID) string { return vmPath(vmID) + "/nics/" + id.segment() }

// VMs lists every VM that the user can see, in one request.
func (c *Client) VMs(ctx context.Context) ([]VM, error) { return c.listVMs(ctx, nil) }

// mostIDs is how many IDs one search has; its URL is about 50 bytes longer with each.
const mostIDs = 40

// VMsByID are those of the IDs that there are, as VMs returns them.
func (c *Client) VMsByID(ctx context.Context, ids []ID) ([]VM, error) {
	var out []VM

	for some := range slices.Chunk(ids, mostIDs) {
		var terms []string

		for _, id := range some {
			// One that is no UUID is the ID of no VM, and would change the meaning of the search.
			if _, err := ParseID(id.String()); err == nil {
				terms = append(terms, "id="+id.String())
			}
		}

		if len(terms) == 0 {
			continue
		}

		found, err := c.listVMs(ctx, url.Values{"search": {strings.Join(terms, " or ")}})
		if err != nil {
			return nil, err
		}

		out = append(out, found...)
	}

	return out, nil
}

func (c *Client) listVMs(ctx context.Context, query url.Values) ([]VM, error) {
	var list vmList
	if err := c.do(ctx, http.MethodGet, "/vms", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list VMs: %w", err)
	}

	for i := range list.Items {
		list.Items[i].Initialization = nil // user data, which is most of an answer, and of the memory that keeps it
		if os := list.Items[i].OS; os != nil {
			os.Boot = nil
		}
	}

	return list.Items, nil
}

// FindVM returns the VM of that name in the data center, or nil if there is none; nil means the whole engine.
func (c *Client) FindVM(ctx context.Context, dc *DataCenter, name string) (*VM, error) {
	vms, err := c.FindVMs(ctx, dc, name)
	if err != nil || len(vms) == 0 {
		return nil, err
	}

	return &vms[0], nil
}

// FindVMs returns the VMs of that name in the data center; nil means the whole engine.
func (c *Client) FindVMs(ctx context.Context, dc *DataCenter, name string) ([]VM, error) {
	// The engine's search has wildcards and ignores case, so the answer is checked. A VM name holds no quote.
	query := url.Values{"search": {"name=" + strings.ReplaceAll(name, `"`, "")}}
	var list vmList
	err := c.do(ctx, http.MethodGet, "/vms", query, nil, &list)

	var found []VM
	if err == nil {
		found, err = Within(ctx, c, dc, kept(list.Items, func(vm VM) bool { return vm.Name == name }))
	}

	if err != nil {
		return nil, fmt.Errorf("failed to look up VM %q: %w", name, err)
	}

	return found, nil
}

// VMsWithPrefix lists the VMs of a data center whose names begin with a text, as VMs returns them; nil means the whole
// engine.
func (c *Client) VMsWithPrefix(ctx context.Context, dc *DataCenter, prefix string) ([]VM, error) {
	name := "name=" + strings.ReplaceAll(prefix, `"`, "") + "*"

	all, err := c.listVMs(ctx, url.Values{"search": {uncached(name)}})
	if err != nil {
		return nil, err
	}

	return Within(ctx, c, dc, kept(all, func(vm VM) bool { return strings.HasPrefix(vm.Name, prefix) }))
}

// VM returns the VM of that ID, without its initialization; IsNotFound reports that there is none.
func (c *Client) VM(ctx context.Context, id ID) (*VM, error) {
	return c.vm(ctx, vmPath(id), id, nil)
}

// allContent asks for what an answer leaves out because it costs the engine more.
var allContent = http.Header{"All-Content": {"true"}}

// VMInFull returns the VM of that ID with its initialization, which holds the user data, its console and its sound
// card.
func (c *Client) VMInFull(ctx context.Context, id ID) (*VM, error) {
	return c.vm(ctx, vmPath(id), id, allContent)
}

// VMAtNextStart returns the VM of that ID in full, as it will be after its next start.
func (c *Client) VMAtNextStart(ctx context.Context, id ID) (*VM, error) {
	return c.vm(ctx, vmPath(id)+"?"+nextRun.Encode(), id, allContent)
}

// nextRun asks for what a VM will be after its next start, or to keep a change until then.
var nextRun = url.Values{"next_run": {"true"}}

func (c *Client) vm(ctx context.Context, path string, id ID, header http.Header) (*VM, error) {
	var vm wholeVM
	if err := c.get(ctx, path, header, &vm); err != nil {
		return nil, fmt.Errorf("failed to get VM %s: %w", id, err)
	}

	return vm.vm(), nil
}

// CreateVM asks for a VM and returns it, usually with its disks still locked. A nil clone leaves the engine's default.
func (c *Client) CreateVM(ctx context.Context, vm *VM, clone *bool) (*VM, error) {
	var query url.Values
	if clone != nil {
		query = url.Values{"clone": {fmt.Sprint(*clone)}}
	}

	var created VM
	if err := c.do(ctx, http.MethodPost, "/vms", query, vm, &created); err != nil {
		return nil, fmt.Errorf("failed to create VM %q: %w", vm.Name, err)
	}

	return created.digest(), nil
}

// ReplaceInitialization gives a VM that initialization and nothing else of what it had; nil gives it none. The engine
// keeps the user data where a request has another part alone, so all is taken away first. What waits for the next start
// still waits.
func (c *Client) ReplaceInitialization(ctx context.Context, id ID, to *Initialization) error {
	settings, err := c.VMSettings(ctx, id)
	if err != nil {
		return err
	}

	_, err = c.changeVM(ctx, id, settings, &VM{Initialization: &Initialization{}})
	if err == nil && to != nil {
		_, err = c.changeVM(ctx, id, settings, &VM{Initialization: to})
	}

	return err
}

// ForgetUserData takes the user data of a VM out of the engine, where answers and lists of VMs have it as well as the
// database; the rest of its initialization stays, and so does what waits for the next start. A VM that runs is not
// disturbed. Drives that were written, snapshots that were made before, and the logs of earlier starts keep it.
func (c *Client) ForgetUserData(ctx context.Context, id ID) error {
	settings, err := c.VMSettings(ctx, id)
	if err != nil {
		return err
	}

	initialization := settings.Now.Initialization
	if initialization == nil || initialization.CustomScript == "" {
		return nil
	}

	rest := *initialization
	rest.CustomScript = ""

	if _, err := c.changeVM(ctx, id, settings, &VM{Initialization: &Initialization{}}); err != nil {
		return err
	}

	// What was taken away with it is written again, also where nobody waits any more: nothing else knows it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()

	return retry.OnError(restoreSteps, func(error) bool { return ctx.Err() == nil }, func() error {
		_, err := c.changeVM(ctx, id, settings, &VM{Initialization: &rest})
		return err
	})
}

// restoreLimit bounds how long it is tried to write what must not be lost, and restoreSteps how often.
const restoreLimit = 20 * time.Second

var restoreSteps = wait.Backoff{Steps: 6, Duration: 200 * time.Millisecond, Factor: 2}

// UpdateVM changes the fields of the VM that are set and returns the result. What a VM that runs cannot take at once
// waits for its next start; what waited before is lost, unless the change says it again, as ChangeVM does.
func (c *Client) UpdateVM(ctx context.Context, id ID, change *VM) (*VM, error) {
	return c.updateVM(ctx, id, nil, change)
}

// UpdateVMAtNextStart keeps a change of a VM that runs until its next start.
func (c *Client) UpdateVMAtNextStart(ctx context.Context, id ID, change *VM) (*VM, error) {
	return c.updateVM(ctx, id, nextRun, change)
}

func (c *Client) updateVM(ctx context.Context, id ID, query url.Values, change *VM) (*VM, error) {
	var updated VM
	if err := c.do(ctx, http.MethodPut, vmPath(id), query, &wholeVM{*change, change.others}, &updated); err != nil {
		return nil, fmt.Errorf("failed to update VM %s: %w", id, err)
	}

	return updated.digest(), nil
}

// DeleteVM deletes a VM that is down, with its disks. It does not wait.
func (c *Client) DeleteVM(ctx context.Context, id ID) error {
	if err := c.do(ctx, http.MethodDelete, vmPath(id), nil, nil, nil); err != nil {
		return fmt.Errorf("failed to delete VM %s: %w", id, err)
	}

	return nil
}

// StartVM asks for the VM to start. It does not wait. A guest gets the VM's initialization at the first start, and
// later where initialize is set.
func (c *Client) StartVM(ctx context.Context, id ID, initialize bool) error {
	var body action
	if initialize {
		body.UseInitialization = &initialize
	}

	return c.act(ctx, id, "start", body)
}

// StopPatience is how long a VM may read as if it had not been stopped: until its host tells the engine that it has
// ended. A second stop in that time is refused.
const StopPatience = 15 * time.Second

// StopVM powers the VM off. It does not wait. Force stops it also while a backup is going.
func (c *Client) StopVM(ctx context.Context, id ID, force bool) error {
	return c.act(ctx, id, "stop", action{Force: &force})
}

// ShutdownVM asks the guest to shut down. It does not wait, and the guest may ignore it.
func (c *Client) ShutdownVM(ctx context.Context, id ID, force bool) error {
	return c.act(ctx, id, "shutdown", action{Force: &force})
}

// RebootVM asks the guest to reboot. It does not wait, and the guest may ignore it.
func (c *Client) RebootVM(ctx context.Context, id ID) error {
	return c.act(ctx, id, "reboot", action{})
}

// MigrateVM moves a VM that runs to another host, the one of that ID unless it is empty. It does not wait.
func (c *Client) MigrateVM(ctx context.Context, id, host ID) error {
	return c.act(ctx, id, "migrate", action{Host: NewRef(host)})
}

func (c *Client) act(ctx context.Context, id ID, verb string, body action) error {
	if err := c.do(ctx, http.MethodPost, vmPath(id)+"/"+verb, nil, body, nil); err != nil {
		return fmt.Errorf("failed to %s VM %s: %w", verb, id, err)
	}

	return nil
}

// NICs lists the network interfaces of a VM.
func (c *Client) NICs(ctx context.Context, vmID ID) ([]NIC, error) {
	var list struct {
		XMLName xml.Name `xml:"nics"`
		Items   []NIC    `xml:"nic"`
	}
	if err := c.get(ctx, vmPath(vmID)+"/nics", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the network interfaces of VM %s: %w", vmID, err)
	}

	return list.Items, nil
}

// NIC returns one network interface of a VM.
func (c *Client) NIC(ctx context.Context, vmID, id ID) (*NIC, error) {
	var nic NIC
	if err := c.get(ctx, nicPath(vmID, id), nil, &nic); err != nil {
		return nil, fmt.Errorf("failed to get network interface %s of VM %s: %w", id, vmID, err)
	}

	return &nic, nil
}

// CreateNIC adds a network interface to a VM.
func (c *Client) CreateNIC(ctx context.Context, vmID ID, nic *NIC) (*NIC, error) {
	var created NIC
	if err := c.do(ctx, http.MethodPost, vmPath(vmID)+"/nics", nil, nic, &created); err != nil {
		return nil, fmt.Errorf("failed to add network interface %q to VM %s: %w", nic.Name, vmID, err)
	}

	return &created, nil
}

// UpdateNIC changes the fields of a network interface that are set.
func (c *Client) UpdateNIC(ctx context.Context, vmID, id ID, change *NIC) (*NIC, error) {
	var updated NIC
	if err := c.do(ctx, http.MethodPut, nicPath(vmID, id), nil, change, &updated); err != nil {
		return nil, fmt.Errorf("failed to update network interface %s of VM %s: %w", id, vmID, err)
	}

	return &updated, nil
}

// TemplateNICs lists the network interfaces that a template gives to its VMs.
func (c *Client) TemplateNICs(ctx context.Context, templateID ID) ([]NIC, error) {
	var list struct {
		XMLName xml.Name `xml:"nics"`
		Items   []NIC    `xml:"nic"`
	}
	if err := c.get(ctx, "/templates/"+templateID.segment()+"/nics", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the network interfaces of template %s: %w", templateID, err)
	}

	return list.Items, nil
}

// DeleteNIC removes a network interface from a VM.
func (c *Client) DeleteNIC(ctx context.Context, vmID, id ID) error {
	if err := c.do(ctx, http.MethodDelete, nicPath(vmID, id), nil, nil, nil); err != nil {
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
	if err := c.do(ctx, http.MethodPost, nicPath(vmID, id)+"/activate", nil, action{}, nil); err != nil {
		return fmt.Errorf("failed to plug network interface %s into VM %s: %w", id, vmID, err)
	}

	return nil
}

// UnplugNIC takes a network interface out of a VM that runs, as one must before it can be removed.
func (c *Client) UnplugNIC(ctx context.Context, vmID, id ID) error {
	if err := c.do(ctx, http.MethodPost, nicPath(vmID, id)+"/deactivate", nil, action{}, nil); err != nil {
		return fmt.Errorf("failed to unplug network interface %s of VM %s: %w", id, vmID, err)
	}

	return nil
}
