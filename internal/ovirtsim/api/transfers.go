package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var transferRoutes = []route{
	{"GET", "/imagetransfers", listTransfers},
	{"POST", "/imagetransfers", addTransfer},
	{"GET", "/imagetransfers/{id}", getTransfer},
	{"POST", "/imagetransfers/{id}/cancel", transferAction(cancelTransfer)},
	{"POST", "/imagetransfers/{id}/extend", transferAction(extendTransfer)},
	{"POST", "/imagetransfers/{id}/finalize", transferAction(finalizeTransfer)},
	{"POST", "/imagetransfers/{id}/pause", transferAction(pauseTransfer)},
	{"POST", "/imagetransfers/{id}/resume", transferAction(resumeTransfer)},
}

// imagesPath is the path of the data endpoint on the engine's address.
const imagesPath = "/images/"

func (s *Engine) transferURL(t *store.ImageTransfer) string {
	return "https://" + s.settings.Address + imagesPath + t.Ticket
}

// hasTicket are the phases in which a transfer accepts data and shows its URLs.
var hasTicket = []string{
	store.PhaseTransferring,
	store.PhaseResuming,
	store.PhasePausedSystem,
	store.PhasePausedUser,
	store.PhaseFinalizing,
}

func transferDocument(c *call, t *store.ImageTransfer) *wire.Element {
	out := wire.NewObject("image_transfer", t.ID, "imagetransfers", t.ID).Flag("active", false).
		Str("direction", t.Direction).Str("format", t.Format).
		Num("inactivity_timeout", t.InactivityTimeout).Str("phase", t.Phase).Flag("shallow", false).
		Str("timeout_policy", t.TimeoutPolicy).Num("transferred", t.Transferred)
	if slices.Contains(hasTicket, t.Phase) && !t.TicketGone { // from the first response: some clients keep it
		out.Str("transfer_url", c.transferURL(t)).Str("proxy_url", c.transferURL(t))
	}

	return out.Add(wire.El("image").SetAttr("id", t.Disk), wire.Ref("host", "hosts", t.Host))
}

// hasEnded reports whether the engine has released the disk.
func hasEnded(t *store.ImageTransfer) bool {
	return t.Phase == store.PhaseFinishedSuccess || t.Phase == store.PhaseFinishedFailure
}

func listTransfers(c *call) (*wire.Element, error) {
	of := fields[*store.ImageTransfer]{
		"id":    singleValue(func(t *store.ImageTransfer) string { return t.ID }),
		"phase": singleValue(func(t *store.ImageTransfer) string { return t.Phase }),
	}

	return answerList(c, "image_transfers", c.store.Transfers.Where(nil, store.TransferKey), of, transferDocument)
}

func getTransfer(c *call) (*wire.Element, error) {
	t, err := findRow(c.store.Transfers, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return transferDocument(c, t), nil
}

func addTransfer(c *call) (*wire.Element, error) {
	in := c.body
	named := cmp.Or(in.Get("disk"), in.Get("image"))
	if named == nil && !in.Has("snapshot") {
		return nil, invalidInput("No matching signature found, make sure that mandatory attributes are provided.")
	}

	if err := checkRef(named); err != nil {
		return nil, err
	}

	d := c.store.Disks.Get(wire.RefID(named))
	if d == nil {
		return nil, wire.PlainFault(http.StatusInternalServerError, "[General command validation failure.]")
	}

	const command = "transfer Virtual Disk"
	if err := c.checkDiskFree(d, command); err != nil {
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
		if v := c.store.VMs.Get(a.Owner); v != nil && v.IsRunning() {
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
		LastActivity:      c.now(),
	}
	d.Status, d.Until = store.StatusLocked, store.Transition{}
	c.store.Disks.Put(d.ID, d)
	c.store.Transfers.Put(made.ID, made)
	c.recordJob("Transferring Disk "+d.Name, made.ID)
	c.watchActivity(made)

	return c.answerCreated(transferDocument(c, made)), nil
}

// transferHost returns the host whose daemon transfers a disk's data.
func (c *call) transferHost(d *store.Disk) string {
	center := c.store.StorageDomains.Get(d.Domain).DataCenter

	up := func(h *store.Host) bool { return h.Status == store.HostUp && c.store.DataCenterOf(h.Cluster) == center }
	for _, h := range c.store.Hosts.Where(up, func(h *store.Host) string { return h.Name }) {
		return h.ID
	}

	return ""
}

func (s *Engine) scheduleTransfer(t *store.ImageTransfer, phase string, in time.Duration) {
	t.Until = store.Transition{Status: phase, At: s.now().Add(in)}
	s.store.Transfers.Put(t.ID, t)
	s.startTransferTimer(t)
}

func (s *Engine) startTransferTimer(t *store.ImageTransfer) {
	due := t.Until
	s.scheduleChange(due.At, func() {
		if s.store.Transfers.Get(t.ID) != t || t.Until != due {
			return
		}

		t.Until = store.Transition{}
		if due.Status == StatusRemoved {
			s.store.Transfers.Drop(t.ID)
			return
		}

		s.enterPhase(t, due.Status)
	})
}

// phaseDuration is the duration of a phase in which the engine works.
func (s *Engine) phaseDuration() time.Duration { return s.settings.Timings.Disk / 2 }

// afterwards maps phases to their automatic next phases.
var afterwards = map[string]string{
	store.PhaseCancelledUser:   store.PhaseCleaning,
	store.PhaseCleaning:        store.PhaseFinishedCleanup,
	store.PhaseFinishedCleanup: store.PhaseFinishedFailure,
	store.PhaseCancelledSystem: store.PhaseFailing,
	store.PhaseFailing:         store.PhaseFinishedFailure,
	store.PhaseResuming:        store.PhaseTransferring,
}

// enterPhase starts a phase of a transfer. The disk of a failed upload is first illegal, then locked for its removal,
// and then deleted. A download's disk stays.
func (s *Engine) enterPhase(t *store.ImageTransfer, phase string) {
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
		t.LastActivity = s.now()
		s.watchActivity(t)
	case store.PhaseFinishedCleanup, store.PhaseFailing:
		if upload {
			status(store.StatusIllegal)
		}
	case store.PhaseFinishedSuccess:
		status(store.StatusOK)
		s.finishJobs(t.ID)
		s.scheduleTransfer(t, StatusRemoved, time.Minute)
	case store.PhaseFinishedFailure:
		switch {
		case d != nil && upload:
			s.removeLater(d)
		default:
			status(store.StatusOK)
		}

		s.finishJobs(t.ID)
		s.scheduleTransfer(t, StatusRemoved, time.Minute)
	}

	if next := afterwards[phase]; next != "" {
		s.scheduleTransfer(t, next, s.phaseDuration())
	}
}

func (s *Engine) resumeUpload(t *store.ImageTransfer) {
	switch {
	case t.Until.Status != "":
		s.startTransferTimer(t)
	case t.Phase == store.PhaseFinalizing:
		s.verifyTransfer(t)
	case t.Phase == store.PhaseTransferring:
		t.LastActivity = s.now()
		s.watchActivity(t)
	}
}

// watchActivity ends a transfer that receives no data for a while.
func (s *Engine) watchActivity(t *store.ImageTransfer) {
	if t.InactivityTimeout <= 0 {
		return
	}

	s.scheduleChange(t.LastActivity.Add(time.Duration(t.InactivityTimeout)*time.Second), func() {
		switch {
		case s.store.Transfers.Get(t.ID) != t || t.Phase != store.PhaseTransferring:
		case s.now().Sub(t.LastActivity) < time.Duration(t.InactivityTimeout)*time.Second:
			s.watchActivity(t)
		case t.TimeoutPolicy == "pause" || t.TimeoutPolicy == "legacy" && t.Direction == "upload":
			t.Phase = store.PhasePausedSystem
			s.store.Transfers.Put(t.ID, t)
			s.recordEvent(1030, "warning", "Transfer was paused by system: no activity.", eventOf{})
		default:
			s.enterPhase(t, store.PhaseCancelledSystem)
		}
	})
}

// transferAction returns an action on a transfer. The action reports success even if the transfer is missing or ended.
func transferAction(act func(c *call, t *store.ImageTransfer) error) operation {
	return func(c *call) (*wire.Element, error) {
		if t := c.store.Transfers.Get(c.pathID("id")); t != nil {
			if err := act(c, t); err != nil {
				return nil, err
			}
		}

		return c.answerComplete(), nil
	}
}

func finalizeTransfer(c *call, t *store.ImageTransfer) error {
	switch t.Phase {
	case store.PhaseTransferring, store.PhaseResuming, store.PhasePausedSystem, store.PhasePausedUser:
		t.Phase, t.Until = store.PhaseFinalizing, store.Transition{}
		c.store.Transfers.Put(t.ID, t)
		c.verifyTransfer(t)
	}

	return nil
}

func cancelTransfer(c *call, t *store.ImageTransfer) error {
	switch t.Phase {
	case store.PhaseTransferring, store.PhaseResuming, store.PhasePausedSystem, store.PhasePausedUser:
		t.Until = store.Transition{}
		c.enterPhase(t, store.PhaseCancelledUser)
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

	c.enterPhase(t, store.PhaseResuming)

	return nil
}

func extendTransfer(c *call, t *store.ImageTransfer) error {
	t.LastActivity = c.now()
	return nil
}

// fileBlock is the unit of a file's growth on storage, in bytes.
const fileBlock = 4096

// verifyTransfer checks the uploaded data without holding the lock, and ends the transfer.
func (s *Engine) verifyTransfer(t *store.ImageTransfer) {
	if t.Direction == "download" {
		s.scheduleTransfer(t, store.PhaseFinishedSuccess, s.phaseDuration())
		return
	}

	d := s.store.Disks.Get(t.Disk)
	if d == nil {
		s.scheduleTransfer(t, store.PhaseFinishedFailure, 0)
		return
	}

	path, format, provisioned := s.imagePath(t.Disk), d.Format, d.Provisioned
	go func() {
		sum, size, err := inspectImage(path, format, provisioned)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil || s.store.Transfers.Get(t.ID) != t {
			return
		}

		if err != nil {
			s.recordEvent(1035, "error", "Image of disk "+d.Name+" is not valid: "+err.Error(), eventOf{})
			s.scheduleTransfer(t, store.PhaseFailing, s.phaseDuration())
		} else {
			d.SHA256 = sum
			if d.Sparse {
				d.Actual = (size + fileBlock - 1) / fileBlock * fileBlock
			}

			// The disk becomes usable a moment before the transfer ends.
			d.Status, t.TicketGone = store.StatusOK, true
			s.store.Disks.Put(d.ID, d)
			s.scheduleTransfer(t, store.PhaseFinishedSuccess, s.phaseDuration())
		}

		_ = s.store.Flush()
		s.settings.Changed()
	}()
}

// inspectImage checks an image in the way of qemu-img, and returns its checksum and its size.
func inspectImage(path, format string, provisioned int64) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // no client sent data, so the disk is unchanged
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

func (s *Engine) findTicket(id string) (*ticket, error) {
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
		if t.Format == "cow" { // with its tables, a full image is slightly larger than its virtual size
			size = max(d.Initial, d.Provisioned+d.Provisioned/10+1<<20)
		}

		t.LastActivity = s.now()

		return &ticket{transfer: t, path: s.imagePath(d.ID), direction: t.Direction, size: size}, nil
	}

	return nil, fmt.Errorf("No such ticket %s", id) //nolint:staticcheck // the daemon's words
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-(\d+|\*)/(\d+|\*)$`)
