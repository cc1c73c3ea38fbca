// Package doctor checks everything about a cluster that can be known before its first VM exists.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

// Verdict is the result of a check.
type Verdict string

// These are the verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Failed  Verdict = "failed"
	// Unknown is the verdict if a check is impossible.
	Unknown Verdict = "unknown"
)

// Finding is the result of one check.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"message"`
	// Remedy is the advice for the user. It is empty if there is none, or if Message has it.
	Remedy string `json:"remedy,omitempty"`
}

const (
	// certificateWarning is the remaining lifetime of a certificate below which doctor warns.
	certificateWarning = 30 * 24 * time.Hour
	// clockWarning is the maximum tolerated difference between two clocks. Certificates from a control plane are valid
	// only from the moment of their creation.
	clockWarning = 10 * time.Second
)

// examination is a running examination of a cluster.
type examination struct {
	findings    []Finding
	credentials preview.Credentials
	sessions    *engine.Sessions
	manifests   *preview.Manifests
	machines    []preview.Machine
}

// Examine runs all checks of a cluster's manifests. After a failed check, it continues with all checks that do not
// depend on it. It calls say before each check.
func Examine(
	ctx context.Context, objects []*unstructured.Unstructured, credentials preview.Credentials, say func(check string),
) ([]Finding, error) {
	input, err := planinput.LoadObjects(objects)
	if err != nil {
		return nil, err
	}

	manifests := preview.NewManifests(input)

	machines, err := manifests.Machines()
	if err != nil {
		return nil, err
	}

	e := &examination{
		credentials: credentials, sessions: &engine.Sessions{}, manifests: manifests, machines: machines,
	}
	defer e.sessions.Close(context.WithoutCancel(ctx))

	for _, use := range manifests.OpenUses(machines, credentials, e.sessions) {
		say("checking " + engine.RedactURL(use.Engine.Server.ServerURL))

		if !e.checkEngine(ctx, use) {
			return e.findings, ctx.Err() // further checks need the engine
		}

		e.checkRights(ctx, use)
	}

	say("checking the names and templates of the machines")
	if e.checkNames(ctx) {
		e.checkTemplates(ctx)
		e.checkCapacity(ctx)
	}

	say("checking for addresses in use")
	e.checkAddresses(ctx)

	return e.findings, ctx.Err()
}

func (e *examination) addFinding(check string, verdict Verdict, remedy, format string, args ...any) {
	e.findings = append(e.findings, Finding{
		Check: check, Verdict: verdict, Message: fmt.Sprintf(format, args...), Remedy: remedy,
	})
}

// checkEngine checks the certificate, the clock, the login and the version of an engine. It reports whether the engine
// can be used.
func (e *examination) checkEngine(ctx context.Context, use preview.Use) bool {
	const check = "engine"
	if use.Err != nil {
		e.addFinding(check, Failed, "", "%v", blocker.AddRemedy(use.Err, e.credentials.Places))
		return false
	}

	e.checkCertificate(ctx, use)

	supported, product, err := use.Session.SupportsVersion(ctx, 4, 4, 0)
	if err != nil {
		e.addFinding(check, Failed, "", "%v", blocker.AddRemedy(err, e.credentials.Places))
		return false
	}

	if !supported {
		e.addFinding(check, Warning, "use an engine of version 4.4 or later",
			"%s has version %s, which is not tested", use.Host, product.Version)

		return true
	}

	e.addFinding(check, OK, "", "%s %s at %s", product.Name, product.Version, use.Host)

	return true
}

// checkCertificate checks the certificate and the clock of an engine.
func (e *examination) checkCertificate(ctx context.Context, use preview.Use) {
	seen, err := use.Session.FetchAppearance(ctx)
	if err != nil && seen.CertificateEnds.IsZero() {
		return // the login reports this error
	}

	switch left := time.Until(seen.CertificateEnds); {
	case use.Config.Insecure:
		e.addFinding("certificate", Warning,
			"set the CA in caConfigMap, or in serverCA of a cluster file, and enable verification",
			"the engine's certificate is not verified: an attacker on the network could read the password")
	case left < certificateWarning:
		e.addFinding("certificate", Warning, "renew it with engine-setup; if the CA changes, configure the new CA",
			"the engine's certificate expires at %s", seen.CertificateEnds.UTC().Format(time.RFC3339))
	default:
		e.addFinding(
			"certificate", OK, "", "the engine's certificate is valid until %s",
			seen.CertificateEnds.UTC().Format(time.DateOnly),
		)
	}

	switch {
	case err != nil:
		e.addFinding("clock", Unknown, "", "%v", err)
	case seen.Ahead.Abs() > clockWarning:
		e.addFinding(
			"clock",
			Warning,
			"synchronize both clocks with NTP: nodes get their time from hosts, and reject certificates that are "+
				"not valid yet",
			"the engine's clock differs from this machine's by %s",
			seen.Ahead.Abs(),
		)
	default:
		e.addFinding("clock", OK, "", "the engine's clock agrees with this machine's")
	}
}

// checkRights compares the roles of the user with the rights known to be needed.
func (e *examination) checkRights(ctx context.Context, use preview.Use) {
	const check, remedy = "rights", "compare with docs/operate/rights.md"
	grants, err := use.Session.ListGrants(ctx)
	if err != nil {
		e.addFinding(check, Unknown, remedy, "cannot determine the permissions of the user: %v", err)
		return
	}

	var names []string

	for _, grant := range grants {
		if !slices.Contains(names, grant.Role) {
			names = append(names, grant.Role)
		}
	}

	tagged := e.anyMachine(areTagged)
	isSuperUser := func(g engine.Grant) bool { return g.Role == "SuperUser" && g.On == "" }

	switch only := strings.Join(names, ", "); {
	case slices.ContainsFunc(grants, isSuperUser):
		e.addFinding(check, OK, "", "the user is a SuperUser, which has more permissions than required")
	case only == "DataCenterAdmin" && tagged:
		e.addFinding(
			check, Failed, remedy, "the user is a DataCenterAdmin, which may not tag VMs, but machines have tags",
		)
	case only == "DataCenterAdmin":
		e.addFinding(check, OK, "", "the user is a DataCenterAdmin")
	case only == "ClusterAdmin":
		e.addFinding(check, Failed, remedy, "the user is a ClusterAdmin, which may not create VMs")
	case only == "":
		e.addFinding(check, Unknown, remedy, "the user has no administrator role; roles of groups are not checked")
	default:
		e.checkPermits(only, grants)
	}
}

// checkPermits compares the permits in the user's roles with the permits found necessary on a real engine.
func (e *examination) checkPermits(roles string, grants []engine.Grant) {
	const check, remedy = "rights", "give the user a role with these permits, see docs/operate/rights.md"

	var lacking []string

	has := func(permit string) bool {
		return slices.ContainsFunc(grants, func(g engine.Grant) bool { return slices.Contains(g.Permits, permit) })
	}

	for _, permit := range permits {
		if !has(permit.number) && (permit.needs == nil || e.anyMachine(permit.needs)) {
			lacking = append(lacking, permit.number+" ("+permit.text+")")
		}
	}

	switch {
	case len(lacking) > 0:
		e.addFinding(check, Failed, remedy, "the user has %s, which lacks %s", roles, strings.Join(lacking, ", "))
	case !has(configureNetworks):
		e.addFinding(
			check,
			Warning,
			remedy,
			"the user has %s, which lacks %s (configure_vm_network): network interfaces can use only vNIC profiles "+
				"open to everyone",
			roles,
			configureNetworks,
		)
	default:
		e.addFinding(
			check,
			OK,
			"",
			"the user has %s, with the permits that the machines require; the objects of the roles are not checked",
			roles,
		)
	}
}

func (e *examination) anyMachine(isSo func(infrav1.OLVMMachineSpec) bool) bool {
	return slices.ContainsFunc(e.machines, func(m preview.Machine) bool { return isSo(m.Spec()) })
}

func areTagged(spec infrav1.OLVMMachineSpec) bool {
	return len(spec.VirtualMachine.Tags) > 0 || spec.FromInventory != nil
}

// configureNetworks is the permit for network interfaces. The creator of a VM has it for this VM. Every user has it for
// a vNIC profile, unless an administrator has revoked it. No recording of an engine proves this, but the engine's
// source code does.
const configureNetworks = "9"

// permits were tried on a real engine 4.5.8. needs selects the machines that need the permit. If nil, all machines need
// it.
var permits = []struct {
	number, text string
	needs        func(infrav1.OLVMMachineSpec) bool
}{
	{"1300", "login", nil},
	{"1", "create_vm", nil},
	{"1550", "manipulate_affinity_groups", nil},
	{"1301", "tag_management", areTagged},
	{"1100", "create_disk", func(spec infrav1.OLVMMachineSpec) bool { return len(spec.VirtualMachine.DataDisks) > 0 }},
	{"14", "change_vm_custom_properties", func(spec infrav1.OLVMMachineSpec) bool {
		return len(spec.VirtualMachine.CustomProperties) > 0 || spec.VirtualMachine.HugePages > 0
	}},
	{"15", "edit_admin_vm_properties", func(spec infrav1.OLVMMachineSpec) bool {
		return len(spec.VirtualMachine.Placement.HostNames) > 0
	}},
}

// checkNames checks everything in the engine that the machines name, and reports whether all of it exists.
func (e *examination) checkNames(ctx context.Context) bool {
	errs := preview.CheckNames(ctx, e.manifests, e.machines, e.credentials, e.sessions)
	for _, err := range errs {
		e.addFinding("names", Failed, "", "%v", err)
	}

	if len(errs) == 0 {
		e.addFinding("names", OK, "", "the engine has all objects of the %d machines, and their options are compatible",
			len(e.machines))
	}

	return len(errs) == 0
}

// checkAddresses checks that no other guest reports an address of the cluster.
func (e *examination) checkAddresses(ctx context.Context) {
	errs := preview.FindTakenAddresses(ctx, e.manifests, e.machines, e.credentials, e.sessions)
	for _, err := range errs {
		e.addFinding("addresses", Failed, "", "%v", err)
	}

	if len(errs) == 0 {
		e.addFinding(
			"addresses", OK, "",
			"no guest in the engine reports an address of the cluster; other hosts are not checked",
		)
	}
}

// checkCapacity checks that the VMs fit on the hosts.
func (e *examination) checkCapacity(ctx context.Context) {
	rendered, _, err := preview.Render(ctx, e.manifests, e.machines, e.credentials, e.sessions)
	if err == nil {
		var capacities []planreport.Capacity

		capacities, err = preview.CompareCapacities(ctx, e.manifests, rendered, e.credentials, e.sessions)
		for _, c := range capacities {
			verdict, remedy := OK, ""
			if c.DescribeShortage() != "" {
				verdict, remedy = Warning, "use fewer or smaller machines, or add hosts: machines that do not fit "+
					"will wait"
			}

			e.addFinding("capacity", verdict, remedy, "%s", c)
		}
	}

	if err != nil {
		e.addFinding("capacity", Unknown, "", "%v", err)
	}
}

// checkTemplates checks whether guests of the VM templates report their addresses to the engine.
func (e *examination) checkTemplates(ctx context.Context) {
	type question struct{ engine, dataCenter, template string }

	var asked []question

	for i := range e.machines {
		use := e.manifests.OpenUse(&e.machines[i], e.credentials, e.sessions)
		spec := e.machines[i].Spec()
		one := question{use.Host, use.Engine.DataCenterName, spec.VMTemplateName}

		if use.Err == nil && spec.FromInventory == nil && !slices.Contains(asked, one) {
			asked = append(asked, one)
			e.checkTemplate(ctx, use, spec)
		}
	}
}

func (e *examination) checkTemplate(ctx context.Context, use preview.Use, spec infrav1.OLVMMachineSpec) {
	const check, remedy = "guest agent", "install qemu-guest-agent in the template: without it, the engine reports " +
		"no DHCP addresses, shutdowns or addresses in use of guests"

	dc, err := use.Session.FindDataCenter(ctx, use.Engine.DataCenterName)
	if err != nil {
		e.addFinding(check, Unknown, "", "%v", err)
		return
	}

	template, err := use.Session.FindTemplateVersion(ctx, dc, spec.VMTemplateName, int(spec.VMTemplateVersion))
	if err != nil {
		e.addFinding(check, Unknown, remedy, "%v", err) // the name contains the version
		return
	}

	switch reports, known, err := preview.TemplateReports(ctx, use, template.ID); {
	case err != nil:
		e.addFinding(check, Unknown, remedy, "%v", err)
	case reports:
		e.addFinding(check, OK, "", "a guest of template %s reports its addresses", template.Name)
	case known:
		e.addFinding(
			check, Warning, remedy, "VMs of template %s are running, but no guest reports an address", template.Name,
		)
	default:
		e.addFinding(check, Unknown, remedy, "no VM of template %s is running, so it is unknown whether guests "+
			"report addresses", template.Name)
	}
}
