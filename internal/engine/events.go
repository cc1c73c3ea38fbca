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

// Event is a line of the engine's log of events.
type Event struct {
	XMLName     xml.Name `xml:"event"`
	Index       int64    `xml:"index"` // which is its ID, too
	Code        int      `xml:"code"`
	Severity    string   `xml:"severity"` // normal, warning, error or alert
	Time        string   `xml:"time"`     // RFC 3339
	Description string   `xml:"description"`
	// VM and Host that it is about; nil where it is about none.
	VM   *Ref `xml:"vm"`
	Host *Ref `xml:"host"`
}

// at returns when the event was; zero if the engine does not say it.
func (e *Event) at() time.Time {
	at, err := time.Parse(time.RFC3339, e.Time)
	if err != nil {
		return time.Time{}
	}

	return at
}

// Events are the newest events, newest first, at most that many. search is an expression of the engine; empty means
// all.
func (c *Client) Events(ctx context.Context, search string, most int) ([]Event, error) {
	query := url.Values{"max": {strconv.Itoa(most)}}
	if search != "" {
		query.Set("search", search)
	}

	return c.events(ctx, query)
}

// EventsAfter are the newest events after that of an index, newest first, at most that many: where there are as many,
// those before them are left out.
func (c *Client) EventsAfter(ctx context.Context, index int64, most int) ([]Event, error) {
	return c.events(ctx, url.Values{"from": {strconv.FormatInt(index, 10)}, "max": {strconv.Itoa(most)}})
}

const (
	// failureEvents is how many of the newest events are read to find out what went wrong with a VM.
	failureEvents = 500
	// maxEventText is how much of an event becomes part of an error, in characters.
	maxEventText = 300
)

// ExplainMissing adds what the engine says of a VM to the error that the VM, or a disk of it, is missing: an engine
// that cannot copy the disks of a VM takes both away, and only its events have the reason. Another error stays.
func (c *Client) ExplainMissing(ctx context.Context, vm ID, err error) error {
	missing := IsNotFound(err) || errors.Is(err, ErrNoBootDisk)
	if IsRefused(err) { // whatever it says
		_, gone := c.VM(ctx, vm)
		missing = IsNotFound(gone)
	}

	if !missing {
		return err
	}

	events, unread := c.Events(ctx, "", failureEvents)
	if unread != nil {
		return err
	}

	for _, event := range events { // newest first
		if RefID(event.VM) == vm && (event.Severity == "error" || event.Severity == "alert") {
			return fmt.Errorf("the engine says: %s (event code %d): %w",
				abridgedTo(maxEventText, c.shown(event.Description)), event.Code, err)
		}
	}

	return err
}

// Codes of events of VMs.
const (
	// vmStarted is a VM that has started on a host.
	vmStarted = 32
	// vmDownByError is a VM that ended by an error, such as the end of its process on the host. An end that its guest
	// or a user wanted has another code.
	vmDownByError = 119
)

// endTolerance is how long before the recorded end of a VM its event may be.
const endTolerance = time.Minute

// EndedByError reports whether the engine's events say that the last end of a VM was an error. A VM that is down has
// the time of its end, and not that of its start.
func (c *Client) EndedByError(ctx context.Context, vm *VM) (bool, error) {
	end, err := time.Parse(time.RFC3339, vm.StopTime)
	if err != nil {
		return false, nil //nolint:nilerr // nothing says which end is the last one
	}

	events, err := c.Events(ctx, "", failureEvents)

	for _, event := range events { // newest first
		switch {
		case RefID(event.VM) != vm.ID:
		case event.Code == vmStarted:
			return false, err
		case event.Code == vmDownByError:
			return !event.at().Before(end.Add(-endTolerance)), err
		}
	}

	return false, err
}

// ErrNoBootDisk reports that a VM has no disk that it can boot from.
var ErrNoBootDisk = errors.New("the VM has no bootable disk")

func (c *Client) events(ctx context.Context, query url.Values) ([]Event, error) {
	var list struct {
		XMLName xml.Name `xml:"events"`
		Items   []Event  `xml:"event"`
	}
	if err := c.do(ctx, http.MethodGet, "/events", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list events: %w", err)
	}

	return list.Items, nil
}
