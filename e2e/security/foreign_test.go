package security

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// namer is an engine that reports a chosen name for a VM. It records what it receives.
type namer struct {
	mu   sync.Mutex
	name string
	sent bytes.Buffer
}

// callIt makes the engine report another name for the VM vm-a.
func (n *namer) callIt(name string) {
	var escaped bytes.Buffer
	_ = xml.EscapeText(&escaped, []byte(name))

	n.mu.Lock()
	defer n.mu.Unlock()

	n.name = escaped.String()
}

func (n *namer) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))

		n.mu.Lock()
		n.sent.Write(body)
		name := n.name
		n.mu.Unlock()

		if name == "" || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/vms") {
			next.ServeHTTP(w, r)
			return
		}

		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		recorded.Header().Del("Content-Length")

		for key, values := range recorded.Header() {
			w.Header()[key] = values
		}

		w.WriteHeader(recorded.Code)
		_, _ = w.Write(bytes.ReplaceAll(recorded.Body.Bytes(), []byte("<name>vm-a</name>"), []byte("<name>"+name+"</name>")))
	})
}

// TestAVMNameNeverBecomesHCL (row S1 of docs/operate/security.md) lets an engine rename the VM of a pool. The new name
// ends a comment and continues as HCL, with a resource that uploads the manager's token. The machine must get the VM,
// but the engine must get no token.
func TestAVMNameNeverBecomesHCL(t *testing.T) {
	e := &namer{}
	s := testsite.New(t, suite.API.Client, testsite.Options{Gate: e.gate})
	poolvm.CreateVM(t, s.NewSession(), poolvm.Tag, "vm-a", "10.0.0.100")
	s.Create(poolvm.NewInventory(s.OLVM, "lab"))
	dc, err := s.NewSession().FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	domains, err := s.NewSession().ListStorageDomains(t.Context(), dc)
	check.Error(t, err, "")

	e.callIt(fmt.Sprintf("vm-a\nresource \"ovirt_disk_from_image\" \"loot\" {\n  source_file = %q\n  format = \"raw\"\n"+
		"  alias = \"loot\"\n  storage_domain_id = %q\n}\n#", token(t), domains[0].ID))

	m := start(t, s, "", "--confinement=required")
	machine := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
		*spec = infrav1.OLVMMachineSpec{FromInventory: &infrav1.FromInventory{InventoryName: "lab"}}
	})
	s.ExpectProvisioned(machine)

	e.mu.Lock()
	defer e.mu.Unlock()

	check.Lacks(t, "what the engine was sent", e.sent.String(), canary)
	check.Lacks(t, "what the engine was sent", e.sent.String(), "loot")
	check.Lacks(t, "what the manager tells", everywhere(t, s, m), canary)
}

// expectLeftAlone waits until a machine reports that its VM belongs to others. Then it verifies that the VM has not
// changed.
func expectLeftAlone(t *testing.T, s *testsite.Site, machine *infrav1.OLVMMachine, before *engine.VM) {
	t.Helper()
	message := s.ExpectCondition(machine, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.VMNotOwnedReason)
	check.Contains(t, "the remedy", message, "replace its comment in the engine with exactly")

	after, err := s.NewSession().FetchFullVM(t.Context(), before.ID)
	check.Error(t, err, "")
	check.Equal(t, "status of the VM", after.Status, before.Status)
	check.Equal(t, "comment of the VM", after.CommentText(), before.CommentText())
	check.Equal(t, "initialization of the VM", after.Initialization, before.Initialization)
}

// victim creates a foreign VM, with its own user data.
func victim(t *testing.T, s *testsite.Site, comment string) *engine.VM {
	t.Helper()
	id := poolvm.CreateVM(t, s.NewSession(), "others", "victim", "10.0.0.100")
	_, err := s.NewSession().UpdateVM(t.Context(), id, &engine.VM{
		Comment:        &comment,
		Initialization: &engine.Initialization{HostName: "victim", CustomScript: "#cloud-config\n# of the victim\n"},
	})
	check.Error(t, err, "")
	before, err := s.NewSession().FetchFullVM(t.Context(), id)
	check.Error(t, err, "")

	return before
}

// TestATenantCannotTakeAVMOfOthers (row S2 of docs/operate/security.md) lets tenants write the IDs of foreign VMs.
func TestATenantCannotTakeAVMOfOthers(t *testing.T) {
	t.Run("a VM is not started by a provider ID", func(t *testing.T) {
		s := testsite.New(t, suite.API.Client, testsite.Options{})
		before := victim(t, s, "")
		start(t, s, "")
		machine := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
			*spec = infrav1.OLVMMachineSpec{
				FromInventory: &infrav1.FromInventory{InventoryName: "there-is-none"},
				ProviderID:    "olvm://" + before.ID.String(),
			}
		})
		expectLeftAlone(t, s, machine, before)
	})

	t.Run("user data is not removed by a provider ID", func(t *testing.T) {
		s := testsite.New(t, suite.API.Client, testsite.Options{})
		before := victim(t, s, "the payroll database")
		start(t, s, "")
		machine := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
			spec.ProviderID = "olvm://" + before.ID.String()
		})
		owner := &clusterv1.Machine{}
		check.Error(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), owner), "")
		owner.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node"}
		s.UpdateStatus(owner)
		expectLeftAlone(t, s, machine, before)
	})

	t.Run("a VM is not taken over by a claim", func(t *testing.T) {
		s := testsite.New(t, suite.API.Client, testsite.Options{})
		before := victim(t, s, "capolvm owner=prod/db uid=1")
		start(t, s, "")
		claim := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: s.NewMeta("evil"), Spec: infrav1alpha1.OLVMInventoryVMSpec{
			InventoryName: "there-is-none", VMID: before.ID.String(),
			ClaimRef: &infrav1alpha1.InventoryClaim{
				ID: "x", ClusterName: "demo", Role: infrav1.RoleWorker, Group: "Machine/one", MachineName: "one",
			},
		}}
		s.Create(claim)
		claim.Status.ClaimID = "x/one"
		s.UpdateStatus(claim)
		s.UserData = "## template: jinja\n#cloud-config\nruncmd: [echo attacker]\n"
		machine := s.CreateMachine("one", func(spec *infrav1.OLVMMachineSpec) {
			*spec = infrav1.OLVMMachineSpec{FromInventory: &infrav1.FromInventory{InventoryName: "there-is-none"}}
		})
		expectLeftAlone(t, s, machine, before)
	})
}
