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
	Code        int      `xml:"code"`
	Severity    string   `xml:"severity"` // normal, warning, error or alert
	Time        string   `xml:"time"`     // RFC 3339
	Description string   `xml:"description"`
}

// Events are the newest events, newest first, at most that many. search is an expression of the engine; empty means
// all.
func (c *Client) Events(ctx context.Context, search string, most int) ([]Event, error) {
	query := url.Values{"max": {strconv.Itoa(most)}}
	if search != "" {
		query.Set("search", search)
	}

	var list struct {
		XMLName xml.Name `xml:"events"`
		Items   []Event  `xml:"event"`
	}
	if err := c.do(ctx, http.MethodGet, "/events", query, nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list events: %w", err)
	}

	return list.Items, nil
}
