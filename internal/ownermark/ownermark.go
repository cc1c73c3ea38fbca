// Package ownermark is the mark by which what was made in an engine is known as an object's own.
package ownermark

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner of a VM; its marker is in the VM's comment.
type Owner struct{ Namespace, Name, UID string }

// Of is the owner that an object is.
func Of(object metav1.Object) Owner {
	return Owner{Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID())}
}

// marker is how a comment names the owner.
var marker = regexp.MustCompile(`^capolvm (owner|inventory-vm)=([^/ ]+)/([^ ]+) uid=([^ ]+)$`)

// Comment is the marker of an OLVMMachine or OLVMCluster.
func (o Owner) Comment() string { return o.comment("owner") }

// InventoryComment is the marker of an OLVMInventoryVM on the VM that was made for it. Such a VM is free: the machine
// that claims it writes its own marker in this one's place.
func (o Owner) InventoryComment() string { return o.comment("inventory-vm") }

func (o Owner) comment(kind string) string {
	return fmt.Sprintf("capolvm %s=%s/%s uid=%s", kind, o.Namespace, o.Name, o.UID)
}

// SameObject reports whether both are objects of the same namespace and name. The UID changes when an object is moved
// to another management cluster; namespace and name do not.
func (o Owner) SameObject(other Owner) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name
}

// Marks reports whether a comment names the owner. Whoever may write an OLVMMachine, or the Secret with its state, can
// write the ID of any VM there. Only the mark says whose a VM is. Its UID is another after a move or a restore, so
// namespace and name decide.
func (o Owner) Marks(comment string) bool {
	found, marked := OwnerOf(comment)

	return marked && found.SameObject(o)
}

// OwnerOf reads the marker of a machine or cluster in a comment; false where there is none.
func OwnerOf(comment string) (Owner, bool) { return read("owner", comment) }

// InventoryOwnerOf reads the marker of an OLVMInventoryVM in a comment; false where there is none.
func InventoryOwnerOf(comment string) (Owner, bool) { return read("inventory-vm", comment) }

// Appended returns a text with the mark at its end, for what has no comment.
func (o Owner) Appended(text string) string {
	return strings.TrimSpace(text + " [" + o.Comment() + "]")
}

// In returns the mark at the end of a text that Appended made; empty if there is none.
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
