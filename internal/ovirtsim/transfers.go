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
	"strconv"
	"strings"
	"time"
)

// This file has image transfers: the engine's side, and the data endpoint that ovirt-imageio serves on a host.

// The phases of a transfer.
const (
	phaseInitializing    = "initializing"
	phaseTransferring    = "transferring"
	phasePausedSystem    = "paused_system"
	phasePausedUser      = "paused_user"
	phaseFinalizing      = "finalizing_success"
	phaseFinishedSuccess = "finished_success"
	phaseFinishedFailure = "finished_failure"
	phaseCancelledUser   = "cancelled_user"
	phaseCancelledSystem = "cancelled_system"
	phaseFinishedCleanup = "finished_cleanup"
)

// imagesPath is where the data endpoint is served, beside the engine.
const imagesPath = "/images/"

func (s *Server) transferURL(t *imageTransfer) string {
	return "https://" + s.listener.Addr().String() + imagesPath + t.Ticket
}

func transferDocument(c *call, t *imageTransfer) *element {
	out := object("image_transfer", t.ID, "imagetransfers", t.ID).actions("cancel", "extend", "finalize", "pause", "resume").flag("active", t.Phase == phaseTransferring).
		str("direction", t.Direction).str("format", t.Format).num("inactivity_timeout", t.InactivityTimeout).str("phase", t.Phase).flag("shallow", false).
		str("timeout_policy", t.TimeoutPolicy).num("transferred", t.Transferred)
	switch t.Phase {
	case phaseInitializing, phaseTransferring, phasePausedSystem, phasePausedUser: // from the beginning: some clients keep the first answer
		out.str("transfer_url", c.transferURL(t)).str("proxy_url", c.transferURL(t))
	}
	return out.add(ref("disk", "disks", t.Disk), ref("image", "disks", t.Disk))
}

func transferKey(t *imageTransfer) string { return t.ID }

func listTransfers(c *call) (*element, error) {
	of := fields[*imageTransfer]{"id": val(func(t *imageTransfer) string { return t.ID }), "phase": val(func(t *imageTransfer) string { return t.Phase })}
	return collect(c, "image_transfers", c.store.transfers.where(nil, transferKey), of, transferDocument)
}

func (c *call) transfer() (*imageTransfer, error) {
	return one(c.store.transfers, "ImageTransfer", c.id("id"))
}

func getTransfer(c *call) (*element, error) {
	t, err := c.transfer()
	if err != nil {
		return nil, err
	}
	return transferDocument(c, t), nil
}

func addTransfer(c *call) (*element, error) {
	in := c.body
	d := c.store.disks.get(orElse(refID(in.get("disk")), refID(in.get("image"))))
	switch {
	case !in.has("disk") && !in.has("image"):
		return nil, incomplete("ImageTransfer", "disk.id")
	case d == nil:
		return nil, notFound("Disk", orElse(refID(in.get("disk")), refID(in.get("image"))))
	case d.Status != statusOK:
		return nil, conflict("Cannot transfer Virtual Disk: Disk is locked. Please try again later.")
	}
	for _, a := range c.store.attachmentsOfDisk(d.ID) {
		if v := c.store.vms.get(a.Owner); v != nil && v.Status != statusDown {
			return nil, conflict("Cannot transfer Virtual Disk. At least one of the VMs is not down.")
		}
	}
	made := &imageTransfer{
		ID: newID(), Disk: d.ID, Direction: orElse(in.value("direction"), "upload"), Phase: phaseInitializing, Format: orElse(in.value("format"), d.Format), Ticket: newID(),
		TimeoutPolicy: orElse(in.value("timeout_policy"), "legacy"), InactivityTimeout: orElse(in.number("inactivity_timeout"), 60), LastActivity: time.Now(),
	}
	d.Status, d.Until = statusLocked, transition{}
	c.store.disks.put(d.ID, d)
	c.work("Transferring Disk "+d.Name, made.ID)
	c.arrangeTransfer(made, phaseTransferring, c.options.Timings.Disk/2)
	c.created = true
	return transferDocument(c, made), nil
}

func (s *Server) arrangeTransfer(t *imageTransfer, phase string, in time.Duration) {
	t.Until = transition{Status: phase, At: time.Now().Add(in)}
	s.store.transfers.put(t.ID, t)
	s.wakeTransfer(t)
}

func (s *Server) wakeTransfer(t *imageTransfer) {
	due := t.Until
	s.at(due.At, func() {
		if s.store.transfers.get(t.ID) != t || t.Until != due {
			return
		}
		t.Until = transition{}
		switch due.Status {
		case phaseTransferring:
			t.Phase, t.LastActivity = phaseTransferring, time.Now()
			s.store.transfers.put(t.ID, t)
			s.watchActivity(t)
		case statusRemoved:
			s.store.transfers.drop(t.ID)
		default:
			s.endTransfer(t, due.Status)
		}
	})
}

func (s *Server) resumeUpload(t *imageTransfer) {
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
func (s *Server) watchActivity(t *imageTransfer) {
	if t.InactivityTimeout == 0 {
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
			t.Phase = phaseCancelledSystem
			s.arrangeTransfer(t, phaseFinishedFailure, s.options.Timings.Disk/2)
		}
	})
}

// endTransfer is the end of a transfer: the disk is usable; or it is illegal, for what it was given is not an image; or it
// is gone, for the user gave it up. The transfer itself can be seen for a while.
func (s *Server) endTransfer(t *imageTransfer, phase string) {
	t.Phase = phase
	s.store.transfers.put(t.ID, t)
	if d := s.store.disks.get(t.Disk); d != nil {
		switch {
		case phase == phaseFinishedSuccess || t.Direction == "download":
			d.Status = statusOK
			s.store.disks.put(d.ID, d)
		case phase == phaseFinishedFailure:
			d.Status = statusIllegal
			s.store.disks.put(d.ID, d)
		default:
			s.dropDisk(d)
		}
	}
	s.finish(t.ID)
	s.arrangeTransfer(t, statusRemoved, time.Minute)
}

func finalizeTransfer(c *call) (*element, error) {
	t, err := c.transfer()
	if err != nil {
		return nil, err
	}
	switch t.Phase {
	case phaseTransferring, phasePausedSystem, phasePausedUser:
	case phaseFinalizing, phaseFinishedSuccess:
		return c.complete(), nil
	default:
		return nil, conflict("Cannot finalize Image Transfer. The transfer is in phase %s.", t.Phase)
	}
	t.Phase = phaseFinalizing
	c.store.transfers.put(t.ID, t)
	c.verify(t)
	return c.complete(), nil
}

// verify looks at what was uploaded, outside of the lock, and ends the transfer.
func (s *Server) verify(t *imageTransfer) {
	if t.Direction == "download" {
		s.arrangeTransfer(t, phaseFinishedSuccess, s.options.Timings.Disk/2)
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
			s.arrangeTransfer(t, phaseFinishedFailure, s.options.Timings.Disk/2)
		} else {
			d.SHA256 = sum
			if d.Sparse {
				d.Actual = size
			}
			s.store.disks.put(d.ID, d)
			s.arrangeTransfer(t, phaseFinishedSuccess, s.options.Timings.Disk/2)
		}
		_ = s.store.flush()
		s.watchers.changed()
	}()
}

// inspect checks an image as qemu-img would, and sums it up.
func inspect(path, format string, provisioned int64) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", 0, errors.New("nothing was uploaded")
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

func cancelTransfer(c *call) (*element, error) {
	t, err := c.transfer()
	if err != nil {
		return nil, err
	}
	switch t.Phase {
	case phaseInitializing, phaseTransferring, phasePausedSystem, phasePausedUser:
		t.Phase = phaseCancelledUser
		c.arrangeTransfer(t, phaseFinishedCleanup, c.options.Timings.Disk/2)
	case phaseFinalizing:
		return nil, conflict("Cannot cancel Image Transfer. The transfer is being finalized.")
	}
	return c.complete(), nil
}

func pauseTransfer(c *call) (*element, error)  { return c.pause(phaseTransferring, phasePausedUser) }
func extendTransfer(c *call) (*element, error) { return c.pause(phaseTransferring, phaseTransferring) }

func resumeTransfer(c *call) (*element, error) {
	t, err := c.transfer()
	if err != nil {
		return nil, err
	}
	if t.Phase == phasePausedSystem {
		return c.pause(phasePausedSystem, phaseTransferring)
	}
	return c.pause(phasePausedUser, phaseTransferring)
}

// pause moves a transfer from one phase to another.
func (c *call) pause(from, to string) (*element, error) {
	t, err := c.transfer()
	if err != nil {
		return nil, err
	}
	if t.Phase != from {
		return nil, conflict("Cannot change Image Transfer. The transfer is in phase %s.", t.Phase)
	}
	t.Phase, t.LastActivity = to, time.Now()
	c.store.transfers.put(t.ID, t)
	if to == phaseTransferring {
		c.watchActivity(t)
	}
	return c.complete(), nil
}

// ticket is what the data endpoint knows of a transfer.
type ticket struct {
	transfer        *imageTransfer
	path, direction string
	size            int64
}

func (s *Server) ticket(id string) (*ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.store.transfers.rows {
		if t.Ticket != id {
			continue
		}
		d := s.store.disks.get(t.Disk)
		if d == nil || t.Phase != phaseTransferring {
			break
		}
		size := d.Provisioned
		if t.Format == "cow" { // with its tables a full image is a little larger than what it shows
			size = max(d.Initial, d.Provisioned+d.Provisioned/10+1<<20)
		}
		t.LastActivity = time.Now()
		return &ticket{transfer: t, path: s.imagePath(d.ID), direction: t.Direction, size: size}, nil
	}
	return nil, fmt.Errorf("no such ticket %s", id)
}

// touch records the progress of a transfer; written is the part that has arrived.
func (s *Server) touch(t *ticket, first, end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store.transfers.get(t.transfer.ID) != t.transfer || t.transfer.Phase != phaseTransferring {
		return &refusal{http.StatusForbidden, "", "the transfer has ended"}
	}
	t.transfer.LastActivity = time.Now()
	t.transfer.Covered = cover(t.transfer.Covered, first, end)
	t.transfer.Transferred = 0
	for _, r := range t.transfer.Covered {
		t.transfer.Transferred += r[1] - r[0]
	}
	s.store.transfers.put(t.transfer.ID, t.transfer)
	s.watchers.changed()
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
func (s *Server) serveImage(w http.ResponseWriter, r *http.Request) {
	id, extra, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, imagesPath), "/")
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", "OPTIONS,GET,PUT,PATCH")
		answerJSON(w, http.StatusOK, map[string]any{"unix_socket": nil, "features": []string{"extents", "zero", "flush"}, "max_readers": 8, "max_writers": 8})
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

func (s *Server) putImage(t *ticket, r *http.Request) error {
	if t.direction != "upload" {
		return &refusal{http.StatusForbidden, "", "the ticket is for downloads"}
	}
	offset := int64(0)
	if header := r.Header.Get("Content-Range"); header != "" {
		match := contentRange.FindStringSubmatch(header)
		if match == nil {
			return &refusal{http.StatusBadRequest, "", "Invalid Content-Range: " + header}
		}
		offset, _ = strconv.ParseInt(match[1], 10, 64)
		if last, err := strconv.ParseInt(match[2], 10, 64); err == nil && r.ContentLength >= 0 && last-offset+1 != r.ContentLength {
			return &refusal{http.StatusBadRequest, "", "Content-Range does not agree with Content-Length"}
		}
	}
	switch {
	case r.ContentLength < 0:
		return &refusal{http.StatusBadRequest, "", "Content-Length is required"}
	case offset+r.ContentLength > t.size:
		return &refusal{http.StatusRequestedRangeNotSatisfiable, "", fmt.Sprintf("Requested range out of allowed range: the size is %d", t.size)}
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

func (s *Server) patchImage(t *ticket, r *http.Request) error {
	var in struct {
		Op     string `json:"op"`
		Offset int64  `json:"offset"`
		Size   int64  `json:"size"`
		Flush  bool   `json:"flush"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&in); err != nil {
		return &refusal{http.StatusBadRequest, "", "Invalid JSON: " + err.Error()}
	}
	switch {
	case in.Op == "flush":
		return nil
	case in.Op != "zero":
		return &refusal{http.StatusBadRequest, "", "Unknown op " + in.Op}
	case in.Offset < 0 || in.Size <= 0 || in.Offset+in.Size > t.size:
		return &refusal{http.StatusRequestedRangeNotSatisfiable, "", "Requested range out of allowed range"}
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
