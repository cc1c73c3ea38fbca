// Package ownermark is the mark by which what was made in an engine is known as an object's own.
package ownermark

import (
	"fmt"
	"regexp"
	"strings"
)

// Owner of a VM; its marker is in the VM's comment.
type Owner struct{ Namespace, Name, UID string }

// marker is how a comment names the owner.
var marker = regexp.MustCompile(`^capolvm owner=([^/ ]+)/([^ ]+) uid=([^ ]+)$`)

// Comment is the owner's marker.
func (o Owner) Comment() string {
	return fmt.Sprintf("capolvm owner=%s/%s uid=%s", o.Namespace, o.Name, o.UID)
}

// OwnerOf reads the marker in a VM's comment; false where the VM is not ours.
func OwnerOf(comment string) (Owner, bool) {
	match := marker.FindStringSubmatch(strings.TrimSpace(comment))
	if match == nil {
		return Owner{}, false
	}

	return Owner{Namespace: match[1], Name: match[2], UID: match[3]}, true
}
