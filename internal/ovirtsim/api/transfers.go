package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var transferRoutes = []route{
	{"GET", "/imagetransfers", listTransfers},
	{"POST", "/imagetransfers", addTransfer},
	{"GET", "/imagetransfers/{id}", getTransfer},
	{"POST", "/imagetransfers/{id}/cancel", steered(cancelTransfer)},
	{"POST", "/imagetransfers/{id}/extend", steered(extendTransfer)},
	{"POST", "/imagetransfers/{id}/finalize", steered(finalizeTransfer)},
	{"POST", "/imagetransfers/{id}/pause", steered(pauseTransfer)},
	{"POST", "/imagetransfers/{id}/resume", steered(resumeTransfer)},
}

// imagesPath is where the data endpoint is served, beside the engine.
const imagesPath = "/images/"

func (s *Engine) transferURL(t *store.ImageTransfer) string {
	return "https://" + s.settings.Address + imagesPath + t.Ticket
}

// hasTicket are the phases in which data can be sent, and the URLs are told.
var hasTicket = []string{
	store.PhaseTransferring,
	store.PhaseResuming,
	store.PhasePausedSystem,
	store.PhasePausedUser,
	store.PhaseFinalizing,
}

func transferDocument(c *call, t *store.ImageTransfer) *wire.Element {
	out := wire.Object("image_transfer", t.ID, "imagetransfers", t.ID).Flag("active", false).
		Str("direction", t.Direction).Str("format", t.Format).
		Num("inactivity_timeout", t.InactivityTimeout).Str("phase", t.Phase).Flag("shallow", false).
		Str("timeout_policy", t.TimeoutPolicy).Num("transferred", t.Transferred)
	if slices.Contains(hasTicket, t.Phase) && !t.TicketGone { // from the first answer: some clients keep it
		out.Str("transfer_url", c.transferURL(t)).Str("proxy_url", c.transferURL(t))
	}

	return out.Add(wire.El("image").Set("id", t.Disk), wire.Ref("host", "hosts", t.Host))
}

// ended reports whether the engine has let go of the disk.
func ended(t *store.ImageTransfer) bool {
	return t.Phase == store.PhaseFinishedSuccess || t.Phase == store.PhaseFinishedFailure
}

func listTransfers(c *call) (*wire.Element, error) {
	of := fields[*store.ImageTransfer]{
		"id":    val(func(t *store.ImageTransfer) string { return t.ID }),
		"phase": val(func(t *store.ImageTransfer) string { return t.Phase }),
	}

	return collect(c, "image_transfers", c.store.Transfers.Where(nil, store.TransferKey), of, transferDocument)
}

func getTransfer(c *call) (*wire.Element, error) {
	t, err := one(c.store.Transfers, c.id("id"))
	if err != nil {
		return nil, err
	}

	return transferDocument(c, t), nil
}

func addTransfer(c *call) (*wire.Element, error) {
	in := c.body
	named := cmp.Or(in.Get("disk"), in.Get("image"))
	if named == nil && !in.Has("snapshot") {
		return nil, notMandatory("No matching signature found, make sure that mandatory attributes are provided.")
	}

	if err := checkRef(named); err != nil {
		return nil, err
	}

	d := c.store.Disks.Get(wire.RefID(named))
	if d == nil {
		return nil, wire.Failed(http.StatusInternalServerError, "[General command validation failure.]")
	}

	const command = "transfer Virtual Disk"
	if err := c.busy(d, command); err != nil {
		return nil, err
	}

	if d.Status == store.StatusIllegal && in.Value("direction") == "download" {
		return nil, wire.Conflict(
			"Cannot transfer Virtual Disk. The following disks are in ILLEGAL status: %s - please "+
				"remove them and try again.",
			d.Name,
		)
	}

	for _, a := range c.store.AttachmentsOfDisk(d.ID) {
		if v := c.store.VMs.Get(a.Owner); v != nil && v.Running() {
			return nil, wire.Conflict("Cannot transfer Virtual Disk. At least one of the VMs is not down.")
		}
	}

	made := &store.ImageTransfer{
		ID:                store.NewID(),
		Disk:              d.ID,
		Direction:         cmp.Or(in.Value("direction"), "upload"),
		Phase:             store.PhaseTransferring,
		Format:            cmp.Or(in.Value("format"), d.Format),
		Ticket:            store.NewID(),
		Host:              c.transferHost(d),
		TimeoutPolicy:     cmp.Or(in.Value("timeout_policy"), "legacy"),
		InactivityTimeout: cmp.Or(in.Number("inactivity_timeout"), 60),
		LastActivity:      time.Now(),
	}
	d.Status, d.Until = store.StatusLocked, store.Transition{}
	c.store.Disks.Put(d.ID, d)
	c.store.Transfers.Put(made.ID, made)
	c.work("Transferring Disk "+d.Name, made.ID)
	c.watchActivity(made)

	return c.created(transferDocument(c, made)), nil
}

// transferHost is the host whose daemon moves the data of a disk.
func (c *call) transferHost(d *store.Disk) string {
	center := c.store.StorageDomains.Get(d.Domain).DataCenter

	up := func(h *store.Host) bool { return h.Status == store.HostUp && c.store.DataCenterOf(h.Cluster) == center }
	for _, h := range c.store.Hosts.Where(up, func(h *store.Host) string { return h.Name }) {
		return h.ID
	}

	return ""
}

func (s *Engine) arrangeTransfer(t *store.ImageTransfer, phase string, in time.Duration) {
	t.Until = store.Transition{Status: phase, At: time.Now().Add(in)}
	s.store.Transfers.Put(t.ID, t)
	s.wakeTransfer(t)
}

func (s *Engine) wakeTransfer(t *store.ImageTransfer) {
	due := t.Until
	s.at(due.At, func() {
		if s.store.Transfers.Get(t.ID) != t || t.Until != due {
			return
		}

		t.Until = store.Transition{}
		if due.Status == StatusRemoved {
			s.store.Transfers.Drop(t.ID)
			return
		}

		s.enter(t, due.Status)
	})
}

// step is how long a phase lasts in which the engine does its part.
func (s *Engine) step() time.Duration { return s.settings.Timings.Disk / 2 }

// afterwards are the phases that follow by themselves.
var afterwards = map[string]string{
	store.PhaseCancelledUser:   store.PhaseCleaning,
	store.PhaseCleaning:        store.PhaseFinishedCleanup,
	store.PhaseFinishedCleanup: store.PhaseFinishedFailure,
	store.PhaseCancelledSystem: store.PhaseFailing,
	store.PhaseFailing:         store.PhaseFinishedFailure,
	store.PhaseResuming:        store.PhaseTransferring,
}

// enter is the beginning of a phase. The disk of an upload that comes to nothing is illegal for a moment, then locked
// while it is removed, then gone; that of a download stays.
func (s *Engine) enter(t *store.ImageTransfer, phase string) {
	t.Phase = phase
	s.store.Transfers.Put(t.ID, t)
	d := s.store.Disks.Get(t.Disk)
	status := func(status string) {
		if d != nil {
			d.Status = status
			s.store.Disks.Put(d.ID, d)
		}
	}
	upload := t.Direction != "download"

	switch phase {
	case store.PhaseTransferring:
		t.LastActivity = time.Now()
		s.watchActivity(t)
	case store.PhaseFinishedCleanup, store.PhaseFailing:
		if upload {
			status(store.StatusIllegal)
		}
	case store.PhaseFinishedSuccess:
		status(store.StatusOK)
		s.finish(t.ID)
		s.arrangeTransfer(t, StatusRemoved, time.Minute)
	case store.PhaseFinishedFailure:
		switch {
		case d != nil && upload:
			s.removeLater(d)
		default:
			status(store.StatusOK)
		}

		s.finish(t.ID)
		s.arrangeTransfer(t, StatusRemoved, time.Minute)
	}

	if next := afterwards[phase]; next != "" {
		s.arrangeTransfer(t, next, s.step())
	}
}

func (s *Engine) resumeUpload(t *store.ImageTransfer) {
	switch {
	case t.Until.Status != "":
		s.wakeTransfer(t)
	case t.Phase == store.PhaseFinalizing:
		s.verify(t)
	case t.Phase == store.PhaseTransferring:
		t.LastActivity = time.Now()
		s.watchActivity(t)
	}
}

// watchActivity ends a transfer that nobody feeds.
func (s *Engine) watchActivity(t *store.ImageTransfer) {
	if t.InactivityTimeout <= 0 {
		return
	}

	s.at(t.LastActivity.Add(time.Duration(t.InactivityTimeout)*time.Second), func() {
		switch {
		case s.store.Transfers.Get(t.ID) != t || t.Phase != store.PhaseTransferring:
		case time.Since(t.LastActivity) < time.Duration(t.InactivityTimeout)*time.Second:
			s.watchActivity(t)
		case t.TimeoutPolicy == "pause" || t.TimeoutPolicy == "legacy" && t.Direction == "upload":
			t.Phase = store.PhasePausedSystem
			s.store.Transfers.Put(t.ID, t)
			s.event(1030, "warning", "Transfer was paused by system: no activity.", eventOf{})
		default:
			s.enter(t, store.PhaseCancelledSystem)
		}
	})
}

// steered is an action on a transfer. One that is not there, or has ended, is told as if it were done.
func steered(act func(c *call, t *store.ImageTransfer) error) operation {
	return func(c *call) (*wire.Element, error) {
		if t := c.store.Transfers.Get(c.id("id")); t != nil {
			if err := act(c, t); err != nil {
				return nil, err
			}
		}

		return c.complete(), nil
	}
}

func finalizeTransfer(c *call, t *store.ImageTransfer) error {
	switch t.Phase {
	case store.PhaseTransferring, store.PhaseResuming, store.PhasePausedSystem, store.PhasePausedUser:
		t.Phase, t.Until = store.PhaseFinalizing, store.Transition{}
		c.store.Transfers.Put(t.ID, t)
		c.verify(t)
	}

	return nil
}

func cancelTransfer(c *call, t *store.ImageTransfer) error {
	switch t.Phase {
	case store.PhaseTransferring, store.PhaseResuming, store.PhasePausedSystem, store.PhasePausedUser:
		t.Until = store.Transition{}
		c.enter(t, store.PhaseCancelledUser)
	}

	return nil
}

func pauseTransfer(c *call, t *store.ImageTransfer) error {
	if t.Direction == "download" {
		return wire.Invalid(
			"Cannot pause image download as it's handled by the client. In order to stop the " +
				"download, please cancel it.",
		)
	}

	if t.Phase == store.PhaseTransferring {
		t.Phase = store.PhasePausedUser
		c.store.Transfers.Put(t.ID, t)
	}

	return nil
}

func resumeTransfer(c *call, t *store.ImageTransfer) error {
	if t.Phase != store.PhasePausedSystem && t.Phase != store.PhasePausedUser {
		return wire.Conflict("Cannot resume image transfer as it's not in a paused state.")
	}

	c.enter(t, store.PhaseResuming)

	return nil
}

func extendTransfer(_ *call, t *store.ImageTransfer) error {
	t.LastActivity = time.Now()
	return nil
}

// fileBlock is what a file on storage grows by.
const fileBlock = 4096

// verify looks at what was uploaded, outside of the lock, and ends the transfer.
func (s *Engine) verify(t *store.ImageTransfer) {
	if t.Direction == "download" {
		s.arrangeTransfer(t, store.PhaseFinishedSuccess, s.step())
		return
	}

	d := s.store.Disks.Get(t.Disk)
	if d == nil {
		s.arrangeTransfer(t, store.PhaseFinishedFailure, 0)
		return
	}

	path, format, provisioned := s.imagePath(t.Disk), d.Format, d.Provisioned
	go func() {
		sum, size, err := inspect(path, format, provisioned)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil || s.store.Transfers.Get(t.ID) != t {
			return
		}

		if err != nil {
			s.event(1035, "error", "Image of disk "+d.Name+" is not valid: "+err.Error(), eventOf{})
			s.arrangeTransfer(t, store.PhaseFailing, s.step())
		} else {
			d.SHA256 = sum
			if d.Sparse {
				d.Actual = (size + fileBlock - 1) / fileBlock * fileBlock
			}

			// The disk can be used a moment before the transfer has ended.
			d.Status, t.TicketGone = store.StatusOK, true
			s.store.Disks.Put(d.ID, d)
			s.arrangeTransfer(t, store.PhaseFinishedSuccess, s.step())
		}

		_ = s.store.Flush()
		s.settings.Changed()
	}()
}

// inspect checks an image as qemu-img would, and sums it up.
func inspect(path, format string, provisioned int64) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // nothing was sent: the disk is as it was
		return "", thinBytes, nil
	}

	if err != nil {
		return "", 0, err
	}

	defer file.Close()
	if format == "cow" {
		header := make([]byte, 32)
		if _, err := io.ReadFull(file, header); err != nil || string(header[:4]) != "QFI\xfb" {
			return "", 0, errors.New("it is not a qcow2 image")
		}

		if binary.BigEndian.Uint64(header[8:]) != 0 {
			return "", 0, errors.New("it has a backing file")
		}

		if virtual := binary.BigEndian.Uint64(header[24:]); virtual > uint64(provisioned) { //nolint:gosec // positive
			return "", 0, fmt.Errorf("its virtual size %d is larger than the disk's %d", virtual, provisioned)
		}

		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return "", 0, err
		}
	}

	hash := sha256.New()
	if size, err = io.Copy(hash, file); err != nil {
		return "", 0, err
	}

	return hex.EncodeToString(hash.Sum(nil)), size, nil
}

// ticket is what the data endpoint knows of a transfer.
type ticket struct {
	transfer        *store.ImageTransfer
	path, direction string
	size            int64
}

func (s *Engine) ticket(id string) (*ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, t := range s.store.Transfers.Rows {
		if t.Ticket != id {
			continue
		}

		d := s.store.Disks.Get(t.Disk)
		if d == nil || !slices.Contains(hasTicket, t.Phase) {
			break
		}

		size := d.Provisioned
		if t.Format == "cow" { // with its tables a full image is a little larger than what it shows
			size = max(d.Initial, d.Provisioned+d.Provisioned/10+1<<20)
		}

		t.LastActivity = time.Now()

		return &ticket{transfer: t, path: s.imagePath(d.ID), direction: t.Direction, size: size}, nil
	}

	return nil, fmt.Errorf("No such ticket %s", id) //nolint:staticcheck // the daemon's words
}

// touch records the progress of a transfer; written is the part that has arrived.
func (s *Engine) touch(t *ticket, first, end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store.Transfers.Get(t.transfer.ID) != t.transfer || !slices.Contains(hasTicket, t.transfer.Phase) {
		return dataError(http.StatusForbidden, "You are not allowed to access this resource: No such ticket %s",
			t.transfer.Ticket)
	}

	t.transfer.LastActivity = time.Now()
	t.transfer.Covered = cover(t.transfer.Covered, first, end)

	t.transfer.Transferred = 0
	for _, r := range t.transfer.Covered {
		t.transfer.Transferred += r[1] - r[0]
	}

	s.store.Transfers.Put(t.transfer.ID, t.transfer)
	s.settings.Changed()

	return s.store.Flush()
}

// cover adds a range to a sorted list of ranges that do not overlap.
func cover(ranges [][2]int64, first, end int64) [][2]int64 {
	var out [][2]int64

	for _, r := range ranges {
		switch {
		case r[1] < first:
			out = append(out, r)
		case r[0] > end:
			out = append(out, [2]int64{first, end})
			first, end = r[0], r[1]
		default:
			first, end = min(first, r[0]), max(end, r[1])
		}
	}

	return append(out, [2]int64{first, end})
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-(\d+|\*)/(\d+|\*)$`)

// serveImage is the data endpoint. It needs no session: knowing the ticket is the right to it.
func (s *Engine) serveImage(w http.ResponseWriter, r *http.Request) {
	id, extra, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, imagesPath), "/")
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "OPTIONS,GET,PUT,PATCH")
		wire.AnswerJSON(w, http.StatusOK, map[string]any{
			"unix_socket": nil,
			"features":    []string{"extents", "flush", "zero"},
			"max_readers": 8,
			"max_writers": 8,
		})

		return
	}

	t, err := s.ticket(id)
	if err != nil {
		plainError(w, "You are not allowed to access this resource: "+err.Error(), http.StatusForbidden)
		return
	}

	switch {
	case r.Method == http.MethodPut && extra == "":
		err = s.putImage(t, r)
	case r.Method == http.MethodPatch && extra == "":
		err = s.patchImage(t, r)
	case r.Method == http.MethodGet && extra == "extents":
		wire.AnswerJSON(w, http.StatusOK, []map[string]any{
			{"start": 0, "length": t.size, "zero": false, "hole": false},
		})

		return
	case r.Method == http.MethodGet && extra == "":
		if err = t.send(w, r); err == nil {
			_ = s.touch(t, 0, 0)
			return
		}
	default:
		plainError(w, "Method not allowed", http.StatusMethodNotAllowed)
		return
	}

	var refused *wire.Refusal
	switch {
	case errors.As(err, &refused):
		if refused.Status == http.StatusRequestedRangeNotSatisfiable {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", t.size))
		}

		plainError(w, refused.Detail, refused.Status)
	case err != nil: // the connection broke: nobody listens
		plainError(w, err.Error(), http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// send answers with data of the disk, or with the range of it that was asked for.
func (t *ticket) send(w http.ResponseWriter, r *http.Request) error {
	var written io.ReaderAt = bytes.NewReader(nil)
	size := int64(0)

	file, err := os.Open(t.path)
	switch {
	case errors.Is(err, os.ErrNotExist): // nothing was ever sent
	case err != nil:
		return err
	default:
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}

		written, size = file, info.Size()
	}

	if t.transfer.Format != "cow" {
		size = t.size
	}

	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", "attachment")
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(padded{written}, 0, size))

	return nil
}

// padded reads zeroes behind the end of a file: the rest of a disk that nobody has written.
type padded struct{ io.ReaderAt }

func (p padded) ReadAt(into []byte, at int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(into, at)
	if errors.Is(err, io.EOF) {
		clear(into[n:])
		return len(into), nil
	}

	return n, err
}

// plainError answers as the transfer daemon does.
func plainError(w http.ResponseWriter, text string, status int) {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) //nolint:gosec // plain text
}

// dataError is a refusal by the data endpoint.
func dataError(status int, format string, args ...any) error {
	return &wire.Refusal{Status: status, Detail: fmt.Sprintf(format, args...)}
}

func (s *Engine) putImage(t *ticket, r *http.Request) error {
	if t.direction != "upload" {
		return dataError(http.StatusForbidden, "%s", "the ticket is for downloads")
	}

	offset := int64(0)
	if header := r.Header.Get("Content-Range"); header != "" {
		match := contentRange.FindStringSubmatch(header)
		if match == nil {
			return dataError(http.StatusBadRequest, "%s", "Invalid Content-Range: "+header)
		}

		offset, _ = strconv.ParseInt(match[1], 10, 64)
	}

	switch {
	case r.ContentLength < 0:
		return dataError(http.StatusBadRequest, "%s", "Content-Length is required")
	case offset+r.ContentLength > t.size:
		return dataError(http.StatusRequestedRangeNotSatisfiable, "%s", "Requested range out of allowed range")
	}

	file, err := os.OpenFile(t.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()

	// In pieces, so that a slow upload is seen to move.
	const piece = 4 << 20
	for at := offset; at < offset+r.ContentLength; {
		n, err := io.CopyN(io.NewOffsetWriter(file, at), r.Body, min(piece, offset+r.ContentLength-at))
		at += n
		if gone := s.touch(t, offset, at); gone != nil {
			return gone
		}

		if err != nil {
			return fmt.Errorf("the upload broke off: %w", err)
		}
	}

	if r.URL.Query().Get("flush") != "n" {
		return file.Sync()
	}

	return nil
}

func (s *Engine) patchImage(t *ticket, r *http.Request) error {
	var in struct {
		Op     string `json:"op"`
		Offset int64  `json:"offset"`
		Size   int64  `json:"size"`
		Flush  bool   `json:"flush"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&in); err != nil {
		return dataError(http.StatusBadRequest, "%s", "Invalid JSON: "+err.Error())
	}

	switch {
	case in.Op == "flush":
		return nil
	case in.Op != "zero":
		return dataError(http.StatusBadRequest, "Unsupported value '%s' for 'op', expecting one of ['flush', 'zero']",
			in.Op)
	case in.Offset < 0 || in.Size <= 0 || in.Offset+in.Size > t.size:
		return dataError(http.StatusRequestedRangeNotSatisfiable, "%s", "Requested range out of allowed range")
	}

	file, err := os.OpenFile(t.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}

	if end := in.Offset + in.Size; info.Size() < end { // a hole reads as zeros
		if err := file.Truncate(end); err != nil {
			return err
		}
	}

	for at, end := in.Offset, min(in.Offset+in.Size, info.Size()); at < end; {
		n := min(int64(1<<20), end-at)
		if _, err := file.WriteAt(make([]byte, n), at); err != nil {
			return err
		}

		at += n
	}

	return s.touch(t, in.Offset, in.Offset+in.Size)
}
