// Package ownermark has the marks of objects on everything created for them in an engine.
package ownermark

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner of a VM. Its marker is in the VM's comment.
type Owner struct{ Namespace, Name, UID string }

// Of returns an object as an owner.
func Of(object metav1.Object) Owner {
	return Owner{Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID())}
}

// marker matches a comment naming the owner.
var marker = regexp.MustCompile(`^capolvm (owner|inventory-vm)=([^/ ]+)/([^ ]+) uid=([^ ]+)$`)

// Comment returns the marker of an OLVMMachine or OLVMCluster.
func (o Owner) Comment() string { return o.comment("owner") }

// InventoryComment returns the marker of an OLVMInventoryVM on its VM. Such a VM is free: a machine claiming it
// replaces the marker with its own.
func (o Owner) InventoryComment() string { return o.comment("inventory-vm") }

func (o Owner) comment(kind string) string {
	return fmt.Sprintf("capolvm %s=%s/%s uid=%s", kind, o.Namespace, o.Name, o.UID)
}

// SameObject reports whether both have the same namespace and name. The UID changes when an object moves to another
// management cluster; namespace and name do not.
func (o Owner) SameObject(other Owner) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name
}

// Marks reports whether a comment names the owner. Every writer of an OLVMMachine, or of the Secret with its state, can
// write the ID of any VM there. Only the mark proves the owner of a VM. Its UID changes with a move or a restore, so
// namespace and name decide.
func (o Owner) Marks(comment string) bool {
	found, marked := OwnerOf(comment)

	return marked && found.SameObject(o)
}

// OwnerOf returns the marker of a machine or cluster in a comment, or false if there is none.
func OwnerOf(comment string) (Owner, bool) { return read("owner", comment) }

// InventoryOwnerOf returns the marker of an OLVMInventoryVM in a comment, or false if there is none.
func InventoryOwnerOf(comment string) (Owner, bool) { return read("inventory-vm", comment) }

// Appended returns a text with the mark at its end, for objects without a comment.
func (o Owner) Appended(text string) string {
	return strings.TrimSpace(text + " [" + o.Comment() + "]")
}

// In returns the mark at the end of a text from Appended, or "" if there is none.
func In(text string) string {
	at := strings.LastIndex(text, "[capolvm ")
	if at < 0 {
		return ""
	}

	return strings.TrimSuffix(text[at+1:], "]")
}

func read(kind, comment string) (Owner, bool) {
	match := marker.FindStringSubmatch(strings.TrimSpace(comment))
	if match == nil || match[1] != kind {
		return Owner{}, false
	}

	return Owner{Namespace: match[2], Name: match[3], UID: match[4]}, true
}
