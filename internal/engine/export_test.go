package engine

import "time"

// HoldTime has the client take the present for all times: what it remembers does not age while a test counts requests.
func (c *Client) HoldTime() {
	present := time.Now()
	c.now = func() time.Time { return present }
}
