package engine

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Event is an entry in the engine's event log.
type Event struct {
	XMLName     xml.Name `xml:"event"`
	Index       int64    `xml:"index"` // also its ID
	Code        int      `xml:"code"`
	Severity    string   `xml:"severity"` // normal, warning, error or alert
	Time        string   `xml:"time"`     // RFC 3339
	Description string   `xml:"description"`
	// VM and Host of the event, or nil.
	VM   *Ref `xml:"vm"`
	Host *Ref `xml:"host"`
}

// parseTime returns the time of the event, or zero if the engine omits it.
func (e *Event) parseTime() time.Time {
	at, err := time.Parse(time.RFC3339, e.Time)
	if err != nil {
		return time.Time{}
	}

	return at
}

// ListEvents returns at most this many of the newest events, newest first. search is a search expression of the engine.
// An empty search returns all events.
func (c *Client) ListEvents(ctx context.Context, search string, most int) ([]Event, error) {
	query := url.Values{"max": {strconv.Itoa(most)}}
	if search != "" {
		query.Set("search", search)
	}

	return c.queryEvents(ctx, query)
}

// ListEventsAfter returns at most this many of the newest events after the one with this index, newest first. If it
// returns the maximum number, earlier events may be missing.
func (c *Client) ListEventsAfter(ctx context.Context, index int64, most int) ([]Event, error) {
	return c.queryEvents(ctx, url.Values{"from": {strconv.FormatInt(index, 10)}, "max": {strconv.Itoa(most)}})
}

const (
	// failureEvents is the number of recent events to search for a VM's failure.
	failureEvents = 500
	// maxEventText limits the text of an event in an error, in characters.
	maxEventText = 300
)

// ExplainMissing adds the engine's explanation to an error about a missing VM or disk. If an engine fails to copy a
// VM's disks, it removes both the VM and the disks, and only its events give the reason. Other errors stay unchanged.
func (c *Client) ExplainMissing(ctx context.Context, vm ID, err error) error {
	missing := IsNotFound(err) || errors.Is(err, ErrNoBootDisk)
	if IsRefused(err) { // regardless of the message
		_, gone := c.FetchVM(ctx, vm)
		missing = IsNotFound(gone)
	}

	if !missing {
		return err
	}

	events, unread := c.ListEvents(ctx, "", failureEvents)
	if unread != nil {
		return err
	}

	for _, event := range events { // newest first
		if RefID(event.VM) == vm && (event.Severity == "error" || event.Severity == "alert") {
			return fmt.Errorf("the engine says: %s (event code %d): %w",
				abridgeTo(maxEventText, c.redactSecrets(event.Description)), event.Code, err)
		}
	}

	return err
}

// Codes of events of VMs.
const (
	// vmStarted means that a VM has started on a host.
	vmStarted = 32
	// vmDownByError means that a VM ended with an error, for example because its process on the host died. A stop by
	// the guest or by a user has another code.
	vmDownByError = 119
)

// endTolerance is the maximum time between the event about a VM's end and the recorded stop time.
const endTolerance = time.Minute

// HasEndedByError reports whether, according to the engine's events, a VM last ended with an error. A VM that is down
// has a stop time, but no start time.
func (c *Client) HasEndedByError(ctx context.Context, vm *VM) (bool, error) {
	end, err := time.Parse(time.RFC3339, vm.StopTime)
	if err != nil {
		return false, nil //nolint:nilerr // without the stop time, the last event may be about an earlier run
	}

	events, err := c.ListEvents(ctx, "", failureEvents)

	for _, event := range events { // newest first
		switch {
		case RefID(event.VM) != vm.ID:
		case event.Code == vmStarted:
			return false, err
		case event.Code == vmDownByError:
			return !event.parseTime().Before(end.Add(-endTolerance)), err
		}
	}

	return false, err
}

// ErrNoBootDisk reports that a VM has no bootable disk.
var ErrNoBootDisk = errors.New("the VM has no bootable disk")

func (c *Client) queryEvents(ctx context.Context, query url.Values) ([]Event, error) {
	var list struct {
		XMLName xml.Name `xml:"events"`
		Items   []Event  `xml:"event"`
	}
	if err := c.callEngine(ctx, http.MethodGet, "/events", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list events: %w", err)
	}

	return list.Items, nil
}
