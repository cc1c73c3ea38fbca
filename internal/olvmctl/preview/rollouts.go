package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
)

// findOutdated returns the reasons for replacing machines of an owner, by machine name. Only machines in the management
// cluster can be outdated. Cluster API makes the same comparison.
func (m *Manifests) findOutdated(owner *unstructured.Unstructured) map[string]string {
	if m.LiveOf(owner) == nil {
		return nil
	}

	common, waiting := cmp.Or(m.changeForAll(owner, m.LiveAsWritten(owner)), m.lostTimeout(owner)), 0
	out := map[string]string{}
	machines := m.machinesMadeBy(owner)

	for _, machine := range machines {
		if m.isRemediated(owner, machine, machines) {
			out[machine.GetName()] = "a MachineHealthCheck has found it unhealthy"
			continue
		}

		reason := cmp.Or(m.changeFor(owner, machine), common, rolloutReason(owner, machine),
			m.expiryReason(owner, machine))

		switch {
		case reason == "":
		case isOnDelete(owner):
			waiting++
		default:
			out[machine.GetName()] = reason
		}
	}

	if waiting > 0 {
		m.addNote(fmt.Sprintf("%s: its strategy is OnDelete: %s replaced only when you delete them", ownerName(owner),
			english.Plural(waiting, "outdated machine is", "outdated machines are")))
	}

	return out
}

// kubeadmPath is the field of a control plane with the settings of kubeadm.
const kubeadmPath = "spec.kubeadmConfigSpec"

// rolloutPaths lists the fields of an owner rolling out all its machines on a change.
var rolloutPaths = []string{
	kubeadmPath, "spec.template.spec.bootstrap", "spec.template.spec.failureDomain",
}

// changeForAll returns the change that replaces all machines of an owner, or "". A field missing from the manifest is
// removed only if a manifest has set it before. live is the live owner in the API version of the manifest. If it is
// nil, every field may differ.
func (m *Manifests) changeForAll(owner, live *unstructured.Unstructured) string {
	if live == nil {
		return fmt.Sprintf("its apiVersion changes to %s, so its fields cannot be compared", owner.GetAPIVersion())
	}

	asked, there, owned := rolloutFields(owner), rolloutFields(live), m.ownershipOf(live)
	for _, path := range rolloutPaths {
		if path == kubeadmPath && owner.GetKind() != "KubeadmControlPlane" {
			continue
		}

		for _, fields := range []map[string]any{asked, there} {
			if path == kubeadmPath && fields[path] == nil {
				fields[path] = map[string]any{} // a manifest without the field removes all of it
			}
		}

		has, wants := there[path], asked[path]
		wants, has = owned.keyedLists(path).splitByKey(wants, has)
		removable, foreign := removableFields(owned.applied, wants, has, path)

		for _, field := range foreign {
			m.addNote(
				fmt.Sprintf("%s: %s is not in the manifest, but no manifest has set it: it stays, and replaces no "+
					"machine", ownerName(owner), shownPath(field)),
			)
		}

		found := cmp.Or(planinput.FirstDifference(wants, has, path), planinput.FirstDifference(removable, wants, path))
		if found != "" {
			return shownPath(found) + " changes"
		}
	}

	return ""
}

// lostTimeout tells a timeout of kubeadm removed by a manifest in v1beta1, unable to express it; empty for none.
func (m *Manifests) lostTimeout(owner *unstructured.Unstructured) string {
	live := m.LiveOf(owner)
	if owner.GetKind() != "KubeadmControlPlane" || owner.GetAPIVersion() == live.GetAPIVersion() {
		return ""
	}

	owned := m.ownershipOf(live)

	for _, when := range []string{"initConfiguration", "joinConfiguration"} {
		path := kubeadmPath + "." + when + ".timeouts"
		timeouts, _, _ := unstructured.NestedMap(live.Object, strings.Split(path, ".")...)

		for _, name := range slices.Sorted(maps.Keys(timeouts)) {
			// v1beta1 has these two elsewhere.
			if name == "controlPlaneComponentHealthCheckSeconds" ||
				name == "tlsBootstrapSeconds" && when == "joinConfiguration" {
				continue
			}

			field := path + "." + name
			if removable, _ := removableFields(owned.applied, nil, timeouts[name], field); removable != nil {
				return fmt.Sprintf("%s is not in %s, and may be removed", field, owner.GetAPIVersion())
			}
		}
	}

	return ""
}

// shownPath shows list items in brackets, without the dot.
func shownPath(path string) string { return strings.ReplaceAll(path, ".[", "[") }

// rolloutFields returns the fields that cause rollouts, by path. It omits fields that Cluster API fills in or changes
// in place.
func rolloutFields(owner *unstructured.Unstructured) map[string]any {
	spec := owner.DeepCopy()
	for _, field := range []string{"dns", "controlPlaneEndpoint"} {
		unstructured.RemoveNestedField(spec.Object, "spec", "kubeadmConfigSpec", "clusterConfiguration", field)
	}

	removeDefault(spec, "cloud-config", "spec", "kubeadmConfigSpec", "format")

	for _, when := range []string{"initConfiguration", "joinConfiguration"} {
		removeDefault(spec, "IfNotPresent", "spec", "kubeadmConfigSpec", when, "nodeRegistration", "imagePullPolicy")
	}

	out := map[string]any{}
	for _, path := range rolloutPaths {
		out[path], _, _ = unstructured.NestedFieldNoCopy(spec.Object, strings.Split(path, ".")...)
	}

	if bootstrap, ok := out["spec.template.spec.bootstrap"].(map[string]any); ok {
		ref := planinput.ReferenceAt(spec, "spec", "template", "spec", "bootstrap", "configRef")
		secret, _, _ := unstructured.NestedString(bootstrap, "dataSecretName")
		out["spec.template.spec.bootstrap"] = map[string]any{
			"configRef":      map[string]any{"group": ref.Group, "kind": ref.Kind, "name": ref.Name},
			"dataSecretName": secret,
		}
	}

	return out
}

// removeDefault removes a field if it has its default value.
func removeDefault(object *unstructured.Unstructured, value string, path ...string) {
	if has, _, _ := unstructured.NestedString(object.Object, path...); has == value {
		unstructured.RemoveNestedField(object.Object, path...)
	}
}

// changeFor returns the change that replaces one machine of an owner, or "".
func (m *Manifests) changeFor(owner, machine *unstructured.Unstructured) string {
	has, version := versionOf(machine), versionOf(owner)
	if version != "" && has != "" && has != version {
		return fmt.Sprintf("version %s becomes %s", has, version)
	}

	_, template := planinput.MachineRefs(owner)
	_, ref := planinput.MachineRefs(machine)

	infra := m.OLVMMachines[types.NamespacedName{Namespace: machine.GetNamespace(), Name: ref.Name}]
	if infra == nil {
		return ""
	}

	from := infra.Annotations[clusterv1.TemplateClonedFromNameAnnotation]
	if template.Kind != "" && !template.IsOf("OLVMMachineTemplate") {
		return fmt.Sprintf("its template becomes %s %s of another provider",
			schema.GroupKind{Group: template.Group, Kind: template.Kind}, template.Name)
	}

	if from == "" || template.Name == "" || from == template.Name {
		return ""
	}

	return fmt.Sprintf("template %s becomes %s", from, template.Name)
}

// rolloutReason returns a reason if a machine is older than the rollout time of its owner, or "".
func rolloutReason(owner, machine *unstructured.Unstructured) string {
	after, made := rolloutAfter(owner), machine.GetCreationTimestamp()
	if after.IsZero() || after.After(time.Now()) || made.IsZero() || !made.Time.Before(after) {
		return ""
	}

	return "spec.rollout.after " + after.UTC().Format(time.RFC3339) + " has passed"
}

// expiryReason returns a reason if a machine's certificates end within the days of its control plane; empty if not.
func (m *Manifests) expiryReason(owner, machine *unstructured.Unstructured) string {
	if owner.GetKind() != "KubeadmControlPlane" {
		return ""
	}

	ends, err := time.Parse(time.RFC3339, m.certificatesExpiry(machine))
	if err != nil {
		return ""
	}

	for _, field := range []string{"rollout.before", "rolloutBefore"} {
		path := append(strings.Split("spec."+field, "."), "certificatesExpiryDays")
		days, found, _ := unstructured.NestedInt64(owner.Object, path...)

		// A Duration has no more than 106,751 days.
		if found && days > 0 && (days > 100_000 || time.Now().Add(time.Duration(days)*24*time.Hour).After(ends)) {
			return fmt.Sprintf("its certificates end within %d days (spec.%s)", days, field)
		}
	}

	return ""
}

// certificatesExpiry returns the time at which the certificates of a machine end, or "". Like Cluster API, it prefers
// the annotation of the Machine, and then that of the KubeadmConfig.
func (m *Manifests) certificatesExpiry(machine *unstructured.Unstructured) string {
	ref := planinput.ReferenceAt(machine, "spec", "bootstrap", "configRef")
	config := m.KubeadmConfigs[planinput.KubeadmConfigKey{
		Kind: ref.Kind, Namespace: machine.GetNamespace(), Name: ref.Name,
	}]

	for _, object := range []*unstructured.Unstructured{machine, config} {
		if object == nil {
			continue
		}

		if text, found := object.GetAnnotations()[clusterv1.MachineCertificatesExpiryDateAnnotation]; found {
			return text
		}
	}

	text, _, _ := unstructured.NestedString(machine.Object, "status", "certificatesExpiryDate")

	return text
}

// rolloutAfter returns the time of an owner for replacing all older machines; zero for none.
func rolloutAfter(owner *unstructured.Unstructured) time.Time {
	for _, path := range [][]string{{"spec", "rollout", "after"}, {"spec", "rolloutAfter"}} {
		text, _, _ := unstructured.NestedString(owner.Object, path...)
		if after, err := time.Parse(time.RFC3339, text); err == nil {
			return after
		}
	}

	return time.Time{}
}

// isOnDelete reports whether an owner replaces outdated machines only after a user has deleted them.
func isOnDelete(owner *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "rollout", "strategy", "type"}, {"spec", "strategy", "type"}} {
		if kind, _, _ := unstructured.NestedString(owner.Object, path...); kind == "OnDelete" {
			return true
		}
	}

	return false
}

// leastForRemediation is the smallest number of control plane machines at which Cluster API replaces an unhealthy one.
// etcd then keeps its quorum.
const leastForRemediation = 3

// isRemediated reports whether a MachineHealthCheck makes the owner replace a machine. It adds a note about an
// unhealthy machine that is not replaced now, for one of two reasons. Cluster API does not remediate a control plane
// with too few machines, or with several unhealthy machines. A MachineHealthCheck with a remediation template leaves
// the remediation to another controller.
func (m *Manifests) isRemediated(owner, machine *unstructured.Unstructured, all []*unstructured.Unstructured) bool {
	if machine.GetDeletionTimestamp() != nil ||
		conditionOf(machine, clusterv1.MachineHealthCheckSucceededCondition) != "False" {
		return false
	}

	if conditionOf(machine, clusterv1.MachineOwnerRemediatedCondition) != "False" {
		if conditionOf(machine, clusterv1.MachineExternallyRemediatedCondition) == "False" {
			m.addNote(fmt.Sprintf("Machine %s/%s is unhealthy: its MachineHealthCheck uses a remediation template; "+
				"an OLVMRemediation reboots the VM first, and replaces the machine if this does not help",
				machine.GetNamespace(), machine.GetName()))
		}

		return false
	}

	if owner.GetKind() != "KubeadmControlPlane" {
		return true
	}

	machines, unhealthy := 0, 0

	for _, one := range all {
		if one.GetDeletionTimestamp() != nil {
			continue
		}

		machines++

		if isUnhealthy(one) {
			unhealthy++
		}
	}

	if machines >= leastForRemediation && unhealthy == 1 {
		return true
	}

	m.addNote(fmt.Sprintf("%s: Machine %s is unhealthy, but may not be replaced: %d of %s unhealthy, and Cluster "+
		"API replaces only one unhealthy machine of at least %d", ownerName(owner), machine.GetName(), unhealthy,
		english.Plural(machines, "machine is", "machines are"), leastForRemediation))

	return false
}

// isUnhealthy reports whether Cluster API treats a machine as unhealthy when it chooses a machine to delete. Without a
// status, it returns false.
func isUnhealthy(machine *unstructured.Unstructured) bool {
	status, found, _ := unstructured.NestedMap(machine.Object, "status")
	if !found || len(status) == 0 {
		return false
	}

	node, _, _ := unstructured.NestedString(status, "nodeRef", "name")

	return node == "" || conditionOf(machine, clusterv1.MachineNodeHealthyCondition) == "False" ||
		conditionOf(machine, clusterv1.MachineHealthCheckSucceededCondition) == "False"
}

// conditionOf returns the status of a condition, or "" if the object does not have it.
func conditionOf(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == kind {
			return fmt.Sprint(fields["status"])
		}
	}

	return ""
}

func ownerName(owner *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", owner.GetKind(), owner.GetNamespace(), owner.GetName())
}

// addNote adds a line to all outputs.
func (m *Manifests) addNote(line string) { m.notes = append(m.notes, line) }

// noteWaiting adds notes about work the controllers do not do now: paused objects do not change, and a rollout may be
// scheduled for later.
func (m *Manifests) noteWaiting() {
	for _, cluster := range m.Clusters {
		if m.isPaused(cluster) {
			m.addNote(ownerName(cluster) + " is paused: its changes take effect only after it is resumed")
		}
	}

	m.noteRemediations()
	m.noteMachinePools()

	for _, part := range m.HealthChecks() {
		if found := changeOfSpec(part, timedSpec); found != "" {
			m.addNote(fmt.Sprintf("%s: %s: Cluster API destroys machines of Cluster %s/%s that it finds unhealthy, "+
				"which the plan cannot show", ownerName(part.Written), found,
				part.Written.GetNamespace(), part.Cluster))
		}
	}

	for _, owner := range m.Owners {
		if owner.GetKind() == "Machine" {
			continue
		}

		if m.isPaused(owner) {
			m.addNote(ownerName(owner) + " is paused: its changes take effect only after it is resumed")
		}

		if after := rolloutAfter(owner); after.After(time.Now()) && len(m.machinesMadeBy(owner)) > 0 {
			m.addNote(fmt.Sprintf("%s: all its existing machines are replaced after %s (spec.rollout.after)",
				ownerName(owner), after.UTC().Format(time.RFC3339)))
		}
	}
}

// changeOfSpec returns the change of an object, or "" for none. specOf returns the specification to compare.
func changeOfSpec(part planinput.ClassPart, specOf func(*unstructured.Unstructured) any) string {
	switch {
	case part.Unread != "":
		return part.Unread + ", so it may change"
	case part.Live == nil:
		return "it is new"
	}

	return describeSpecChange(specOf(part.Written), specOf(part.Live))
}

// timedSpec is the specification of a MachineHealthCheck with Cluster API's default, in v1beta2 or v1beta1.
func timedSpec(check *unstructured.Unstructured) any {
	path, standard := []string{"spec", "checks", "nodeStartupTimeoutSeconds"}, any(int64(600))
	if check.GroupVersionKind().Version == "v1beta1" {
		path, standard = []string{"spec", "nodeStartupTimeout"}, "10m0s"
	}

	out := check.DeepCopy()
	if _, found, _ := unstructured.NestedFieldNoCopy(out.Object, path...); !found {
		_ = unstructured.SetNestedField(out.Object, standard, path...) // a parent of another type differs anyway
	}

	return out.Object["spec"]
}

// isPaused reports whether an object is paused: according to its manifest, or else to the management cluster.
func (m *Manifests) isPaused(object *unstructured.Unstructured) bool {
	for _, one := range []*unstructured.Unstructured{object, m.LiveOf(object)} {
		if one == nil {
			continue
		}

		if annotations.HasPaused(one) {
			return true
		}

		if paused, found, _ := unstructured.NestedBool(one.Object, "spec", "paused"); found {
			return paused
		}
	}

	return false
}

func versionOf(owner *unstructured.Unstructured) string {
	for _, path := range [][]string{{"spec", "template", "spec", "version"}, {"spec", "version"}} {
		if version, _, _ := unstructured.NestedString(owner.Object, path...); version != "" {
			return "v" + strings.TrimPrefix(version, "v") // like Cluster API
		}
	}

	return ""
}
