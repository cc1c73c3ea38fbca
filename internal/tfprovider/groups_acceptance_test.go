package tfprovider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

func TestATagFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := plainVM + `
resource "ovirt_tag" "t" {
  name        = "blue"
  description = "<blue> & more"
}
resource "ovirt_vm_tag" "t" {
  tag_id = ovirt_tag.t.id
  vm_id  = ovirt_vm.a.id
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.settled()
	vm, tag := w.text("ovirt_vm.a", "id"), w.text("ovirt_tag.t", "id")
	if got := w.text("ovirt_vm_tag.t", "id"); got != tag+"_"+vm {
		t.Errorf("the ID is %q", got)
	}

	w.forget()
	w.importID("ovirt_vm.a", vm)
	w.importID("ovirt_tag.t", tag)
	w.importID("ovirt_vm_tag.t", tag+"/"+vm)
	w.settled()

	// R4
	message := newWorkspace(t, s).config(`resource "ovirt_tag" "t" { name = "blue" }`).fail()
	if !strings.Contains(message, tag) {
		t.Errorf("the message is %q", message)
	}

	must(t, s.client.UntagVM(t.Context(), engine.ID(vm), engine.ID(tag))) // R11
	w.wants("ovirt_vm_tag.t", "create")
	must(t, s.client.DeleteTag(t.Context(), engine.ID(tag)))
	w.wants("ovirt_tag.t", "create", "ovirt_vm_tag.t", "create")
	w.apply()
	w.config(strings.Replace(config, `"blue"`, `"green"`, 1))
	w.wants("ovirt_tag.t", "update") // and the VM keeps it
	w.apply()
	w.settled()
	w.destroy()
	if left, err := s.client.ListTagsNamed(t.Context(), "green"); err != nil || len(left) != 0 {
		t.Errorf("the tag is left: %v, %v", left, err)
	}
}

func TestAnAffinityGroupFromCreationToDestruction(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	group := `
resource "ovirt_affinity_group" "g" {
  name        = "apart"
  cluster_id  = "$cluster"
  description = "<apart> & more"
  priority    = 3
  enforcing   = true
  vms_rule {
    affinity  = "negative"
    enforcing = true
  }
}
`
	member := plainVM + `
resource "ovirt_vm_affinity_group" "a" {
  cluster_id        = "$cluster"
  affinity_group_id = ovirt_affinity_group.g.id
  vm_id             = ovirt_vm.a.id
}
data "ovirt_affinity_group" "g" {
  cluster_id = "$cluster"
  name       = ovirt_affinity_group.g.name
}
`
	w := newWorkspace(t, s).config(group + member)
	w.apply()
	w.settled() // R12: the provider sends enforcing and priority
	cluster, id, vm := s.ids["$cluster"], w.text("ovirt_affinity_group.g", "id"), w.text("ovirt_vm.a", "id")
	seen, err := s.client.FetchAffinityGroup(t.Context(), engine.ID(cluster), engine.ID(id))
	must(t, err)
	if seen.Priority == nil {
		t.Fatal("seen.Priority is nil")
	}

	check.Equal(t, "*seen.Priority", *seen.Priority, 3)
	if seen.Enforcing == nil {
		t.Fatal("seen.Enforcing is nil")
	}

	check.Equal(t, "*seen.Enforcing", *seen.Enforcing, true)
	check.Equal(t, "seen.Has(engine.ID(vm))", seen.HasVM(engine.ID(vm)), true)
	check.Equal(t, "seen.DescriptionText()", seen.DescriptionText(), "<apart> & more")

	if got := w.text("data.ovirt_affinity_group.g", "id"); got != id {
		t.Errorf("the data source found %q", got)
	}

	t.Run("an import that matches plans nothing", func(t *testing.T) {
		w.forget()
		w.importID("ovirt_vm.a", vm)
		w.importID("ovirt_affinity_group.g", cluster+"/"+id)
		w.importID("ovirt_vm_affinity_group.a", cluster+"/"+id+"/"+vm)
		w.apply() // reads the data source
		w.settled()
	})
	t.Run("a change is made in place, and the members stay", func(t *testing.T) {
		w.config(strings.Replace(strings.ReplaceAll(group, "negative", "positive"), "= 3", "= 5", 1) + member)
		w.wants("ovirt_affinity_group.g", "update")
		w.apply()
		w.settled()
		seen, err := s.client.FetchAffinityGroup(t.Context(), engine.ID(cluster), engine.ID(id))
		must(t, err)
		check.Equal(t, "seen.VMsRule.Positive", seen.VMsRule.Positive, true)
		check.Equal(t, "*seen.Priority", *seen.Priority, 5)
		check.Equal(t, "seen.Has(engine.ID(vm))", seen.HasVM(engine.ID(vm)), true)
	})
	t.Run("the defaults are those of the released provider", func(t *testing.T) {
		w := newWorkspace(
			t,
			s,
		).config("resource \"ovirt_affinity_group\" \"d\" {\n name = \"defaults\"\n cluster_id = " +
			"\"$cluster\"\n hosts_rule {}\n}\n")
		w.apply()
		w.settled()
		w.destroy()
	})
	t.Run("a name that is taken is an error that names the owner", func(t *testing.T) { // R4
		if message := newWorkspace(t, s).config(group).fail(); !strings.Contains(message, id) {
			t.Errorf("the message is %q", message)
		}
	})
	t.Run("what is gone is planned anew", func(t *testing.T) { // R11
		must(t, s.client.RemoveFromAffinityGroup(t.Context(), engine.ID(cluster), engine.ID(id), engine.ID(vm)))
		w.wants("ovirt_vm_affinity_group.a", "create")
		must(t, s.client.DeleteAffinityGroup(t.Context(), engine.ID(cluster), engine.ID(id)))
		w.config(group + strings.Split(member, "data ")[0])
		w.wants("ovirt_affinity_group.g", "create", "ovirt_vm_affinity_group.a", "create")
		w.apply()
	})
	w.destroy()
	if left, err := s.client.ListAffinityGroupsNamed(t.Context(), "apart"); err != nil || len(left) != 0 {
		t.Errorf("the group is left: %v, %v", left, err)
	}
}

func TestManyVMsJoinAGroupAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	config := `
resource "ovirt_affinity_group" "g" {
  name       = "together"
  cluster_id = "$cluster"
}
resource "ovirt_vm" "a" {
  count       = 6
  name        = "a-${count.index}"
  cluster_id  = "$cluster"
  template_id = "$template"
}
resource "ovirt_vm_affinity_group" "a" {
  count             = 6
  cluster_id        = "$cluster"
  affinity_group_id = ovirt_affinity_group.g.id
  vm_id             = ovirt_vm.a[count.index].id
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	group, err := s.client.FetchAffinityGroup(t.Context(), engine.ID(s.ids["$cluster"]),
		engine.ID(w.text("ovirt_affinity_group.g", "id")))
	must(t, err)
	if group.VMs == nil || len(group.VMs.Items) != 6 {
		t.Errorf("the group has %+v", group.VMs)
	}

	w.settled()
	w.destroy()
}

func TestConsolesAndCPUSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)

	// The engine pins the CPUs only of a VM pinned to a host.
	config := strings.Replace(plainVM, "}\n", `  placement_policy_affinity = "pinned"
  placement_policy_host_ids = [sort([for host in data.ovirt_cluster_hosts.h.hosts : host.id])[0]]
}
data "ovirt_cluster_hosts" "h" { cluster_id = "$cluster" }
`, 1) + `
resource "ovirt_vm_graphics_consoles" "a" {
  vm_id = ovirt_vm.a.id
}
resource "ovirt_vm_optimize_cpu_settings" "a" {
  vm_id = ovirt_vm.a.id
}
`
	w := newWorkspace(t, s).config(config)
	w.apply()
	w.settled()
	vm := w.text("ovirt_vm.a", "id")
	consoles, err := s.client.ListGraphicsConsoles(t.Context(), engine.ID(vm))
	must(t, err)
	if len(consoles) != 0 {
		t.Errorf("the VM has consoles %v", consoles)
	}

	w.forget()

	for _, address := range []string{"ovirt_vm.a", "ovirt_vm_graphics_consoles.a", "ovirt_vm_optimize_cpu_settings.a"} {
		w.importID(address, vm)
	}

	w.settled()
	s.deleteVM(t, engine.ID(vm)) // R11
	w.wants("ovirt_vm.a", "create", "ovirt_vm_graphics_consoles.a", "create", "ovirt_vm_optimize_cpu_settings.a",
		"create")
	w.succeed("destroy", "-auto-approve", "-no-color", "-input=false", "-refresh=false")
}

func TestDataSourcesThatListThings(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).config(plainVM + `
data "ovirt_blank_template" "b" {}
data "ovirt_cluster_hosts" "h" { cluster_id = "$cluster" }
data "ovirt_templates" "t" { name = "ol9-k8s" }
data "ovirt_disk_attachments" "a" { vm_id = ovirt_vm.a.id }
`)
	w.apply()
	w.apply() // the VM may get disks later
	if got := w.text("data.ovirt_blank_template.b", "id"); got != engine.BlankTemplateID {
		t.Errorf("the blank template is %q", got)
	}

	if hosts, _ := w.value("data.ovirt_cluster_hosts.h", "hosts").([]any); len(hosts) != 3 {
		t.Errorf("the hosts are %v", hosts)
	}

	found := fmt.Sprint(w.value("data.ovirt_templates.t", "templates"))
	if !strings.Contains(found, s.ids["$template"]) {
		t.Errorf("the templates are %s", found)
	}

	if disks, _ := w.value("data.ovirt_disk_attachments.a", "attachments").([]any); len(disks) != 1 {
		t.Errorf("the disks are %v", disks)
	}

	message := newWorkspace(
		t,
		s,
	).config("data \"ovirt_templates\" \"t\" {\n name = \"none\"\n fail_on_empty = true\n}\n").
		fail()
	if !strings.Contains(message, `no template named "none"`) {
		t.Errorf("the message is %q", message)
	}
}

// TestTwoOfOneNameAtTheSameMoment has the engine create two tags and two groups with the same name, as it does for
// overlapping requests: m6. At most one of each remains, and the next apply succeeds.
func TestTwoOfOneNameAtTheSameMoment(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	must(t, s.sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/(tags|affinitygroups)$", Action: "hold"}))
	go func() {
		wait.Until(t, "all four requests are there", func() bool { return s.sim.CountHits() == 4 })
		s.sim.ClearFaults()
	}()
	const one = `
resource "ovirt_tag" "%[1]s" {
  name = "twice"
}
resource "ovirt_affinity_group" "%[1]s" {
  name       = "twice"
  cluster_id = "$cluster"
}
`
	first, second := fmt.Sprintf(one, "first"), fmt.Sprintf(one, "second")
	count := func() (tags, groups int) {
		t.Helper()
		allTags, err := s.client.ListTagsNamed(t.Context(), "twice")
		must(t, err)
		allGroups, err := s.client.ListAffinityGroupsNamed(t.Context(), "twice")
		must(t, err)

		return len(allTags), len(allGroups)
	}

	w := newWorkspace(t, s).config(first + second)
	message := w.fail()
	if !strings.Contains(message, "tag twice exists already") ||
		!strings.Contains(message, "affinity group twice exists already") {
		t.Errorf("the message is %s", message)
	}

	if tags, groups := count(); tags > 1 || groups > 1 {
		t.Errorf("%d tags and %d groups are left", tags, groups)
	}

	// Remove both first. Otherwise, one apply would create the first while it removes the second.
	w.config("")
	w.apply()
	w.config(first)
	w.apply()
	w.settled()
	if tags, groups := count(); tags != 1 || groups != 1 {
		t.Errorf("there are %d tags and %d groups", tags, groups)
	}
}
