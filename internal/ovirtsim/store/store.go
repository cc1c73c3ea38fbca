package store

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Table holds all objects of one kind. Objects are pointers. The holder of the engine's lock changes them in place.
// Callers must call Put after a change.
type Table[T any] struct {
	kind    string
	Rows    map[string]*T
	store   *Store
	indexes []*index[T]
}

// index finds objects by a value that several objects share and that never changes, such as their owner.
type index[T any] struct {
	of   func(*T) string
	rows map[string]map[string]*T
}

func (t *Table[T]) indexBy(of func(*T) string) *index[T] {
	made := &index[T]{of: of, rows: map[string]map[string]*T{}}
	t.indexes = append(t.indexes, made)
	return made
}

func (i *index[T]) findRows(value string, key func(*T) string) []*T {
	out := make([]*T, 0, len(i.rows[value]))
	for _, row := range i.rows[value] {
		out = append(out, row)
	}

	slices.SortFunc(out, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })

	return out
}

// Store holds the tables. With a state folder, it records their changes in a journal.
type Store struct {
	tables  []persistent
	journal *os.File
	pending bytes.Buffer
	path    string // path of the journal
	// base is the size of the journal after its last compaction. written is the number of bytes written since then.
	base, written int64
	salt          uuid.UUID
	loading       bool

	DataCenters    *Table[DataCenter]
	Clusters       *Table[Cluster]
	Hosts          *Table[Host]
	Labels         *Table[AffinityLabel]
	Networks       *Table[Network]
	VNICProfiles   *Table[VNICProfile]
	StorageDomains *Table[StorageDomain]
	Templates      *Table[Template]
	InstanceTypes  *Table[InstanceType]
	VMs            *Table[VM]
	NICs           *Table[NIC]
	Disks          *Table[Disk]
	Snapshots      *Table[Snapshot]
	Attachments    *Table[Attachment]
	Tags           *Table[Tag]
	Groups         *Table[AffinityGroup]
	Transfers      *Table[ImageTransfer]
	Jobs           *Table[Job]
	Events         *Table[Event]
	Users          *Table[User]
	Permissions    *Table[Permission]
	Counters       *Table[Counter]

	nicsByOwner        *index[NIC]
	attachmentsByOwner *index[Attachment]
	attachmentsByDisk  *index[Attachment]
	snapshotsByVM      *index[Snapshot]
}

// persistent is a table as the journal sees it.
type persistent interface {
	name() string
	restoreRow(id string, row json.RawMessage) error
	eachRow(func(id string, row any))
	clearRows()
}

func newTable[T any](s *Store, kind string) *Table[T] {
	t := &Table[T]{kind: kind, Rows: map[string]*T{}, store: s}
	s.tables = append(s.tables, t)
	return t
}

// New returns an empty store without a journal. Open gives the store a state folder.
func New() *Store {
	s := &Store{salt: uuid.New()}
	s.DataCenters = newTable[DataCenter](s, "datacenters")
	s.Clusters = newTable[Cluster](s, "clusters")
	s.Hosts = newTable[Host](s, "hosts")
	s.Labels = newTable[AffinityLabel](s, "affinitylabels")
	s.Networks = newTable[Network](s, "networks")
	s.VNICProfiles = newTable[VNICProfile](s, "vnicprofiles")
	s.StorageDomains = newTable[StorageDomain](s, "storagedomains")
	s.Templates = newTable[Template](s, "templates")
	s.InstanceTypes = newTable[InstanceType](s, "instancetypes")
	s.VMs = newTable[VM](s, "vms")
	s.NICs = newTable[NIC](s, "nics")
	s.Disks = newTable[Disk](s, "disks")
	s.Snapshots = newTable[Snapshot](s, "snapshots")
	s.snapshotsByVM = s.Snapshots.indexBy(func(found *Snapshot) string { return found.VM })
	s.Attachments = newTable[Attachment](s, "diskattachments")
	s.Tags = newTable[Tag](s, "tags")
	s.Groups = newTable[AffinityGroup](s, "affinitygroups")
	s.Transfers = newTable[ImageTransfer](s, "imagetransfers")
	s.Jobs = newTable[Job](s, "jobs")
	s.Events = newTable[Event](s, "events")
	s.Users = newTable[User](s, "users")
	s.Permissions = newTable[Permission](s, "permissions")
	s.Counters = newTable[Counter](s, "counters")
	s.nicsByOwner = s.NICs.indexBy(func(n *NIC) string { return n.Owner })
	s.attachmentsByOwner = s.Attachments.indexBy(func(a *Attachment) string { return a.Owner })
	s.attachmentsByDisk = s.Attachments.indexBy(func(a *Attachment) string { return a.Disk })

	return s
}

func (t *Table[T]) name() string { return t.kind }

// Get returns an object, or nil.
func (t *Table[T]) Get(id string) *T { return t.Rows[id] }

// Put stores a new or changed object.
func (t *Table[T]) Put(id string, row *T) {
	t.insertRow(id, row)
	t.store.logChange(t.kind, id, row)
}

func (t *Table[T]) insertRow(id string, row *T) {
	t.Rows[id] = row
	for _, i := range t.indexes {
		value := i.of(row)
		if i.rows[value] == nil {
			i.rows[value] = map[string]*T{}
		}

		i.rows[value][id] = row
	}
}

func (t *Table[T]) removeRow(id string) {
	row := t.Rows[id]
	if row == nil {
		return
	}

	delete(t.Rows, id)

	for _, i := range t.indexes {
		value := i.of(row)
		if delete(i.rows[value], id); len(i.rows[value]) == 0 {
			delete(i.rows, value)
		}
	}
}

// Drop deletes an object.
func (t *Table[T]) Drop(id string) {
	t.removeRow(id)
	t.store.logChange(t.kind, id, nil)
}

// Where returns the objects for which match is true, sorted by key.
func (t *Table[T]) Where(match func(*T) bool, key func(*T) string) []*T {
	out := make([]*T, 0, 8)

	for _, row := range t.Rows {
		if match == nil || match(row) {
			out = append(out, row)
		}
	}

	slices.SortFunc(out, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })

	return out
}

func (t *Table[T]) restoreRow(id string, raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		t.removeRow(id)
		return nil
	}

	row := new(T)
	if err := json.Unmarshal(raw, row); err != nil {
		return err
	}

	t.removeRow(id)
	t.insertRow(id, row)

	return nil
}

func (t *Table[T]) clearRows() {
	clear(t.Rows)

	for _, i := range t.indexes {
		clear(i.rows)
	}
}

func (t *Table[T]) eachRow(visit func(string, any)) {
	for _, id := range wire.SortedKeys(t.Rows) {
		visit(id, t.Rows[id])
	}
}

// record is one line of the journal: the new value of the object, or null after its deletion.
type record struct {
	Kind string          `json:"kind"`
	ID   string          `json:"id"`
	Row  json.RawMessage `json:"row"`
}

// logChange records a change of an object for the journal.
func (s *Store) logChange(kind, id string, row any) {
	if s.journal == nil || s.loading {
		return
	}

	encoded, err := json.Marshal(row)
	if err != nil { // impossible, because our types always encode
		panic(err)
	}

	line, err := json.Marshal(record{Kind: kind, ID: id, Row: encoded})
	if err != nil {
		panic(err)
	}

	s.pending.Write(line)
	s.pending.WriteByte('\n')
}

// Flush writes the changes since the last flush to the journal. Callers must call it before they respond to the request
// with these changes.
func (s *Store) Flush() error {
	if s.journal == nil || s.pending.Len() == 0 {
		return nil
	}

	if s.written > max(minCompaction, 4*s.base) {
		s.pending.Reset() // the compacted journal already contains it
		return s.compactJournal()
	}

	n, err := s.journal.Write(s.pending.Bytes())
	s.written += int64(n)
	s.pending.Next(n) // a full disk rejected the rest; the next flush writes it
	if err != nil {
		return fmt.Errorf("failed to write the state: %w", err)
	}

	return nil
}

const journalName = "inventory.jsonl"

const (
	// saltRow is the row with the salt of derived IDs.
	saltRow = "salt"
	// SeededRow is the row that exists after the inventory was loaded completely.
	SeededRow = "seeded"
	// VersionRow is the row with the engine's version.
	VersionRow = "version"
)

// Open loads the journal of a state folder, and starts a new journal from the result. It reports whether a journal
// existed.
func (s *Store) Open(folder string) (existed bool, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return false, fmt.Errorf("failed to make the state folder: %w", err)
	}

	path := filepath.Join(folder, journalName)
	existed, err = s.loadJournal(path)
	if err != nil {
		return false, err
	}

	s.path = path
	if existed = existed && s.Counters.Get(SeededRow) != nil; !existed {
		for _, t := range s.tables { // the first start did not complete
			t.clearRows()
		}
	}

	if known := s.Counters.Get(saltRow); known != nil {
		s.salt = uuid.MustParse(known.Text)
	} else {
		s.Counters.Put(saltRow, &Counter{Text: s.salt.String()})
	}

	return existed, s.compactJournal()
}

// minCompaction is the size in bytes from which a journal is compacted.
const minCompaction = 64 << 20

// compactJournal rewrites the journal to limit its growth. It writes a second file first, so a crash never loses both
// files.
func (s *Store) compactJournal() error {
	fresh, err := os.OpenFile(s.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("failed to write the state: %w", err)
	}

	old := s.journal

	s.journal = fresh
	for _, t := range s.tables {
		t.eachRow(func(id string, row any) { s.logChange(t.name(), id, row) })
	}

	s.base, s.written = int64(s.pending.Len()), 0
	err = s.Flush()
	if err == nil && s.pending.Len() > 0 {
		err = errors.New("the disk is full")
	}

	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}

	if err != nil {
		s.journal = old
		s.pending.Reset()
		_ = fresh.Close()

		return fmt.Errorf("failed to write the state: %w", err)
	}

	s.written = 0
	if old != nil {
		_ = old.Close()
	}

	return nil
}

func (s *Store) loadJournal(path string) (existed bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}

	if err != nil {
		return false, fmt.Errorf("failed to read the state: %w", err)
	}

	defer file.Close()

	byName := map[string]persistent{}
	for _, t := range s.tables {
		byName[t.name()] = t
	}

	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return true, nil
		}

		if err != nil {
			return true, nil // a kill truncated the last line, so its request got no response
		}

		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return false, fmt.Errorf("%s:%d: %w; remove the state folder to begin anew", path, number, err)
		}

		t := byName[r.Kind]
		if t == nil {
			return false, fmt.Errorf("%s:%d: unknown kind %q; remove the state folder to begin anew", path, number,
				r.Kind)
		}

		if err := t.restoreRow(r.ID, r.Row); err != nil {
			return false, fmt.Errorf("%s:%d: %w; remove the state folder to begin anew", path, number, err)
		}
	}
}

// Close writes pending changes and closes the journal.
func (s *Store) Close() {
	if s.journal != nil {
		_ = s.Flush()
		_ = s.journal.Close()
		s.journal = nil
	}
}

// NewID returns a random UUID.
func NewID() string { return uuid.NewString() }

// Counter returns numbers that were never used before, even after a restart.
type Counter struct {
	Value int64
	Text  string `json:",omitempty"`
}

// NextNumber returns the next number of a counter, starting at 1.
func (s *Store) NextNumber(name string) int64 {
	c := s.Counters.Get(name)
	if c == nil {
		c = &Counter{}
	}

	c.Value++
	s.Counters.Put(name, c)

	return c.Value
}

// NextMAC returns the next address of oVirt's default MAC pool.
func (s *Store) NextMAC() string {
	n := s.NextNumber("macs")
	return fmt.Sprintf("56:6f:1a:%02x:%02x:%02x", n>>16&0xff, n>>8&0xff, n&0xff)
}

// NICsOf returns the network interfaces of a VM or template, sorted by name.
func (s *Store) NICsOf(owner string) []*NIC {
	return s.nicsByOwner.findRows(owner, func(n *NIC) string { return n.Name })
}

// AttachmentsOf returns the disk attachments of a VM or template, bootable disks first.
func (s *Store) AttachmentsOf(owner string) []*Attachment {
	return s.attachmentsByOwner.findRows(owner, func(a *Attachment) string {
		order := "1"
		if a.Bootable {
			order = "0"
		}

		return order + s.Disks.Get(a.Disk).Name + a.Disk
	})
}

// AttachmentsOfDisk returns the attachments of a disk.
func (s *Store) AttachmentsOfDisk(diskID string) []*Attachment {
	return s.attachmentsByDisk.findRows(diskID, func(a *Attachment) string { return a.Owner })
}

// DataCenterOf returns the ID of a cluster's data center.
func (s *Store) DataCenterOf(clusterID string) string {
	if c := s.Clusters.Get(clusterID); c != nil {
		return c.DataCenter
	}

	return ""
}
