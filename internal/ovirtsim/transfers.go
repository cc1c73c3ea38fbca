package ovirtsim

import (
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
)

// This file has image transfers: the engine's side, and the data endpoint that ovirt-imageio serves on a host.

// The phases of a transfer.
const (
	phaseResuming        = "resuming"
	phaseTransferring    = "transferring"
	phasePausedSystem    = "paused_system"
	phasePausedUser      = "paused_user"
	phaseFinalizing      = "finalizing_success"
	phaseFailing         = "finalizing_failure"
	phaseCleaning        = "finalizing_cleanup"
	phaseFinishedSuccess = "finished_success"
	phaseFinishedFailure = "finished_failure"
	phaseCancelledUser   = "cancelled_user"
	phaseCancelledSystem = "cancelled_system"
	phaseFinishedCleanup = "finished_cleanup"
)

// imagesPath is where the data endpoint is served, beside the engine.
const imagesPath = "/images/"

func (s *Engine) transferURL(t *imageTransfer) string {
	return "https://" + s.settings.Address + imagesPath + t.Ticket
}

// hasTicket are the phases in which data can be sent, and the URLs are told.
var hasTicket = []string{phaseTransferring, phaseResuming, phasePausedSystem, phasePausedUser, phaseFinalizing}

func transferDocument(c *call, t *imageTransfer) *element {
	out := object("image_transfer", t.ID, "imagetransfers", t.ID).flag("active", false).str("direction", t.Direction).str("format", t.Format).
		num("inactivity_timeout", t.InactivityTimeout).str("phase", t.Phase).flag("shallow", false).str("timeout_policy", t.TimeoutPolicy).num("transferred", t.Transferred)
	if slices.Contains(hasTicket, t.Phase) && !t.ticketGone { // from the first answer: some clients keep it
		out.str("transfer_url", c.transferURL(t)).str("proxy_url", c.transferURL(t))
	}
	return out.add(el("image").set("id", t.Disk), ref("host", "hosts", t.Host))
}

// ended says whether the engine has let go of the disk.
func (t *imageTransfer) ended() bool {
	return t.Phase == phaseFinishedSuccess || t.Phase == phaseFinishedFailure
}

func transferKey(t *imageTransfer) string { return t.ID }

func listTransfers(c *call) (*element, error) {
	of := fields[*imageTransfer]{"id": val(func(t *imageTransfer) string { return t.ID }), "phase": val(func(t *imageTransfer) string { return t.Phase })}
	return collect(c, "image_transfers", c.store.transfers.where(nil, transferKey), of, transferDocument)
}

func getTransfer(c *call) (*element, error) {
	t, err := one(c.store.transfers, c.id("id"))
	if err != nil {
		return nil, err
	}
	return transferDocument(c, t), nil
}

func addTransfer(c *call) (*element, error) {
	in := c.body
	named := orElse(in.get("disk"), in.get("image"))
	if named == nil && !in.has("snapshot") {
		return nil, notMandatory("No matching signature found, make sure that mandatory attributes are provided.")
	}
	if err := checkRef(named); err != nil {
		return nil, err
	}
	d := c.store.disks.get(refID(named))
	if d == nil {
		return nil, failed(http.StatusInternalServerError, "[General command validation failure.]")
	}
	const command = "transfer Virtual Disk"
	if err := c.busy(d, command); err != nil {
		return nil, err
	}
	if d.Status == statusIllegal && in.value("direction") == "download" {
		return nil, conflict("Cannot transfer Virtual Disk. The following disks are in ILLEGAL status: %s - please remove them and try again.", d.Name)
	}
	for _, a := range c.store.attachmentsOfDisk(d.ID) {
		if v := c.store.vms.get(a.Owner); v != nil && v.running() {
			return nil, conflict("Cannot transfer Virtual Disk. At least one of the VMs is not down.")
		}
	}
	made := &imageTransfer{
		ID: newID(), Disk: d.ID, Direction: orElse(in.value("direction"), "upload"), Phase: phaseTransferring, Format: orElse(in.value("format"), d.Format), Ticket: newID(),
		Host: c.transferHost(d), TimeoutPolicy: orElse(in.value("timeout_policy"), "legacy"), InactivityTimeout: orElse(in.number("inactivity_timeout"), 60), LastActivity: time.Now(),
	}
	d.Status, d.Until = statusLocked, transition{}
	c.store.disks.put(d.ID, d)
	c.store.transfers.put(made.ID, made)
	c.work("Transferring Disk "+d.Name, made.ID)
	c.watchActivity(made)
	return c.created(transferDocument(c, made)), nil
}

// transferHost is the host whose daemon moves the data of a disk.
func (c *call) transferHost(d *disk) string {
	center := c.store.storageDomains.get(d.Domain).DataCenter
	up := func(h *host) bool { return h.Status == hostUp && c.store.dataCenterOf(h.Cluster) == center }
	for _, h := range c.store.hosts.where(up, func(h *host) string { return h.Name }) {
		return h.ID
	}
	return ""
}

func (s *Engine) arrangeTransfer(t *imageTransfer, phase string, in time.Duration) {
	t.Until = transition{Status: phase, At: time.Now().Add(in)}
	s.store.transfers.put(t.ID, t)
	s.wakeTransfer(t)
}

func (s *Engine) wakeTransfer(t *imageTransfer) {
	due := t.Until
	s.at(due.At, func() {
		if s.store.transfers.get(t.ID) != t || t.Until != due {
			return
		}
		t.Until = transition{}
		if due.Status == statusRemoved {
			s.store.transfers.drop(t.ID)
			return
		}
		s.enter(t, due.Status)
	})
}

// step is how long a phase lasts in which the engine does its part.
func (s *Engine) step() time.Duration { return s.settings.Timings.Disk / 2 }

// afterwards are the phases that follow by themselves.
var afterwards = map[string]string{
	phaseCancelledUser: phaseCleaning, phaseCleaning: phaseFinishedCleanup, phaseFinishedCleanup: phaseFinishedFailure,
	phaseCancelledSystem: phaseFailing, phaseFailing: phaseFinishedFailure, phaseResuming: phaseTransferring,
}

// enter is the beginning of a phase. The disk of an upload that comes to nothing is illegal for a moment, then locked while it
// is removed, then gone; that of a download stays.
func (s *Engine) enter(t *imageTransfer, phase string) {
	t.Phase = phase
	s.store.transfers.put(t.ID, t)
	d := s.store.disks.get(t.Disk)
	status := func(status string) {
		if d != nil {
			d.Status = status
			s.store.disks.put(d.ID, d)
		}
	}
	upload := t.Direction != "download"
	switch phase {
	case phaseTransferring:
		t.LastActivity = time.Now()
		s.watchActivity(t)
	case phaseFinishedCleanup, phaseFailing:
		if upload {
			status(statusIllegal)
		}
	case phaseFinishedSuccess:
		status(statusOK)
		s.finish(t.ID)
		s.arrangeTransfer(t, statusRemoved, time.Minute)
	case phaseFinishedFailure:
		switch {
		case d != nil && upload:
			s.removeLater(d)
		default:
			status(statusOK)
		}
		s.finish(t.ID)
		s.arrangeTransfer(t, statusRemoved, time.Minute)
	}
	if next := afterwards[phase]; next != "" {
		s.arrangeTransfer(t, next, s.step())
	}
}

func (s *Engine) resumeUpload(t *imageTransfer) {
	switch {
	case t.Until.Status != "":
		s.wakeTransfer(t)
	case t.Phase == phaseFinalizing:
		s.verify(t)
	case t.Phase == phaseTransferring:
		t.LastActivity = time.Now()
		s.watchActivity(t)
	}
}

// watchActivity ends a transfer that nobody feeds.
func (s *Engine) watchActivity(t *imageTransfer) {
	if t.InactivityTimeout <= 0 {
		return
	}
	s.at(t.LastActivity.Add(time.Duration(t.InactivityTimeout)*time.Second), func() {
		switch {
		case s.store.transfers.get(t.ID) != t || t.Phase != phaseTransferring:
		case time.Since(t.LastActivity) < time.Duration(t.InactivityTimeout)*time.Second:
			s.watchActivity(t)
		case t.TimeoutPolicy == "pause" || t.TimeoutPolicy == "legacy" && t.Direction == "upload":
			t.Phase = phasePausedSystem
			s.store.transfers.put(t.ID, t)
			s.event(1030, "warning", "Transfer was paused by system: no activity.", eventOf{})
		default:
			s.enter(t, phaseCancelledSystem)
		}
	})
}

// steered is an action on a transfer. One that is not there, or has ended, is told as if it were done.
func steered(act func(c *call, t *imageTransfer) error) operation {
	return func(c *call) (*element, error) {
		if t := c.store.transfers.get(c.id("id")); t != nil {
			if err := act(c, t); err != nil {
				return nil, err
			}
		}
		return c.complete(), nil
	}
}

func finalizeTransfer(c *call, t *imageTransfer) error {
	switch t.Phase {
	case phaseTransferring, phaseResuming, phasePausedSystem, phasePausedUser:
		t.Phase, t.Until = phaseFinalizing, transition{}
		c.store.transfers.put(t.ID, t)
		c.verify(t)
	}
	return nil
}

func cancelTransfer(c *call, t *imageTransfer) error {
	switch t.Phase {
	case phaseTransferring, phaseResuming, phasePausedSystem, phasePausedUser:
		t.Until = transition{}
		c.enter(t, phaseCancelledUser)
	}
	return nil
}

func pauseTransfer(c *call, t *imageTransfer) error {
	if t.Direction == "download" {
		return invalid("Cannot pause image download as it's handled by the client. In order to stop the download, please cancel it.")
	}
	if t.Phase == phaseTransferring {
		t.Phase = phasePausedUser
		c.store.transfers.put(t.ID, t)
	}
	return nil
}

func resumeTransfer(c *call, t *imageTransfer) error {
	if t.Phase != phasePausedSystem && t.Phase != phasePausedUser {
		return conflict("Cannot resume image transfer as it's not in a paused state.")
	}
	c.enter(t, phaseResuming)
	return nil
}

func extendTransfer(_ *call, t *imageTransfer) error {
	t.LastActivity = time.Now()
	return nil
}

// verify looks at what was uploaded, outside of the lock, and ends the transfer.
func (s *Engine) verify(t *imageTransfer) {
	if t.Direction == "download" {
		s.arrangeTransfer(t, phaseFinishedSuccess, s.step())
		return
	}
	d := s.store.disks.get(t.Disk)
	if d == nil {
		s.arrangeTransfer(t, phaseFinishedFailure, 0)
		return
	}
	path, format, provisioned := s.imagePath(t.Disk), d.Format, d.Provisioned
	go func() {
		sum, size, err := inspect(path, format, provisioned)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil || s.store.transfers.get(t.ID) != t {
			return
		}
		if err != nil {
			s.event(1035, "error", "Image of disk "+d.Name+" is not valid: "+err.Error(), eventOf{})
			s.arrangeTransfer(t, phaseFailing, s.step())
		} else {
			d.SHA256 = sum
			if d.Sparse {
				d.Actual = size
			}
			// The disk can be used a moment before the transfer has ended.
			d.Status, t.ticketGone = statusOK, true
			s.store.disks.put(d.ID, d)
			s.arrangeTransfer(t, phaseFinishedSuccess, s.step())
		}
		_ = s.store.flush()
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
	transfer        *imageTransfer
	path, direction string
	size            int64
}

func (s *Engine) ticket(id string) (*ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.store.transfers.rows {
		if t.Ticket != id {
			continue
		}
		d := s.store.disks.get(t.Disk)
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
	if s.store.transfers.get(t.transfer.ID) != t.transfer || !slices.Contains(hasTicket, t.transfer.Phase) {
		return dataError(http.StatusForbidden, "You are not allowed to access this resource: No such ticket %s", t.transfer.Ticket)
	}
	t.transfer.LastActivity = time.Now()
	t.transfer.Covered = cover(t.transfer.Covered, first, end)
	t.transfer.Transferred = 0
	for _, r := range t.transfer.Covered {
		t.transfer.Transferred += r[1] - r[0]
	}
	s.store.transfers.put(t.transfer.ID, t.transfer)
	s.settings.Changed()
	return s.store.flush()
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
		answerJSON(w, http.StatusOK, map[string]any{"unix_socket": nil, "features": []string{"extents", "flush", "zero"}, "max_readers": 8, "max_writers": 8})
		return
	}
	t, err := s.ticket(id)
	if err != nil {
		http.Error(w, "You are not allowed to access this resource: "+err.Error(), http.StatusForbidden)
		return
	}
	switch {
	case r.Method == http.MethodPut && extra == "":
		err = s.putImage(t, r)
	case r.Method == http.MethodPatch && extra == "":
		err = s.patchImage(t, r)
	case r.Method == http.MethodGet && extra == "extents":
		answerJSON(w, http.StatusOK, []map[string]any{{"start": 0, "length": t.size, "zero": false, "hole": false}})
		return
	case r.Method == http.MethodGet && extra == "":
		http.ServeFile(w, r, t.path)
		_ = s.touch(t, 0, 0)
		return
	default:
		http.Error(w, "Method not allowed", http.StatusMethodNotAllowed)
		return
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		http.Error(w, refused.detail, refused.status)
	case err != nil: // the connection broke: nobody listens
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// dataError is a refusal by the data endpoint.
func dataError(status int, format string, args ...any) error {
	return &refusal{status: status, detail: fmt.Sprintf(format, args...)}
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
		return dataError(http.StatusRequestedRangeNotSatisfiable, "%s", fmt.Sprintf("Requested range out of allowed range: the size is %d", t.size))
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
		return dataError(http.StatusBadRequest, "Unsupported value '%s' for 'op', expecting one of ['flush', 'zero']", in.Op)
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
