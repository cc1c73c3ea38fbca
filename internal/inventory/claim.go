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

// tagPrefix comes before the VM's UUID in the name of a claim's tag.
const tagPrefix = "capolvm-claim-"

// TagName returns the name of a claim's tag in the engine. Tag names are unique there, so the tag decides between
// management clusters that share the same VMs.
func TagName(vm engine.ID) string { return tagPrefix + vm.String() }

// Mark is the record of a claim in the engine. The description of the claim's tag contains it.
type Mark struct {
	// ID is the ID of the claim.
	ID string `json:"id"`
	// Namespace, Cluster, Role, Group and Machine are copies from the claim.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Role      string `json:"role"`
	Group     string `json:"group"`
	Machine   string `json:"machine,omitempty"`
	// Comment is the VM's comment before the claim.
	Comment string `json:"comment,omitempty"`
	// Network is the VM's network configuration before the claim. It is empty if there was none, and nil if unknown.
	Network *engine.Initialization `json:"network,omitempty"`
	// Guest is the other data for the guest before the claim. It is nil if unknown.
	Guest *Guest `json:"guest,omitempty"`
}

// Guest has the data for a VM's guest, except the network.
type Guest struct {
	HostName string `json:"hostName,omitempty"`
	// UserData is a digest of the user data, or "" without user data. It is only a digest, because user data may be
	// secret. It distinguishes the VM's own user data from a machine's.
	UserData string `json:"userData,omitempty"`
}

// toGuest returns the Guest of a VM with this initialization.
func toGuest(of *engine.Initialization) *Guest {
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

// NewMark returns the mark of a claim on a VM. It records the settings that are about to change. full is the VM with
// its user data. If the VM already has an owner mark, its tag was lost, and the earlier settings are unknown.
func NewMark(namespace string, claim infrav1alpha1.InventoryClaim, full *engine.VM) Mark {
	out := Mark{
		ID:        claim.ID,
		Namespace: namespace,
		Cluster:   claim.ClusterName,
		Role:      claim.Role,
		Group:     claim.Group,
		Machine:   claim.MachineName,
	}
	if _, owned := ownermark.ParseOwner(full.CommentText()); !owned {
		out.Comment, out.Network = full.CommentText(), cmp.Or(getNetwork(full.Initialization), &engine.Initialization{})
		out.Guest = toGuest(full.Initialization)
	}

	return out
}

// ToClaim returns the claim that the mark describes.
func (m Mark) ToClaim() *infrav1alpha1.InventoryClaim {
	return &infrav1alpha1.InventoryClaim{
		ID: m.ID, ClusterName: m.Cluster, Role: m.Role, Group: m.Group, MachineName: m.Machine,
	}
}

// isValid reports whether a mark can come from this provider, because a user may have written the tag.
func (m Mark) isValid() bool {
	return m.ID != "" && m.Namespace != "" && m.Cluster != "" && m.Group != "" &&
		(m.Role == infrav1.RoleControlPlane || m.Role == infrav1.RoleWorker)
}

func (m Mark) encodeJSON() string {
	content, err := json.Marshal(m)
	if err != nil { // impossible, because it contains only texts
		return ""
	}

	return string(content)
}

// marked is the tag of a claim, with the mark in its description.
type marked struct {
	tag  engine.Tag
	mark Mark
}

// sortedMarks returns the claim marks on a VM, the valid one first. Two simultaneous marks exist until one side yields,
// so all sides must choose the same mark.
func sortedMarks(vm engine.DescribedVM) []marked { return parseMarks(vm.ID, vm.Tags) }

func parseMarks(vm engine.ID, tags []engine.Tag) []marked {
	var out []marked

	for _, tag := range tags {
		if tag.Name == TagName(vm) {
			out = append(out, parseMark(tag))
		}
	}

	slices.SortFunc(out, func(a, b marked) int { return cmp.Compare(a.tag.ID, b.tag.ID) })

	return out
}

func parseMark(tag engine.Tag) marked {
	out := marked{tag: tag}
	if err := json.Unmarshal([]byte(tag.Description), &out.mark); err != nil || !out.mark.isValid() {
		out.mark = Mark{}
	}

	return out
}

// FetchMark reads the mark of a VM from the engine. It returns the zero Mark if there is no mark, or if the mark is
// unreadable.
func FetchMark(ctx context.Context, session *engine.Client, vm engine.ID) (Mark, error) {
	tags, err := session.ListTagsNamed(ctx, TagName(vm))
	if err != nil {
		return Mark{}, err
	}

	if marks := parseMarks(vm, tags); len(marks) > 0 {
		return marks[0].mark, nil
	}

	return Mark{}, nil
}

// GetMark returns the mark on a VM, or false if there is none. For an unreadable mark, it returns the zero Mark.
func GetMark(vm engine.DescribedVM) (mark Mark, tagged bool) {
	marks := sortedMarks(vm)
	if len(marks) == 0 {
		return Mark{}, false
	}

	return marks[0].mark, true
}

// ConfirmedID returns the status.claimID of an OLVMInventoryVM whose claim and machine mark are confirmed.
func ConfirmedID(claim infrav1alpha1.InventoryClaim) string {
	if claim.MachineName == "" {
		return claim.ID
	}

	return claim.ID + "/" + claim.MachineName
}

// IsReadable reports whether the mark identifies the claimant of the VM. An unreadable mark neither assigns a VM nor
// frees it.
func (m Mark) IsReadable() bool { return m.ID != "" }

// newUnreadableError returns the error for an unreadable mark.
func newUnreadableError(vm engine.ID) error {
	return fmt.Errorf("the description of the tag %s is not that of a claim, so the owner of VM %s is unknown; "+
		"correct the description, or delete the tag if no machine uses the VM", TagName(vm), vm)
}

// isSameClaim reports whether the mark has the ID of the claim.
func (m Mark) isSameClaim(claim infrav1alpha1.InventoryClaim) bool { return m.ID == claim.ID }

// Claimed is the result of an attempt to mark a claim in the engine.
type Claimed int

// These are the results of an attempt to mark a claim.
const (
	// ClaimPending means that the call has marked the claim. A later call must confirm it.
	ClaimPending Claimed = iota
	// ClaimConfirmed means that the engine had the claim before the call.
	ClaimConfirmed
	// ClaimLost means that another claimant was faster.
	ClaimLost
)

// Marker marks claims in an engine. It serves one pass over an inventory. It lists all tags at most once, and only if a
// claim needs them.
type Marker struct {
	session   *engine.Client
	namespace string
	tags      func() ([]engine.Tag, error)
}

// NewMarker returns a marker for the claims of a namespace. It is safe for concurrent use.
func NewMarker(ctx context.Context, session *engine.Client, namespace string) *Marker {
	return &Marker{
		session:   session,
		namespace: namespace,
		tags:      sync.OnceValues(func() ([]engine.Tag, error) { return session.ListTags(ctx) }),
	}
}

// listMarks returns the claim marks on a VM from the list of all tags.
func (m *Marker) listMarks(vm engine.ID) ([]marked, error) {
	all, err := m.tags()
	return parseMarks(vm, all), err
}

// EnsureClaim marks a claim on a VM: with a tag for the claim, and with the machine's owner mark in the VM's comment.
// vm must be recent. owner is nil for a reserved VM. EnsureClaim does not change existing marks. If the claim is lost,
// it returns the winner's mark.
//
// The engine creates two tags with the same name if the requests overlap. So EnsureClaim lists all tags with this name
// until an earlier call has confirmed the claim. All sides accept the tag with the lowest ID. Two calls for such a
// claim must be further apart than a request takes.
func (m *Marker) EnsureClaim(
	ctx context.Context,
	vm engine.DescribedVM,
	claim infrav1alpha1.InventoryClaim,
	owner *ownermark.Owner,
	settled bool,
) (Claimed, Mark, error) {
	marks := sortedMarks(vm)
	if len(marks) == 0 {
		return m.createTag(ctx, vm, claim)
	}

	if !settled {
		var err error
		if marks, err = m.listMarks(vm.ID); err != nil {
			return ClaimPending, Mark{}, err
		}
	}

	has, owned := ownermark.ParseOwner(vm.CommentText())

	switch {
	case len(marks) == 0:
		return m.concedeClaim(ctx, marks, claim)
	case !marks[0].mark.IsReadable():
		return ClaimPending, Mark{}, newUnreadableError(vm.ID)
	case !marks[0].mark.isSameClaim(claim):
		if owner != nil && owned && has.IsSameObject(*owner) && marks[0].mark.Machine != "" {
			// The request of this claim was slow. The other side sees the machine's mark and yields. Until then,
			// neither side has the VM.
			return ClaimPending, marks[0].mark, nil
		}

		return m.concedeClaim(ctx, marks, claim)
	case owner == nil:
		return ClaimConfirmed, marks[0].mark, nil
	case owned && has.IsSameObject(*owner):
		return ClaimConfirmed, marks[0].mark, nil // compared without the UID, because a move changes it
	case owned: // another claimant was faster, whatever the tags say
		return ClaimLost, Mark{
				ID:        claim.ID,
				Namespace: has.Namespace,
				Machine:   has.Name,
			}, m.deleteOwnTags(
				ctx, marks, claim,
			)
	}

	comment := owner.Comment()
	_, err := m.session.UpdateVM(ctx, vm.ID, &engine.VM{Comment: &comment})

	return ClaimPending, marks[0].mark, err
}

// createTag creates the tag of a claim and attaches it to the VM. It uses an existing tag with the name that is not
// attached yet.
func (m *Marker) createTag(
	ctx context.Context, vm engine.DescribedVM, claim infrav1alpha1.InventoryClaim,
) (Claimed, Mark, error) {
	marks, err := m.listMarks(vm.ID)

	switch {
	case err != nil:
		return ClaimPending, Mark{}, err
	case len(marks) > 0 && !marks[0].mark.IsReadable():
		return ClaimPending, Mark{}, newUnreadableError(vm.ID)
	case len(marks) > 0 && marks[0].mark.isSameClaim(claim):
		return ClaimPending, marks[0].mark, m.session.TagVM(ctx, vm.ID, marks[0].tag.ID)
	case len(marks) > 0:
		return m.concedeClaim(ctx, marks, claim)
	}

	full, err := m.session.FetchFullVM(ctx, vm.ID)
	if err != nil {
		return ClaimPending, Mark{}, err
	}

	mark := NewMark(m.namespace, claim, full)
	made, err := m.session.CreateTag(ctx, &engine.Tag{Name: TagName(vm.ID), Description: mark.encodeJSON()})
	if err != nil {
		return ClaimPending, mark, err
	}

	return ClaimPending, mark, m.session.TagVM(ctx, vm.ID, made.ID)
}

// concedeClaim gives up a claim because another claimant was faster. It deletes the claim's own tags.
func (m *Marker) concedeClaim(
	ctx context.Context, marks []marked, claim infrav1alpha1.InventoryClaim,
) (Claimed, Mark, error) {
	if err := m.deleteOwnTags(ctx, marks, claim); err != nil || len(marks) == 0 {
		return ClaimPending, Mark{}, err
	}

	return ClaimLost, marks[0].mark, nil
}

// deleteOwnTags deletes the tags of a lost claim.
func (m *Marker) deleteOwnTags(ctx context.Context, marks []marked, claim infrav1alpha1.InventoryClaim) error {
	for _, found := range marks {
		if !found.mark.isSameClaim(claim) {
			continue
		}

		if err := m.session.DeleteTag(ctx, found.tag.ID); err != nil && !engine.IsNotFound(err) {
			return err
		}
	}

	return nil
}

// RemoveMark removes the mark of a claim from a VM. It removes the owner mark before the tag, so that a free VM never
// carries a machine's mark. It succeeds if the engine no longer has the claim. It returns the VM's comment.
func (m *Marker) RemoveMark(
	ctx context.Context, vm engine.DescribedVM, claim infrav1alpha1.InventoryClaim,
) (comment string, err error) {
	marks := sortedMarks(vm)
	comment = vm.CommentText()
	owner, owned := ownermark.ParseOwner(comment)

	if owned && owner.IsSameObject(ownermark.Owner{Namespace: m.namespace, Name: claim.MachineName}) {
		comment = ""

		for _, found := range marks {
			if found.mark.isSameClaim(claim) {
				comment = found.mark.Comment
			}
		}

		if _, err := m.session.UpdateVM(ctx, vm.ID, &engine.VM{Comment: &comment}); err != nil {
			return "", err
		}
	}

	loose, err := m.listMarks(vm.ID) // includes tags that were never attached to the VM
	if err != nil {
		return "", err
	}

	return comment, m.deleteOwnTags(ctx, append(loose, marks...), claim)
}

// String describes a mark for users.
func (m Mark) String() string {
	if !m.IsReadable() {
		return "an owner with an unreadable mark"
	}

	switch {
	case m.Cluster == "":
		return fmt.Sprintf("OLVMMachine %s/%s", m.Namespace, m.Machine)
	case m.Machine == "":
		return fmt.Sprintf("cluster %s/%s", m.Namespace, m.Cluster)
	}

	return fmt.Sprintf("cluster %s/%s, OLVMMachine %s", m.Namespace, m.Cluster, m.Machine)
}
