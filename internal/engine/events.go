package engine

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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
