package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// ticket is the data endpoint's view of an image transfer.
type ticket struct {
	transfer        *store.ImageTransfer
	path, direction string
	size            int64
}

// recordProgress records the range of bytes that a transfer has received.
func (s *Engine) recordProgress(t *ticket, first, end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store.Transfers.Get(t.transfer.ID) != t.transfer || !slices.Contains(hasTicket, t.transfer.Phase) {
		return dataError(http.StatusForbidden, "You are not allowed to access this resource: No such ticket %s",
			t.transfer.Ticket)
	}

	t.transfer.LastActivity = s.now()
	t.transfer.Covered = addRange(t.transfer.Covered, first, end)

	t.transfer.Transferred = 0
	for _, r := range t.transfer.Covered {
		t.transfer.Transferred += r[1] - r[0]
	}

	s.store.Transfers.Put(t.transfer.ID, t.transfer)
	s.settings.Changed()

	return s.store.Flush()
}

// addRange adds a range to a sorted list of disjoint ranges.
func addRange(ranges [][2]int64, first, end int64) [][2]int64 {
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

// serveImage is the endpoint for the data of images. It needs no session: knowing the ticket is sufficient.
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

	t, err := s.findTicket(id)
	if err != nil {
		writePlainError(w, "You are not allowed to access this resource: "+err.Error(), http.StatusForbidden)
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
		if err = t.sendData(w, r); err == nil {
			_ = s.recordProgress(t, 0, 0)
			return
		}
	default:
		writePlainError(w, "Method not allowed", http.StatusMethodNotAllowed)
		return
	}

	var refused *wire.Refusal
	switch {
	case errors.As(err, &refused):
		if refused.Status == http.StatusRequestedRangeNotSatisfiable {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", t.size))
		}

		writePlainError(w, refused.Detail, refused.Status)
	case err != nil: // the connection broke, so no client waits for an answer
		writePlainError(w, err.Error(), http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// sendData answers with the disk's data, or with the requested range of it.
func (t *ticket) sendData(w http.ResponseWriter, r *http.Request) error {
	var written io.ReaderAt = bytes.NewReader(nil)
	size := int64(0)

	file, err := os.Open(t.path)
	switch {
	case errors.Is(err, os.ErrNotExist): // no client has sent data for this disk
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

// padded reads zeroes after the end of a file, because no client has written the rest of the disk.
type padded struct{ io.ReaderAt }

func (p padded) ReadAt(into []byte, at int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(into, at)
	if errors.Is(err, io.EOF) {
		clear(into[n:])
		return len(into), nil
	}

	return n, err
}

// writePlainError writes a plain-text error in the form of the engine's transfer daemon.
func writePlainError(w http.ResponseWriter, text string, status int) {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) //nolint:gosec // plain text
}

// dataError returns an error of the data endpoint.
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

	// The file is written in pieces, so the progress of a slow upload is visible.
	const piece = 4 << 20
	for at := offset; at < offset+r.ContentLength; {
		n, err := io.CopyN(io.NewOffsetWriter(file, at), r.Body, min(piece, offset+r.ContentLength-at))
		at += n
		if gone := s.recordProgress(t, offset, at); gone != nil {
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

	return s.recordProgress(t, in.Offset, in.Offset+in.Size)
}
