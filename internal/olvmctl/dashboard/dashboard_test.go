package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/browser"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// hostile is a text that does harm if a page interprets it as HTML.
const hostile = `<img src=x onerror="document.title='hit'">`

// noon is the time used everywhere in these tests.
var noon = metav1.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func named(name string, labels map[string]string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), CreationTimestamp: noon}
	out.Labels = map[string]string{clusterv1.ClusterNameLabel: "shop"}

	for key, value := range labels {
		out.Labels[key] = value
	}

	return out
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: noon}
}

// waiting returns a condition and a condition Ready, both not true.
func waiting(kind, reason, message string) []metav1.Condition {
	return []metav1.Condition{
		condition("Ready", metav1.ConditionFalse, reason, message),
		condition(kind, metav1.ConditionFalse, reason, message),
	}
}

var isReady = []metav1.Condition{condition("Ready", metav1.ConditionTrue, "Ready", "")}

// machineOf returns a Machine of an owner, and its OLVMMachine.
func machineOf(name, phase string, labels map[string]string, vm *infrav1.OLVMMachine) []client.Object {
	machine := &clusterv1.Machine{ObjectMeta: named(name, labels)}
	machine.Spec.Version = "v1.36.1"
	machine.Spec.InfrastructureRef.Kind, machine.Spec.InfrastructureRef.Name = "OLVMMachine", name
	machine.Status.Phase = phase
	machine.Status.Conditions = vm.Status.Conditions

	vm.ObjectMeta = named(name, labels)
	vm.UID = types.UID(name + "-vm")
	vm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: name, UID: "1"}}

	return []client.Object{machine, vm}
}

func vmWith(id, status string, conditions []metav1.Condition) *infrav1.OLVMMachine {
	vm := &infrav1.OLVMMachine{}
	vm.Status.Conditions = conditions

	if id != "" {
		vm.Spec.ProviderID = "olvm://" + id
		vm.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.11"}}
		vm.Status.OLVM = &infrav1.OLVMStatus{}
		vm.Status.OLVM.VirtualMachine = infrav1.VirtualMachineStatus{VMID: id, Status: status, HostName: "host-1"}
		vm.Status.Terraform = &infrav1.TerraformStatus{Runs: 1, LastRun: &infrav1.TerraformRun{
			Operation:      "Apply",
			Result:         "Succeeded",
			StartTime:      noon,
			CompletionTime: metav1.NewTime(noon.Add(2 * time.Second)),
			Added:          2,
			Changes: []string{
				"create ovirt_vm.this",
				"update ovirt_nic.nic1",
				"delete ovirt_disk_attachment.old",
			},
		}}
	}

	return vm
}

// site returns a cluster under creation. Its control plane node is starting, one worker waits for this node, and one
// worker waits for a user.
func site() []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: named("shop", nil)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "OLVMCluster", Name: "shop"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "shop-cp",
	}
	cluster.Status.Phase = "Provisioned"
	cluster.Status.Conditions = []metav1.Condition{
		condition("Available", metav1.ConditionFalse, "NotAvailable", "* ControlPlaneAvailable: not yet"),
		condition("ControlPlaneInitialized", metav1.ConditionFalse, "NotInitialized", ""),
	}

	infra := &infrav1.OLVMCluster{ObjectMeta: named("shop", nil)}
	infra.UID = "shop-infra"
	infra.Spec.OLVMOvirtAPIServer.ServerURL = "https://engine.example.com/ovirt-engine"
	infra.Status.Conditions = isReady

	plane := &controlplanev1.KubeadmControlPlane{ObjectMeta: named("shop-cp", nil)}
	plane.Spec.Replicas, plane.Spec.Version = ptr.To[int32](1), "v1.36.1"
	plane.Status.Conditions = []metav1.Condition{
		condition("Available", metav1.ConditionFalse, "NotAvailable", "etcd is new"),
	}

	workers := &clusterv1.MachineDeployment{ObjectMeta: named("shop-md", nil)}
	workers.Spec.Replicas, workers.Spec.Template.Spec.Version = ptr.To[int32](2), "v1.36.1"
	workers.Status.Conditions = []metav1.Condition{condition("Available", metav1.ConditionFalse, "NotAvailable", "")}

	ofPlane := map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	ofWorkers := map[string]string{clusterv1.MachineDeploymentNameLabel: "shop-md"}
	out := []client.Object{cluster, infra, plane, workers}
	out = append(out, machineOf("shop-cp-x7k2p", "Provisioning", ofPlane, vmWith(
		"0f9b",
		"wait_for_launch",
		waiting(
			infrav1.VirtualMachineRunningCondition, infrav1.VirtualMachineStartingReason, "The VM is starting",
		),
	))...)
	out = append(out, machineOf("shop-md-9qwzt", "Pending", ofWorkers, vmWith("", "",
		waiting(infrav1.BootstrapDataAvailableCondition, infrav1.WaitingForBootstrapDataReason, "")))...)
	out = append(out, machineOf("shop-md-tzx4c", "Pending", ofWorkers, vmWith("", "",
		waiting(infrav1.InfrastructureAppliedCondition, infrav1.VMTemplateNotFoundReason,
			"spec.vmTemplateName: "+hostile)))...)

	return append(out, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "e1"}, Type: "Warning", Reason: "VMTemplateNotFound",
		EventTime: metav1.NewMicroTime(noon.Time), Note: "there is no template " + hostile,
	})
}

// watched returns a watcher with the given objects.
func watched(t *testing.T, objects []client.Object) *watcher {
	t.Helper()

	for _, object := range objects {
		if event, ok := object.(*eventsv1.Event); ok {
			event.Regarding.Kind, event.Regarding.Namespace, event.Regarding.Name = "OLVMMachine", "prod", "shop-md-tzx4c"
		}
	}

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, controlplanev1.AddToScheme, api.AddToScheme, eventsv1.AddToScheme,
	} {
		check.Error(t, add(scheme), "")
	}

	w := &watcher{
		Options: Options{},
		server:  "https://management.example.com:6443",
		reader:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		history: newHistory(),
		unseen:  map[string]string{},
		lost:    map[string]*loss{},
	}
	for _, object := range objects {
		w.history.recordObject(object, noon.Time)
	}

	return w
}

func TestWhatWaitsForWhat(t *testing.T) {
	w := watched(t, site())
	state := w.buildState(t.Context())
	check.Length(t, "state.Problems", state.Problems, 0)
	check.Length(t, "state.Clusters", state.Clusters, 1)

	var got []string

	for _, wait := range state.Clusters[0].Waits {
		var who []string
		for _, ref := range wait.Who {
			who = append(who, ref.Name)
		}

		got = append(got, strings.Join(who, "+")+" -> "+wait.For.Kind+" "+wait.For.Name)
	}

	check.Equal(t, "waits", got, []string{
		"shop -> KubeadmControlPlane shop-cp",
		"shop-cp -> Machine shop-cp-x7k2p",
		"shop-cp-x7k2p -> engine https://engine.example.com/ovirt-engine",
		"shop -> MachineDeployment shop-md",
		"shop-md -> Machine shop-md-9qwzt",
		"shop-md-9qwzt -> KubeadmControlPlane shop-cp",
		"shop-md -> Machine shop-md-tzx4c",
		"shop-md-tzx4c -> you you",
	})
}

func TestDetailsHaveWhatHappened(t *testing.T) {
	w := watched(t, site())
	of := Ref{Kind: "Machine", Namespace: "prod", Name: "shop-cp-x7k2p"}

	var vm infrav1.OLVMMachine
	check.Error(t, w.reader.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: of.Name}, &vm), "")
	conditions.Set(&vm, metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "Ready",
		LastTransitionTime: metav1.NewTime(noon.Add(time.Minute)),
	})

	writer, _ := w.reader.(client.Client)
	check.Error(t, writer.Update(t.Context(), &vm), "")
	w.history.recordObject(&vm, noon.Add(time.Minute))

	details := w.findDetails(t.Context(), of)
	check.Equal(t, "details.Found", details.Found, true)
	check.Length(t, "details.Objects", details.Objects, 2)

	var ready []string
	var plan []string

	for _, step := range details.Steps {
		switch {
		case step.Kind == "OLVMMachine" && step.Name == "Ready":
			ready = append(ready, step.State)
		case step.What == "run":
			plan = append(plan, step.Changes...)
		}
	}

	check.Equal(t, "what Ready went through, the newest first", ready, []string{"True", "False"})
	check.Equal(t, "the plan", plan,
		[]string{"create ovirt_vm.this", "update ovirt_nic.nic1", "delete ovirt_disk_attachment.old"})

	// Deleted objects, and kinds the page never shows, are not found.
	for _, other := range []Ref{{Kind: "Machine", Namespace: "prod", Name: "gone"}, {Kind: "Secret", Namespace: "prod", Name: "x"}} {
		check.Equal(t, other.Kind, w.findDetails(t.Context(), other).Found, false)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := newHistory()
	cluster := &clusterv1.Cluster{ObjectMeta: named("shop", nil)}

	for i := range 3 * mostSteps {
		status := metav1.ConditionTrue
		if i%2 == 0 {
			status = metav1.ConditionFalse
		}

		cluster.Status.Conditions = []metav1.Condition{{
			Type: "Ready", Status: status, LastTransitionTime: metav1.NewTime(noon.Add(time.Duration(i) * time.Second)),
		}}
		h.recordObject(cluster, noon.Time)
		h.recordObject(cluster, noon.Time) // nothing has changed
	}

	steps := h.stepsOf(cluster)
	check.Length(t, "steps", steps, mostSteps)
	check.Equal(t, "the newest", steps[mostSteps-1].Time, noon.Add((3*mostSteps-1)*time.Second))

	h.dropObject(cluster)
	check.Length(t, "steps of what is gone", h.stepsOf(cluster), 0)
}

func TestKindsThatAreNotSeenAreSaid(t *testing.T) {
	w := watched(t, site())
	w.unseen["OLVMMachines"] = "you may not"
	w.reader = &partial{Reader: w.reader, missing: w.unseen}

	state := w.buildState(t.Context())
	check.Equal(t, "state.Problems", state.Problems, []string{"No OLVMMachines: you may not"})
	check.Length(t, "state.Clusters", state.Clusters, 1)
	check.Equal(t, "VM of a machine",
		state.Clusters[0].Tree.Children[1].Children[0].Machine.VMID, "")
}

func TestAWatchThatFailsIsSaidUntilItsKindIsThereAgain(t *testing.T) {
	w := watched(t, site())
	var away atomic.Bool
	away.Store(true)

	objects, _ := w.reader.(client.WithWatch)
	w.In = &mgmtcluster.Cluster{Client: interceptor.NewClient(objects, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, isEvents := list.(*eventsv1.EventList); isEvents && away.Load() {
				return errors.New("gone")
			}

			return c.List(ctx, list, o...)
		},
	})}

	w.watchFailed(t.Context(), "*v1.Event", io.EOF) // as at every end of a watch
	check.Length(t, "problems of a watch that has ended", w.buildState(t.Context()).Problems, 0)

	w.watchFailed(t.Context(), "*v1.Event", errors.New("connection refused"))
	check.Equal(t, "problems", w.buildState(t.Context()).Problems,
		[]string{"Some watches fail, so the page may be out of date: events: connection refused"})

	for {
		changed := w.changed.NextChange()
		away.Store(false)

		if len(w.buildState(t.Context()).Problems) == 0 {
			return
		}

		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("it is still said")
		}
	}
}

func TestThePageIsForThoseWhoKnowItsToken(t *testing.T) {
	page, err := servePage(t.Context(), "127.0.0.1:0", watched(t, site()))
	check.Error(t, err, "")
	defer page.Close()

	base := page.URL()[:strings.LastIndex(strings.TrimSuffix(page.URL(), "/"), "/")+1]

	for url, want := range map[string]int{
		page.URL():                       http.StatusOK,
		page.URL() + "page/clusters.js":  http.StatusOK,
		page.URL() + "base/base.css":     http.StatusOK,
		page.URL() + "page/dashboard.go": http.StatusNotFound,
		base:                             http.StatusForbidden,
		base + "events":                  http.StatusForbidden,
		base + "wrong/events":            http.StatusForbidden,
		base + "base/base.css":           http.StatusForbidden,
	} {
		status, content := get(t, http.MethodGet, url)
		check.Equal(t, url, status, want)
		check.Length(t, "unsafe in "+url, browser.FindUnsafe(content), 0)
	}

	status, _ := get(t, http.MethodPost, page.URL()+"events")
	check.Equal(t, "POST", status, http.StatusMethodNotAllowed)
}

func get(t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	check.Error(t, err, "")

	response, err := http.DefaultTransport.RoundTrip(request)
	check.Error(t, err, "")
	defer response.Body.Close()

	if response.Header.Get("Content-Type") == "text/event-stream" {
		return response.StatusCode, ""
	}

	content, err := io.ReadAll(response.Body)
	check.Error(t, err, "")

	return response.StatusCode, string(content)
}

func TestTheStreamTellsWhatHasChanged(t *testing.T) {
	w := watched(t, site())
	page, err := servePage(t.Context(), "127.0.0.1:0", w)
	check.Error(t, err, "")
	defer page.Close()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page.URL()+"events", nil)
	check.Error(t, err, "")
	response, err := http.DefaultClient.Do(request)
	check.Error(t, err, "")
	defer response.Body.Close()

	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)

	next := func() (state State) {
		t.Helper()

		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				check.Error(t, json.Unmarshal([]byte(data), &state), "")
				return state
			}
		}

		t.Fatal("the stream has ended")

		return state
	}

	check.Length(t, "clusters at first", next().Clusters, 1)

	writer, _ := w.reader.(client.Client)
	check.Error(t, writer.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: named("shop", nil)}), "")
	w.changed.WakeAll()
	check.Length(t, "clusters after one was deleted", next().Clusters, 0)
}

// line returns JavaScript to find the line of a machine.
func line(name string) string { return `document.querySelector('a.machine[href$="` + name + `"]')` }

func TestThePageInABrowser(t *testing.T) {
	page, err := servePage(t.Context(), "127.0.0.1:0", watched(t, site()))
	check.Error(t, err, "")
	t.Cleanup(page.Close)

	v := browser.OpenPage(t, page.URL(), 1400, 900)
	v.WaitUntil(`document.querySelectorAll('a.machine').length === 3`)
	v.WaitUntil(line("shop-cp-x7k2p") + `.innerText.includes('VM wait for launch')`)
	v.WaitUntil(
		`document.querySelector('.waits').innerText.includes('Machine shop-md-9qwzt waits for KubeadmControlPlane shop-cp')`,
	)

	// Users' texts are shown as text. Problems for the user are at the top, and counted in the title.
	v.WaitUntil(
		`document.querySelector('#trouble').innerText.includes('onerror=') && document.querySelectorAll('img').length === 0`,
	)
	v.WaitUntil(`document.title === '(1) olvmctl: 1 cluster'`)

	// A click on a machine selects it. Its details show conditions, and the plan of its run in color.
	v.RunScript(line("shop-cp-x7k2p") + `.click()`)
	v.WaitUntil(
		`location.hash === '#Machine/prod/shop-cp-x7k2p' && document.querySelector('#details-conditions').innerText.includes('VirtualMachineRunning')`,
	)
	v.WaitUntil(
		`document.querySelector('.plan').innerText.includes('ovirt_nic.nic1') && document.querySelectorAll('#run-plan .change').length === 3`,
	)
	colors := browser.Eval[int](v,
		`new Set([...document.querySelectorAll('.change')].map(c => getComputedStyle(c).color)).size`)
	check.Equal(t, "colours of a plan", colors, 3)
	v.WaitUntil(line("shop-cp-x7k2p") + `.getAttribute('aria-current') === 'true'`)

	// This tests the filter.
	v.TypeInto("#filter", "wait launch")
	v.WaitUntil(
		`document.querySelector('#matches').innerText === '1 of 3 machines' && document.querySelectorAll('a.machine').length === 1`,
	)
	v.TypeInto("#filter", "")
	v.WaitUntil(`document.querySelectorAll('a.machine').length === 3`)

	// The Tab key reaches all controls in the order of the document.
	total := browser.Eval[int](v, browser.Operable+`.length`)
	v.RunScript(
		`document.activeElement.blur(); window.scrollTo(0, 0); document.querySelector('.skip').focus(); window.reached = [document.activeElement]; document.addEventListener('focusin', e => reached.push(e.target))`,
	)

	for range total - 1 {
		v.RunSteps(chromedp.KeyEvent(kb.Tab))
	}

	missed := browser.Eval[string](v,
		browser.Operable+`.filter((n, i) => reached[i] !== n).map(n => n.outerHTML.slice(0, 120)).join('\n')`)
	check.Equal(t, "what Tab does not reach", missed, "")

	v.CheckReadable()
	check.Length(t, "what the console has", v.ListComplaints(), 0)
}
