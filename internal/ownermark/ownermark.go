// Package ownermark defines the marks by which everything created in an engine names its owner.
package ownermark

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner is the owner of a VM. The VM's comment contains its marker.
type Owner struct{ Namespace, Name, UID string }

// NewOwner returns an object as an owner.
func NewOwner(object metav1.Object) Owner {
	return Owner{Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID())}
}

// marker matches a comment that names the owner.
var marker = regexp.MustCompile(`^capolvm (owner|inventory-vm)=([^/ ]+)/([^ ]+) uid=([^ ]+)$`)

// Comment returns the marker of an OLVMMachine or OLVMCluster.
func (o Owner) Comment() string { return o.formatComment("owner") }

// InventoryComment returns the marker of an OLVMInventoryVM in the comment of its VM. Such a VM is free. A machine that
// claims it replaces this marker by its own.
func (o Owner) InventoryComment() string { return o.formatComment("inventory-vm") }

func (o Owner) formatComment(kind string) string {
	return fmt.Sprintf("capolvm %s=%s/%s uid=%s", kind, o.Namespace, o.Name, o.UID)
}

// IsSameObject reports whether both owners have the same namespace and name. The UID changes when an object moves to
// another management cluster, but namespace and name do not.
func (o Owner) IsSameObject(other Owner) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name
}

// IsNamedIn reports whether a comment names this owner. Every user who may write an OLVMMachine, or the Secret with its
// state, can write the ID of any VM into it. Therefore, only the mark proves the owner of a VM. The owner's UID changes
// with a move or a restore, so only namespace and name count.
func (o Owner) IsNamedIn(comment string) bool {
	found, marked := ParseOwner(comment)

	return marked && found.IsSameObject(o)
}

// ParseOwner returns the marker of a machine or cluster in a comment, or false if there is none.
func ParseOwner(comment string) (Owner, bool) { return parseMarker("owner", comment) }

// ParseInventoryOwner returns the marker of an OLVMInventoryVM in a comment, or false if there is none.
func ParseInventoryOwner(comment string) (Owner, bool) { return parseMarker("inventory-vm", comment) }

// AppendTo returns a text with the mark at the end, for objects in the engine without a comment.
func (o Owner) AppendTo(text string) string {
	return strings.TrimSpace(text + " [" + o.Comment() + "]")
}

// ParseSuffix returns the mark at the end of a text from AppendTo, or "" if there is none.
func ParseSuffix(text string) string {
	at := strings.LastIndex(text, "[capolvm ")
	if at < 0 {
		return ""
	}

	return strings.TrimSuffix(text[at+1:], "]")
}

func parseMarker(kind, comment string) (Owner, bool) {
	match := marker.FindStringSubmatch(strings.TrimSpace(comment))
	if match == nil || match[1] != kind {
		return Owner{}, false
	}

	return Owner{Namespace: match[2], Name: match[3], UID: match[4]}, true
}
