package dashboard

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/browser"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// opened opens a page with the objects in a browser.
func opened(t *testing.T, w *watcher) *browser.View {
	t.Helper()
	page, err := servePage(t.Context(), "127.0.0.1:0", w)
	check.Error(t, err, "")
	t.Cleanup(page.Close)

	return browser.OpenPage(t, page.URL(), 1400, 900)
}

// fleet returns 60 clusters of three tenants. Most have no problems, some are changing, and two are in trouble.
func fleet(t *testing.T, since metav1.Time) []client.Object {
	t.Helper()
	var objects []client.Object

	for i := range 60 {
		name := fmt.Sprintf("%s-%02d", []string{"shop", "crm", "build"}[i%3], i)
		objects = append(objects, small([]string{"prod", "sales", "ci"}[i%3], name, since)...)

		switch i {
		case 17:
			find[*clusterv1.Cluster](t, objects, name).Spec.Paused = ptr.To(true)
		case 23, 41:
			setVM(t, objects, name+"-cp-0", infrav1.VirtualMachineNotFoundReason)
		case 30, 31:
			find[*controlplanev1.KubeadmControlPlane](t, objects, name+"-cp").Spec.Version = "v1.36.2"
		case 44:
			fresh := find[*clusterv1.Cluster](t, objects, name)
			fresh.Status.Phase, fresh.Status.Conditions = "Provisioning", nil
		}
	}

	return objects
}

func TestThePageOfManyClustersInABrowser(t *testing.T) {
	testenv.SkipInShort(t, "starts a browser; TestThePageInABrowser does, too")

	v := opened(t, watched(t, fleet(t, noon)))

	// All clusters are collapsed lines, those in trouble first, and the figures agree with the lines.
	v.WaitUntil(
		`document.querySelectorAll('.cluster').length === 60 && document.querySelectorAll('a.machine').length === 0`,
	)
	v.WaitUntil(
		`[...document.querySelectorAll('.line .state')].slice(0, 2).every(s => s.innerText.includes('In trouble'))`,
	)
	v.WaitUntil(
		`[...document.querySelectorAll('.line .state')].filter(s => s.innerText.includes('Available')).length === 54`,
	)
	v.WaitUntil(`document.querySelector('#figures').innerText.includes('54 available')`)
	v.WaitUntil(
		`document.querySelector('#trouble-title').innerText === 'In trouble: 2' && document.title.startsWith('(2)')`,
	)

	// A click or a key opens and closes a line. One control does this for all lines.
	v.RunScript(`document.querySelector('.toggle').focus(); document.querySelector('.toggle').click()`)
	v.WaitUntil(
		`document.querySelectorAll('a.machine').length === 1 && document.querySelector('.toggle').ariaExpanded === 'true'`,
	)
	v.WaitUntil(`document.querySelector('a.machine').innerText.includes('VM gone')`)
	v.RunScript(`document.querySelector('#toggle-all').click()`)
	v.WaitUntil(`document.querySelectorAll('a.machine').length === 60`)
	v.RunScript(`document.querySelector('#toggle-all').click()`)
	v.WaitUntil(`document.querySelectorAll('a.machine').length === 0`)

	// The filter finds clusters and machines by name, and opens the clusters with these machines.
	v.TypeInto("#filter", "shop-03-cp-0")
	v.WaitUntil(`document.querySelector('#matches').innerText === '1 of 60 machines, 1 of 60 clusters'`)
	v.WaitUntil(`document.querySelectorAll('a.machine').length === 1`)
	v.TypeInto("#filter", "")
	v.WaitUntil(`document.querySelectorAll('.cluster').length === 60`)

	// Times are shown as ages, with the date as a tooltip.
	v.WaitUntil(`/^\d+ days ago$/.test(document.querySelector('.line .age').innerText)`)
	v.WaitUntil(`document.querySelector('.line time').title.startsWith('2026-11-25 ')`)

	v.CheckReadable()
	check.Length(t, "what the console has", v.ListComplaints(), 0)
}

func TestThePageOfADeadAPIServerIsNotLive(t *testing.T) {
	testenv.SkipInShort(t, "starts a browser; TestADeadAPIServerIsSaidAndNobodyElseIsBlamed has the state")

	w := watched(t, small("prod", "shop", noon))
	v := opened(t, w)
	v.WaitUntil(`document.querySelector('#connection-text').innerText === 'Live'`)
	v.WaitUntil(`document.querySelectorAll('#watch-list li').length === ` + fmt.Sprint(len(watchedKinds)))

	w.recordServerAnswer(t.Context(), errors.New("connection refused"))
	v.WaitUntil(`document.querySelector('#connection').dataset.kind === 'bad'`)
	v.WaitUntil(`document.querySelector('#connection-text').innerText.startsWith('API server unreachable since ')`)
	v.WaitUntil(`document.querySelector('#trouble').innerText.includes('connection refused')`)
	v.WaitUntil(`[...document.querySelectorAll('#watch-list li')].every(l => l.innerText.includes('lost'))`)
	v.RunScript(`window.began = Date.now()`)
	v.WaitUntil(`Date.now() - began > 3000`) // an idle stream must not make the page live
	v.WaitUntil(`document.querySelector('#connection').dataset.kind === 'bad'`)

	w.recordServerAnswer(t.Context(), nil)
	v.WaitUntil(`document.querySelector('#connection-text').innerText === 'Live'`)

	w.mu.Lock()
	w.lost["Machines"] = &loss{noon.Time, noon.Time, errors.New("forbidden")}
	w.mu.Unlock()
	w.changed.WakeAll()
	v.WaitUntil(
		`document.querySelector('#connection-text').innerText === '1 of ` + fmt.Sprint(
			len(watchedKinds),
		) + ` watches lost'`,
	)
}

// TestNamesOfTenantsDoNoHarmInABrowser has texts that would do harm if a page interpreted them as HTML, and texts that
// imitate others. The API server rejects such texts in names, but accepts them in messages, versions and labels.
func TestNamesOfTenantsDoNoHarmInABrowser(t *testing.T) {
	testenv.SkipInShort(t, "starts a browser; TestThePageInABrowser has a hostile text, too")

	const evil = hostile + `</script><script>document.title='hit'</script>"'` + "` \u202egnp.exe\u200b"

	objects := small("prod", "shop", noon)
	cluster := find[*clusterv1.Cluster](t, objects, "shop")
	cluster.Status.Conditions = []metav1.Condition{condition("Available", metav1.ConditionFalse, "Evil", evil)}
	cluster.Status.Phase = evil
	find[*controlplanev1.KubeadmControlPlane](t, objects, "shop-cp").Spec.Version = evil
	vm := find[*infrav1.OLVMMachine](t, objects, "shop-cp-0")
	vm.Annotations = map[string]string{"cluster.x-k8s.io/evil": evil}
	vm.Status.OLVM.VirtualMachine.Status, vm.Status.OLVM.VirtualMachine.HostName = evil, evil
	vm.Spec.VirtualMachine.Memory = infrav1.Size(evil)
	vm.Status.Terraform.LastRun.Changes = []string{evil}
	vm.Status.Terraform.Drift = &infrav1.DriftStatus{CheckTime: noon, Error: evil}
	objects = append(objects, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "e"}, Reason: evil, Note: evil,
		EventTime: metav1.NewMicroTime(noon.Time),
	})

	v := opened(t, watched(t, objects))
	v.RunScript(`location.hash = '#Machine/prod/shop-cp-0'`)
	v.WaitUntil(`document.querySelector('#details-facts').innerText.includes('onerror=')`)
	v.WaitUntil(`document.querySelector('#details-yaml').textContent.includes('onerror=')`)
	v.WaitUntil(`document.querySelector('#event-list').innerText.includes('onerror=')`)

	for _, hash := range []string{"#%", "#%E0%A4%A/x/y", "#__proto__/constructor/toString", "#Machine/prod/" +
		`%3Cimg%20src=x%20onerror=document.title='hit'%3E`} {
		v.RunScript(fmt.Sprintf(`location.hash = %q`, hash))
	}

	v.WaitUntil(
		`document.querySelectorAll('img, body script:not([src])').length === 0 && !document.title.includes('hit')`,
	)
	v.WaitUntil(`!/[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.textContent)`)
	v.WaitUntil(`document.querySelector('#connection-text').innerText === 'Live'`)
	check.Length(t, "what the console has", v.ListComplaints(), 0)
}

// TestScreenshots writes the pictures in the documentation to the folder $OLVMCTL_SCREENSHOTS.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("OLVMCTL_SCREENSHOTS")
	if folder == "" {
		t.Skip("OLVMCTL_SCREENSHOTS names no folder")
	}

	noon = metav1.NewTime(time.Now().Add(-3 * time.Minute).Truncate(time.Second))

	objects := site()
	for _, object := range objects {
		if vm, ok := object.(*infrav1.OLVMMachine); ok {
			vm.Spec.VMTemplateName, vm.Spec.VirtualMachine.Memory = "ol9-k8s", "16GB"
			vm.Spec.VirtualMachine.RootDisk = &infrav1.RootDisk{Size: "100GB"}
			vm.Spec.VirtualMachine.DataDisks = []infrav1.DataDisk{
				{Name: "etcd", Size: "20GB", StorageDomainName: "fast"},
			}
		}

		if vm, ok := object.(*infrav1.OLVMMachine); ok && vm.Name == "shop-md-tzx4c" {
			vm.Status.Conditions = waiting(infrav1.InfrastructureAppliedCondition, infrav1.VMTemplateNotFoundReason,
				`spec.vmTemplateName: there is no template "ol9-k8s-1.36" in data center "Default"; it has ol9-k8s`)
		}

		if event, ok := object.(*eventsv1.Event); ok {
			event.Note = `there is no template "ol9-k8s-1.36" in data center "Default"`
		}
	}

	one, many := opened(
		t, watched(t, objects),
	), opened(
		t, watched(t, fleet(t, metav1.NewTime(noon.Add(-50*time.Hour)))),
	)

	one.RunScript(`location.hash = '#Machine/prod/shop-cp-x7k2p'`)
	one.WaitUntil(`document.querySelector('.plan').innerText.includes('ovirt_nic.nic1')`)

	for _, scheme := range []string{"light", "dark"} {
		for name, v := range map[string]*browser.View{"one": one, "many": many} {
			v.SetColors(scheme)
			v.TakeScreenshot(folder, fmt.Sprintf("olvmctl-ui-%s-%s.png", name, scheme), 1400, 900)
			v.TakeScreenshot(folder, fmt.Sprintf("olvmctl-ui-%s-%s-phone.png", name, scheme), 400, 800)
		}
	}
}

// TestAVMIsMissingOnlyInAnEngineThatAnswers has the state before the first answer. No browser has confirmed how the
// page shows this: the test compares the condition in its script as text.
func TestAVMIsMissingOnlyInAnEngineThatAnswers(t *testing.T) {
	w := watched(t, small("prod", "shop", noon))
	w.engines = newEngines(w)
	infra := find[*infrav1.OLVMCluster](t, small("prod", "shop", noon), "shop")
	url := engine.RedactURL(infra.Spec.OLVMOvirtAPIServer.ServerURL)
	w.engines.setExpected(map[string][]*infrav1.OLVMCluster{url: {infra}, "https://other": {infra}})

	state := w.buildState(t.Context())
	check.Length(t, "engines that were not asked yet", state.Engines, 2)
	check.Equal(t, "whether one has answered", state.Engines[0].At.IsZero() && state.Engines[1].At.IsZero(), true)
	check.Equal(t, "the engine of the cluster", state.Clusters[0].Engine, url)

	script, err := page.ReadFile("page/clusters.js")
	check.Error(t, err, "")
	check.Contains(t, "the condition", string(script), "e.at && !e.error && !e.unasked")
	check.Contains(t, "whose engine", string(script), "answering.has(cluster.engine)")
}
