package store

import (
	"cmp"
	"fmt"

	"github.com/google/uuid"
)

// IDOf returns the ID of an object in the inventory. This is the object's own ID, or one derived from its kind, its
// names, and this engine's salt. Engines with equal inventories must not share IDs. Otherwise, a client that confuses
// them would not notice.
func (s *Store) IDOf(id, kind string, path ...string) string {
	if id != "" {
		return id
	}

	return uuid.NewSHA1(s.salt, fmt.Appendf(nil, "%s %q", kind, path)).String()
}

// EnsureTag returns the tag with a name, and creates a missing tag.
func (s *Store) EnsureTag(name string) *Tag {
	for _, t := range s.Tags.Rows {
		if t.Name == name {
			return t
		}
	}

	made := &Tag{ID: s.IDOf("", "tag", name), Name: name, Parent: RootTagID}
	s.Tags.Put(made.ID, made)

	return made
}

// EnsureUser creates a user with a password and a role. If the user exists, it sets both and unlocks the user.
func (s *Store) EnsureUser(name, password, role string) {
	if known := s.UserNamed(name); known != nil {
		known.Password, known.Failures, known.Locked, known.Role = password, 0, false, role
		s.Users.Put(known.ID, known)
		return
	}

	made := &User{ID: NewID(), Name: name, Password: password, Role: role}
	s.Users.Put(made.ID, made)
}

// AttachDisk attaches a disk to a VM or a template. An empty interface means virtio_scsi.
func (s *Store) AttachDisk(owner, diskID, iface string, bootable bool) *Attachment {
	made := &Attachment{
		Owner:     owner,
		Disk:      diskID,
		Interface: cmp.Or(iface, "virtio_scsi"),
		Bootable:  bootable,
		Active:    true,
	}
	s.Attachments.Put(owner+"/"+diskID, made)

	return made
}

// FilterID returns the ID of a network filter.
func (s *Store) FilterID(name string) string { return s.IDOf("", "networkfilter", name) }

// MACPoolID returns the ID of the only MAC pool.
func (s *Store) MACPoolID() string { return s.IDOf("", "macpool", "Default") }

// RoleID returns the ID of a role.
func (s *Store) RoleID(name string) string { return s.IDOf("", "role", name) }
