package controllers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAnAllowListThatIsEmptiedIsRefused removes the last namespace of an identity, in the ways common for users and
// templates.
func TestAnAllowListThatIsEmptiedIsRefused(t *testing.T) {
	s := newSite(t, nil)
	identity := &infrav1alpha1.OLVMClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		Spec: infrav1alpha1.OLVMClusterIdentitySpec{
			CredentialsSecret: infrav1alpha1.ObjectOfNamespace{Namespace: managerNamespace, Name: "none"},
			AllowedServerURLs: []string{"https://engine.example.com/ovirt-engine"},
			AllowedNamespaces: &infrav1alpha1.AllowedNamespaces{
				List:     []string{"team-a"},
				Selector: &infrav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
			},
		},
	}
	s.Create(identity)

	const (
		none = "should have at least 1 "
		part = "matchLabels and matchExpressions must not be empty"
	)

	for allowed, want := range map[string]string{
		`{"list":null,"selector":null}`:                 none + "properties",
		`{"list":[]}`:                                   none + "items",
		`{"list":[],"selector":null}`:                   none + "items",
		`{"selector":{"matchLabels":{"team":null}}}`:    part,
		`{"selector":{"matchExpressions":[]}}`:          part,
		`{"list":null}`:                                 "",
		`{"selector":null}`:                             "",
		`{"list":null,"selector":{"matchLabels":null}}`: "", // selector: {} means all
		`null`: "", // nobody
	} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"allowedNamespaces":`+allowed+`}}`))
		err := suite.client.Patch(t.Context(), identity.DeepCopy(), patch, client.DryRunAll)
		check.Error(t, err, want)
	}

	engines := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"allowedServerURLs":[]}}`))
	check.Error(t, suite.client.Patch(t.Context(), identity, engines, client.DryRunAll), none+"items")
}

// TestALiveClusterStaysInItsDataCenter changes the data center before and after the engine has found it.
func TestALiveClusterStaysInItsDataCenter(t *testing.T) {
	const refused = "spec.olvmDatacenterName is immutable once the engine's data center was found"

	other := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"olvmDatacenterName":"Other"}}`))
	s := newSite(t, func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
		c.Spec.OLVMDatacenterName = "Defult"
	})
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.DataCenterNotFoundReason)
	check.Error(t, suite.client.Patch(t.Context(), s.OLVM.DeepCopy(), other, client.DryRunAll), "")

	change(s, s.OLVM, func(c *infrav1.OLVMCluster) { c.Spec.OLVMDatacenterName = "Default" })
	s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "True/"+infrav1.EngineAvailableReason)
	check.Error(t, suite.client.Patch(t.Context(), s.OLVM.DeepCopy(), other, client.DryRunAll), refused)

	// serverURL may change, because the UUID of an engine identifies it.
	url := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"olvmOvirtAPIServer":{"serverURL":"https://new.example.com/ovirt-engine"}}}`))
	check.Error(t, suite.client.Patch(t.Context(), s.OLVM.DeepCopy(), url, client.DryRunAll), "")
}

// TestAVMThatOthersMadeIsNeverTheManagersToDelete covers a user who adds or removes the record that the manager has
// created a VM.
func TestAVMThatOthersMadeIsNeverTheManagersToDelete(t *testing.T) {
	s := newSite(t, nil)
	const made = `{"spec":{"fromProvision":{"provisionName":"p","machineTemplateName":"t"}}}`

	for name, object := range map[string]struct {
		spec  infrav1alpha1.OLVMInventoryVMSpec
		patch string
	}{
		"others": {infrav1alpha1.OLVMInventoryVMSpec{VMID: "0e4d7f4e-0000-4000-8000-000000000001"}, made},
		"manager": {infrav1alpha1.OLVMInventoryVMSpec{
			VMID:          "0e4d7f4e-0000-4000-8000-000000000002",
			FromProvision: &infrav1alpha1.ProvisionedVM{ProvisionName: "p", MachineTemplateName: "t"},
		}, `{"spec":{"fromProvision":null}}`},
	} {
		vm := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: s.NewMeta(name), Spec: object.spec}
		vm.Spec.InventoryName = "none"
		s.Create(vm)

		patch := client.RawPatch(types.MergePatchType, []byte(object.patch))
		err := suite.client.Patch(t.Context(), vm, patch, client.DryRunAll)
		check.Error(t, err, "fromProvision is immutable")
	}
}

// TestATemplateHasNoProviderID covers a template with the provider ID of a VM. All machines of the template would share
// this VM.
func TestATemplateHasNoProviderID(t *testing.T) {
	s := newSite(t, nil)

	for id, want := range map[string]string{
		"olvm://0e4d7f4e-0000-4000-8000-000000000001": "providerID names the VM of one machine",
		"": "",
	} {
		template := &infrav1.OLVMMachineTemplate{ObjectMeta: s.NewMeta("template")}
		template.Spec.Template.Spec = infrav1.OLVMMachineSpec{
			ProviderID: id, FromInventory: &infrav1.FromInventory{InventoryName: "lab"},
		}
		check.Error(t, suite.client.Create(t.Context(), template, client.DryRunAll), want)
	}
}

// TestOnlyTheManagerWritesClaims writes OLVMInventoryVMs as several users. These are the manager, an administrator who
// moves or restores clusters, the garbage collector, and users with all rights in the namespace.
func TestOnlyTheManagerWritesClaims(t *testing.T) {
	s := newSite(t, nil)
	grant(s, "admins", []string{"*"}, "tenant-admin")
	grant(s, "collector", []string{"get", "patch", "update"}, "collector")
	bindManager(s)

	claim := &infrav1alpha1.InventoryClaim{
		ID: "c-1", ClusterName: "demo", Role: infrav1.RoleWorker, Group: "MachineSet/md", MachineName: "m",
	}
	object := func(name string, claim *infrav1alpha1.InventoryClaim) *infrav1alpha1.OLVMInventoryVM {
		out := &infrav1alpha1.OLVMInventoryVM{ObjectMeta: s.NewMeta(name)}
		out.Spec.InventoryName, out.Spec.VMID = "none", "0e4d7f4e-0000-4000-8000-000000000003"
		out.Spec.ClaimRef = claim

		return out
	}
	claimed, free := object("claimed", claim), object("free", nil)
	s.Create(claimed)
	s.Create(free)

	tenant, manager := as(t, s.Namespace+"-tenant-admin"), as(t, s.Namespace+"-manager")
	patch := func(c client.Client, vm client.Object, body string) error {
		raw := client.RawPatch(types.MergePatchType, []byte(body))

		return c.Patch(t.Context(), vm.DeepCopyObject().(client.Object), raw, client.DryRunAll)
	}

	const (
		refused  = "only the manager writes spec.claimRef"
		released = `{"spec":{"claimRef":{"released":true}}}`
		gone     = `{"spec":{"claimRef":null}}`
		another  = `{"spec":{"claimRef":{"machineName":"other"}}}`
		all      = `{"spec":{"claimRef":{"id":"c","clusterName":"demo","role":"Worker","group":"MachineSet/x"}}}`
		asked    = `{"metadata":{"annotations":{"infrastructure.cluster.x-k8s.io/olvm-release-claim":"c-1"}}}`
	)

	// The API server needs a moment to load policies and roles.
	s.Eventually("a person is refused", func() error {
		if err := patch(tenant, claimed, released); err == nil || !strings.Contains(err.Error(), refused) {
			return fmt.Errorf("got %w", err)
		}

		return patch(manager, claimed, released)
	})

	check.Error(t, patch(tenant, claimed, gone), refused)
	check.Error(t, patch(tenant, claimed, another), refused)
	check.Error(t, patch(tenant, free, all), refused)
	check.Error(t, tenant.Create(t.Context(), object("new", claim), client.DryRunAll), refused)
	check.Error(t, patch(tenant, claimed, asked), "")
	check.Error(t, tenant.Create(t.Context(), object("new", nil), client.DryRunAll), "")
	check.Error(t, patch(as(t, s.Namespace+"-collector"), claimed, `{"metadata":{"ownerReferences":null}}`), "")

	for name, c := range map[string]client.Client{"manager": manager, "administrator": suite.client} {
		check.Error(t, patch(c, claimed, gone), "")
		check.Error(t, patch(c, free, all), "")
		check.Error(t, c.Create(t.Context(), object("moved-by-"+name, claim), client.DryRunAll), "")
	}
}

// as returns a client of a user without groups.
func as(t *testing.T, user string) client.Client {
	t.Helper()

	config := rest.CopyConfig(suite.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}

	c, err := client.New(config, client.Options{Scheme: suite.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}

	return c
}

// grant gives a user rights on all objects of the namespace.
func grant(s *site, name string, verbs []string, user string) {
	s.Create(&rbacv1.Role{
		ObjectMeta: s.NewMeta(name),
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}},
	})
	s.Create(&rbacv1.RoleBinding{
		ObjectMeta: s.NewMeta(name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: s.Namespace + "-" + user}},
	})
}

// bindManager gives a user the manager's rights in config/rbac.
func bindManager(s *site) {
	s.T.Helper()

	manifests, err := manifest.ReadFiles("../config/rbac")
	check.Error(s.T, err, "")
	check.Error(s.T, localplane.BindRoles(s.T.Context(), suite.client, manifests, s.Namespace+"-manager"), "")
}
