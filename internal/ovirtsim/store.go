package ovirtsim

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
)

// table holds all objects of a kind. Objects are pointers, changed in place by who holds the server's lock; put says
// that one has changed.
type table[T any] struct {
	kind    string
	rows    map[string]*T
	store   *store
	indexes []*index[T]
}

// index finds the objects that share a value which never changes, such as their owner.
type index[T any] struct {
	of   func(*T) string
	rows map[string]map[string]*T
}

func (t *table[T]) indexBy(of func(*T) string) *index[T] {
	made := &index[T]{of: of, rows: map[string]map[string]*T{}}
	t.indexes = append(t.indexes, made)
	return made
}

func (i *index[T]) where(value string, key func(*T) string) []*T {
	out := make([]*T, 0, len(i.rows[value]))
	for _, row := range i.rows[value] {
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })
	return out
}

// store keeps the tables, and their changes in a journal where there is a state folder.
type store struct {
	tables  []persistent
	journal *os.File
	pending bytes.Buffer
	path    string // of the journal
	// base is how large the journal was when it was written anew, written what has come since.
	base, written int64
	salt          uuid.UUID
	loading       bool

	dataCenters    *table[dataCenter]
	clusters       *table[cluster]
	hosts          *table[host]
	labels         *table[affinityLabel]
	networks       *table[network]
	vnicProfiles   *table[vnicProfile]
	storageDomains *table[storageDomain]
	templates      *table[template]
	instanceTypes  *table[instanceType]
	vms            *table[vm]
	nics           *table[nic]
	disks          *table[disk]
	snapshots      *table[snapshot]
	attachments    *table[attachment]
	tags           *table[tag]
	groups         *table[affinityGroup]
	transfers      *table[imageTransfer]
	jobs           *table[job]
	events         *table[event]
	users          *table[user]
	counters       *table[counter]

	nicsByOwner        *index[nic]
	attachmentsByOwner *index[attachment]
	attachmentsByDisk  *index[attachment]
	snapshotsByVM      *index[snapshot]
}

// persistent is a table as the journal sees it.
type persistent interface {
	name() string
	restore(id string, row json.RawMessage) error
	each(func(id string, row any))
	clear()
}

func newTable[T any](s *store, kind string) *table[T] {
	t := &table[T]{kind: kind, rows: map[string]*T{}, store: s}
	s.tables = append(s.tables, t)
	return t
}

func newStore() *store {
	s := &store{salt: uuid.New()}
	s.dataCenters = newTable[dataCenter](s, "datacenters")
	s.clusters = newTable[cluster](s, "clusters")
	s.hosts = newTable[host](s, "hosts")
	s.labels = newTable[affinityLabel](s, "affinitylabels")
	s.networks = newTable[network](s, "networks")
	s.vnicProfiles = newTable[vnicProfile](s, "vnicprofiles")
	s.storageDomains = newTable[storageDomain](s, "storagedomains")
	s.templates = newTable[template](s, "templates")
	s.instanceTypes = newTable[instanceType](s, "instancetypes")
	s.vms = newTable[vm](s, "vms")
	s.nics = newTable[nic](s, "nics")
	s.disks = newTable[disk](s, "disks")
	s.snapshots = newTable[snapshot](s, "snapshots")
	s.snapshotsByVM = s.snapshots.indexBy(func(found *snapshot) string { return found.VM })
	s.attachments = newTable[attachment](s, "diskattachments")
	s.tags = newTable[tag](s, "tags")
	s.groups = newTable[affinityGroup](s, "affinitygroups")
	s.transfers = newTable[imageTransfer](s, "imagetransfers")
	s.jobs = newTable[job](s, "jobs")
	s.events = newTable[event](s, "events")
	s.users = newTable[user](s, "users")
	s.counters = newTable[counter](s, "counters")
	s.nicsByOwner = s.nics.indexBy(func(n *nic) string { return n.Owner })
	s.attachmentsByOwner = s.attachments.indexBy(func(a *attachment) string { return a.Owner })
	s.attachmentsByDisk = s.attachments.indexBy(func(a *attachment) string { return a.Disk })
	return s
}

func (t *table[T]) name() string { return t.kind }

// get returns an object, nil where there is none.
func (t *table[T]) get(id string) *T { return t.rows[id] }

// put stores an object, new or changed.
func (t *table[T]) put(id string, row *T) {
	t.insert(id, row)
	t.store.log(t.kind, id, row)
}

func (t *table[T]) insert(id string, row *T) {
	t.rows[id] = row
	for _, i := range t.indexes {
		value := i.of(row)
		if i.rows[value] == nil {
			i.rows[value] = map[string]*T{}
		}
		i.rows[value][id] = row
	}
}

func (t *table[T]) remove(id string) {
	row := t.rows[id]
	if row == nil {
		return
	}
	delete(t.rows, id)
	for _, i := range t.indexes {
		value := i.of(row)
		if delete(i.rows[value], id); len(i.rows[value]) == 0 {
			delete(i.rows, value)
		}
	}
}

// drop deletes an object.
func (t *table[T]) drop(id string) {
	t.remove(id)
	t.store.log(t.kind, id, nil)
}

// where lists the objects that match, in the order of a key.
func (t *table[T]) where(match func(*T) bool, key func(*T) string) []*T {
	out := make([]*T, 0, 8)
	for _, row := range t.rows {
		if match == nil || match(row) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })
	return out
}

func (t *table[T]) restore(id string, raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		t.remove(id)
		return nil
	}
	row := new(T)
	if err := json.Unmarshal(raw, row); err != nil {
		return err
	}
	t.remove(id)
	t.insert(id, row)
	return nil
}

func (t *table[T]) clear() {
	clear(t.rows)
	for _, i := range t.indexes {
		clear(i.rows)
	}
}

func (t *table[T]) each(visit func(string, any)) {
	for _, id := range sortedKeys(t.rows) {
		visit(id, t.rows[id])
	}
}

// record is one line of the journal: the object as it is from then on, null where it was deleted.
type record struct {
	Kind string          `json:"kind"`
	ID   string          `json:"id"`
	Row  json.RawMessage `json:"row"`
}

// log notes a change for the journal.
func (s *store) log(kind, id string, row any) {
	if s.journal == nil || s.loading {
		return
	}
	encoded, err := json.Marshal(row)
	if err != nil { // the types are ours and always encode
		panic(err)
	}
	line, err := json.Marshal(record{Kind: kind, ID: id, Row: encoded})
	if err != nil {
		panic(err)
	}
	s.pending.Write(line)
	s.pending.WriteByte('\n')
}

// flush writes the changes since the last flush; it is called before a request that made them is answered.
func (s *store) flush() error {
	if s.journal == nil || s.pending.Len() == 0 {
		return nil
	}
	if s.written > max(minCompaction, 4*s.base) {
		s.pending.Reset() // the journal written anew has it
		return s.compact()
	}
	n, err := s.journal.Write(s.pending.Bytes())
	s.written += int64(n)
	s.pending.Next(n) // what a full disk did not take is written with the next change
	if err != nil {
		return fmt.Errorf("failed to write the state: %w", err)
	}
	return nil
}

const journalName = "inventory.jsonl"

const (
	// saltRow keeps the salt of derived IDs.
	saltRow = "salt"
	// seededRow says that the inventory was put in to its end.
	seededRow = "seeded"
	// versionRow keeps the engine's version.
	versionRow = "version"
)

// open loads the journal of a state folder and begins a new one with what is left. It says whether there was one.
func (s *store) open(folder string) (existed bool, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return false, fmt.Errorf("failed to make the state folder: %w", err)
	}
	path := filepath.Join(folder, journalName)
	existed, err = s.load(path)
	if err != nil {
		return false, err
	}
	s.path = path
	if existed = existed && s.counters.get(seededRow) != nil; !existed {
		for _, t := range s.tables { // a first start that did not come to its end
			t.clear()
		}
	}
	if known := s.counters.get(saltRow); known != nil {
		s.salt = uuid.MustParse(known.Text)
	} else {
		s.counters.put(saltRow, &counter{Text: s.salt.String()})
	}
	return existed, s.compact()
}

// minCompaction is the size from which on a journal may be written anew.
const minCompaction = 64 << 20

// compact writes the journal anew, so that it does not grow for ever: beside the old one, so that no crash loses both.
func (s *store) compact() error {
	fresh, err := os.OpenFile(s.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("failed to write the state: %w", err)
	}
	old := s.journal
	s.journal = fresh
	for _, t := range s.tables {
		t.each(func(id string, row any) { s.log(t.name(), id, row) })
	}
	s.base, s.written = int64(s.pending.Len()), 0
	err = s.flush()
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

func (s *store) load(path string) (existed bool, err error) {
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
			return true, nil // the last line was cut off when the simulator was killed: its request got no answer
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return false, fmt.Errorf("%s:%d: %w; remove the state folder to begin anew", path, number, err)
		}
		t := byName[r.Kind]
		if t == nil {
			return false, fmt.Errorf("%s:%d: unknown kind %q; remove the state folder to begin anew", path, number, r.Kind)
		}
		if err := t.restore(r.ID, r.Row); err != nil {
			return false, fmt.Errorf("%s:%d: %w; remove the state folder to begin anew", path, number, err)
		}
	}
}

func (s *store) close() {
	if s.journal != nil {
		_ = s.flush()
		_ = s.journal.Close()
		s.journal = nil
	}
}

func newID() string { return uuid.NewString() }

// counter hands out numbers that are never used twice, also after a restart.
type counter struct {
	Value int64
	Text  string `json:",omitempty"`
}

func (s *store) next(name string) int64 {
	c := s.counters.get(name)
	if c == nil {
		c = &counter{}
	}
	c.Value++
	s.counters.put(name, c)
	return c.Value
}

// nextMAC hands out addresses of oVirt's default pool.
func (s *store) nextMAC() string {
	n := s.next("macs")
	return fmt.Sprintf("56:6f:1a:%02x:%02x:%02x", n>>16&0xff, n>>8&0xff, n&0xff)
}

// nicsOf lists the network interfaces of a VM or template by name.
func (s *store) nicsOf(owner string) []*nic {
	return s.nicsByOwner.where(owner, func(n *nic) string { return n.Name })
}

// attachmentsOf lists the disks attached to a VM or template, bootable ones first.
func (s *store) attachmentsOf(owner string) []*attachment {
	return s.attachmentsByOwner.where(owner, func(a *attachment) string {
		order := "1"
		if a.Bootable {
			order = "0"
		}
		return order + s.disks.get(a.Disk).Name + a.Disk
	})
}

// attachmentsOfDisk lists where a disk is attached.
func (s *store) attachmentsOfDisk(diskID string) []*attachment {
	return s.attachmentsByDisk.where(diskID, func(a *attachment) string { return a.Owner })
}

func (s *store) dataCenterOf(clusterID string) string {
	if c := s.clusters.get(clusterID); c != nil {
		return c.DataCenter
	}
	return ""
}
