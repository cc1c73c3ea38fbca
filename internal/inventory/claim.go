package inventory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// tagPrefix is before the UUID of the VM in the name of the tag of a claim.
const tagPrefix = "capolvm-claim-"

// TagName is the name of the tag that a claim has in the engine. Names of tags are unique there, so the tag decides
// between management clusters that use the same pool.
func TagName(vm engine.ID) string { return tagPrefix + vm.String() }

// Mark is what the engine knows of a claim: the description of its tag.
type Mark struct {
	// ID of the claim.
	ID string `json:"id"`
	// Namespace, Cluster, Role, Group and Machine are those of the claim.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Role      string `json:"role"`
	Group     string `json:"group"`
	Machine   string `json:"machine,omitempty"`
	// Comment is what the VM's comment was before the claim.
	Comment string `json:"comment,omitempty"`
	// Network is the network configuration that the VM had before the claim, empty for none; nil where it is not known.
	Network *engine.Initialization `json:"network,omitempty"`
	// Guest is what else the guest was given before the claim; nil where it is not known.
	Guest *Guest `json:"guest,omitempty"`
}

// Guest is what a VM gives its guest besides the network.
type Guest struct {
	HostName string `json:"hostName,omitempty"`
	// UserData is a digest of the user data, which may be secret; empty for none. It tells the user data of the VM from
	// that of a machine.
	UserData string `json:"userData,omitempty"`
}

// guestOf is what a VM with that initialization gives its guest.
func guestOf(of *engine.Initialization) *Guest {
	if of == nil {
		return &Guest{}
	}

	out := &Guest{HostName: of.HostName}
	if of.CustomScript != "" {
		digest := sha256.Sum256([]byte(of.CustomScript))
		out.UserData = hex.EncodeToString(digest[:])
	}

	return out
}

// NewMark is the mark of a claim on a VM, which remembers what the claim changes; full is the VM with its user data.
// Where the VM has an owner's mark, its tag is made again, and what was before is lost.
func NewMark(namespace string, claim infrav1alpha1.InventoryClaim, full *engine.VM) Mark {
	out := Mark{
		ID:        claim.ID,
		Namespace: namespace,
		Cluster:   claim.ClusterName,
		Role:      claim.Role,
		Group:     claim.Group,
		Machine:   claim.MachineName,
	}
	if _, owned := ownermark.OwnerOf(full.CommentText()); !owned {
		out.Comment, out.Network = full.CommentText(), cmp.Or(networkOf(full.Initialization), &engine.Initialization{})
		out.Guest = guestOf(full.Initialization)
	}

	return out
}

// Claim is the claim that a mark tells of.
func (m Mark) Claim() *infrav1alpha1.InventoryClaim {
	return &infrav1alpha1.InventoryClaim{
		ID: m.ID, ClusterName: m.Cluster, Role: m.Role, Group: m.Group, MachineName: m.Machine,
	}
}

// valid reports whether a mark can be a claim of ours: a person may have written the tag.
func (m Mark) valid() bool {
	return m.ID != "" && m.Namespace != "" && m.Cluster != "" && m.Group != "" &&
		(m.Role == infrav1.RoleControlPlane || m.Role == infrav1.RoleWorker)
}

func (m Mark) text() string {
	content, err := json.Marshal(m)
	if err != nil { // of texts alone
		return ""
	}

	return string(content)
}

// marked is the tag of a claim, with what its description says.
type marked struct {
	tag  engine.Tag
	mark Mark
}

// marksOn are the marks of claims on a VM, that which counts first: two that were made in the same moment are both
// there until one gives way, and all sides choose the same.
func marksOn(vm engine.DescribedVM) []marked { return marksOf(vm.ID, vm.Tags) }

func marksOf(vm engine.ID, tags []engine.Tag) []marked {
	var out []marked

	for _, tag := range tags {
		if tag.Name == TagName(vm) {
			out = append(out, readMark(tag))
		}
	}

	slices.SortFunc(out, func(a, b marked) int { return cmp.Compare(a.tag.ID, b.tag.ID) })

	return out
}

func readMark(tag engine.Tag) marked {
	out := marked{tag: tag}
	if err := json.Unmarshal([]byte(tag.Description), &out.mark); err != nil || !out.mark.valid() {
		out.mark = Mark{}
	}

	return out
}

// ReadMark asks the engine for the mark of a VM, which is zero where the VM has none, or one that cannot be read.
func ReadMark(ctx context.Context, session *engine.Client, vm engine.ID) (Mark, error) {
	tags, err := session.TagsNamed(ctx, TagName(vm))
	if err != nil {
		return Mark{}, err
	}

	if marks := marksOf(vm, tags); len(marks) > 0 {
		return marks[0].mark, nil
	}

	return Mark{}, nil
}

// MarkOn is the mark that a VM has in the engine; false where it has none, or one that cannot be read.
func MarkOn(vm engine.DescribedVM) (mark Mark, tagged bool) {
	marks := marksOn(vm)
	if len(marks) == 0 {
		return Mark{}, false
	}

	return marks[0].mark, true
}

// ConfirmedID is what the status of an OLVMInventoryVM has once the engine has a claim, with the mark of its machine.
func ConfirmedID(claim infrav1alpha1.InventoryClaim) string {
	if claim.MachineName == "" {
		return claim.ID
	}

	return claim.ID + "/" + claim.MachineName
}

// Readable reports whether the mark says whose a VM is. A mark that cannot be read neither gives a VM to anybody nor
// takes it from anybody.
func (m Mark) Readable() bool { return m.ID != "" }

// unreadable is the error about a mark that cannot be read.
func unreadable(vm engine.ID) error {
	return fmt.Errorf("the description of the tag %s is not that of a claim, so it is not known whose VM %s is; "+
		"correct the description, or delete the tag if nobody has the VM", TagName(vm), vm)
}

// sameClaim reports whether a mark is that of a claim: it has its ID.
func (m Mark) sameClaim(claim infrav1alpha1.InventoryClaim) bool { return m.ID == claim.ID }

// Claimed is what became of a claim in the engine.
type Claimed int

// What becomes of a claim in the engine.
const (
	// ClaimPending is one that was marked now. Another look must confirm it.
	ClaimPending Claimed = iota
	// ClaimConfirmed is one that the engine had already when it was asked.
	ClaimConfirmed
	// ClaimLost is one that another was faster with.
	ClaimLost
)

// Marker writes claims to an engine. It is for one pass over a pool: all tags are listed once, and only where a claim
// needs it.
type Marker struct {
	session   *engine.Client
	namespace string
	tags      func() ([]engine.Tag, error)
}

// NewMarker returns the marker of the claims of a namespace. It may be used by several goroutines.
func NewMarker(ctx context.Context, session *engine.Client, namespace string) *Marker {
	return &Marker{
		session:   session,
		namespace: namespace,
		tags:      sync.OnceValues(func() ([]engine.Tag, error) { return session.Tags(ctx) }),
	}
}

// marks are the marks of claims on a VM among all tags of the engine.
func (m *Marker) marks(vm engine.ID) ([]marked, error) {
	all, err := m.tags()
	return marksOf(vm, all), err
}

// Ensure marks a claim on a VM, as the engine described it a moment ago: by a tag that names the claim, and by the
// owner's mark in the VM's comment where a machine has it. owner is nil for a VM that is reserved. It changes nothing
// of what is there already. The mark that the engine has of another is returned where the claim was lost.
//
// The engine makes two tags of one name where the requests overlap. So a claim that is not settled, which was confirmed
// by no earlier call, looks for all tags of the name, and the first by its ID counts for all sides. Calls for such a
// claim are to be further apart than a request takes.
func (m *Marker) Ensure(
	ctx context.Context,
	vm engine.DescribedVM,
	claim infrav1alpha1.InventoryClaim,
	owner *ownermark.Owner,
	settled bool,
) (Claimed, Mark, error) {
	marks := marksOn(vm)
	if len(marks) == 0 {
		return m.tag(ctx, vm, claim)
	}

	if !settled {
		var err error
		if marks, err = m.marks(vm.ID); err != nil {
			return ClaimPending, Mark{}, err
		}
	}

	has, owned := ownermark.OwnerOf(vm.CommentText())

	switch {
	case len(marks) == 0:
		return m.lost(ctx, marks, claim)
	case !marks[0].mark.Readable():
		return ClaimPending, Mark{}, unreadable(vm.ID)
	case !marks[0].mark.sameClaim(claim):
		if owner != nil && owned && has.SameObject(*owner) && marks[0].mark.Machine != "" {
			// Its request took long: the other sees whose machine has the VM, and gives way. Until then neither has it.
			return ClaimPending, marks[0].mark, nil
		}

		return m.lost(ctx, marks, claim)
	case owner == nil:
		return ClaimConfirmed, marks[0].mark, nil
	case owned && has.SameObject(*owner):
		return ClaimConfirmed, marks[0].mark, nil // the UID is another after a move
	case owned: // of another that was faster, whatever the tags say
		return ClaimLost, Mark{ID: claim.ID, Namespace: has.Namespace, Machine: has.Name}, m.dropOwn(ctx, marks, claim)
	}

	comment := owner.Comment()
	_, err := m.session.UpdateVM(ctx, vm.ID, &engine.VM{Comment: &comment})

	return ClaimPending, marks[0].mark, err
}

// tag makes the tag of a claim and puts it on the VM. One that was made and not put on the VM is found by its name.
func (m *Marker) tag(
	ctx context.Context, vm engine.DescribedVM, claim infrav1alpha1.InventoryClaim,
) (Claimed, Mark, error) {
	marks, err := m.marks(vm.ID)

	switch {
	case err != nil:
		return ClaimPending, Mark{}, err
	case len(marks) > 0 && !marks[0].mark.Readable():
		return ClaimPending, Mark{}, unreadable(vm.ID)
	case len(marks) > 0 && marks[0].mark.sameClaim(claim):
		return ClaimPending, marks[0].mark, m.session.TagVM(ctx, vm.ID, marks[0].tag.ID)
	case len(marks) > 0:
		return m.lost(ctx, marks, claim)
	}

	full, err := m.session.VMInFull(ctx, vm.ID)
	if err != nil {
		return ClaimPending, Mark{}, err
	}

	mark := NewMark(m.namespace, claim, full)
	made, err := m.session.CreateTag(ctx, &engine.Tag{Name: TagName(vm.ID), Description: mark.text()})
	if err != nil {
		return ClaimPending, mark, err
	}

	return ClaimPending, mark, m.session.TagVM(ctx, vm.ID, made.ID)
}

// lost is a claim that another was faster with. Its own tags, which do not count, are deleted.
func (m *Marker) lost(ctx context.Context, marks []marked, claim infrav1alpha1.InventoryClaim) (Claimed, Mark, error) {
	if err := m.dropOwn(ctx, marks, claim); err != nil || len(marks) == 0 {
		return ClaimPending, Mark{}, err
	}

	return ClaimLost, marks[0].mark, nil
}

// dropOwn deletes the tags of a claim that was lost.
func (m *Marker) dropOwn(ctx context.Context, marks []marked, claim infrav1alpha1.InventoryClaim) error {
	for _, found := range marks {
		if !found.mark.sameClaim(claim) {
			continue
		}

		if err := m.session.DeleteTag(ctx, found.tag.ID); err != nil && !engine.IsNotFound(err) {
			return err
		}
	}

	return nil
}

// Unmark takes the mark of a claim from a VM: first the owner's mark, then the tag, so that the VM is never free with
// the mark of a machine. A claim that the engine does not have any more is unmarked. It returns the VM's comment.
func (m *Marker) Unmark(
	ctx context.Context, vm engine.DescribedVM, claim infrav1alpha1.InventoryClaim,
) (comment string, err error) {
	marks := marksOn(vm)
	comment = vm.CommentText()
	owner, owned := ownermark.OwnerOf(comment)

	if owned && owner.SameObject(ownermark.Owner{Namespace: m.namespace, Name: claim.MachineName}) {
		comment = ""

		for _, found := range marks {
			if found.mark.sameClaim(claim) {
				comment = found.mark.Comment
			}
		}

		if _, err := m.session.UpdateVM(ctx, vm.ID, &engine.VM{Comment: &comment}); err != nil {
			return "", err
		}
	}

	loose, err := m.marks(vm.ID) // also what was made, and never put on the VM
	if err != nil {
		return "", err
	}

	return comment, m.dropOwn(ctx, append(loose, marks...), claim)
}

// String describes a mark for people.
func (m Mark) String() string {
	if !m.Readable() {
		return "somebody whose mark cannot be read"
	}

	switch {
	case m.Cluster == "":
		return fmt.Sprintf("OLVMMachine %s/%s", m.Namespace, m.Machine)
	case m.Machine == "":
		return fmt.Sprintf("cluster %s/%s", m.Namespace, m.Cluster)
	}

	return fmt.Sprintf("cluster %s/%s, OLVMMachine %s", m.Namespace, m.Cluster, m.Machine)
}
