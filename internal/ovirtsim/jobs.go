package ovirtsim

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// This file has what the engine tells about its own work: jobs and events.

const (
	maxJobs   = 2000
	maxEvents = 5000
)

// work notes an operation as a job. It ends with finish of the object that it waits for, at once where that is empty.
func (c *call) work(description, waits string) {
	now := time.Now()
	made := &job{ID: newID(), Description: description, Status: "started", Correlation: orElse(c.correlation(), newID()[:8]), Started: now, Waits: waits}
	if waits == "" {
		made.Status, made.Ended = "finished", now
	}
	c.job = made.ID
	c.store.jobs.put(made.ID, made)
	trim(c.store.jobs, maxJobs, jobKey)
}

// finish ends the jobs that wait for an object.
func (s *Server) finish(waits string) {
	for _, j := range s.store.jobs.rows {
		if j.Waits == waits && j.Status == "started" {
			j.Status, j.Ended = "finished", time.Now()
			s.store.jobs.put(j.ID, j)
		}
	}
}

// trim drops the oldest quarter of a table that has grown too large.
func trim[T any](t *table[T], limit int, key func(*T) string) {
	if len(t.rows) <= limit {
		return
	}
	ids := make(map[*T]string, len(t.rows))
	for id, row := range t.rows {
		ids[row] = id
	}
	for _, row := range t.where(nil, key)[:limit/4] {
		t.drop(ids[row])
	}
}

// jobKey orders by time of start.
func jobKey(j *job) string { return j.Started.UTC().Format("20060102150405.000000000") }

func jobDocument(_ *call, j *job) *element {
	out := object("job", j.ID, "jobs", j.ID).links("steps").str("description", j.Description).str("status", j.Status).flag("auto_cleared", true).flag("external", false).
		str("correlation_id", j.Correlation).str("start_time", stamp(j.Started)).str("last_updated", stamp(orElse(j.Ended, j.Started)))
	if !j.Ended.IsZero() {
		out.str("end_time", stamp(j.Ended))
	}
	return out
}

func listJobs(c *call) (*element, error) {
	of := fields[*job]{
		"correlation_id": val(func(j *job) string { return j.Correlation }), "status": val(func(j *job) string { return j.Status }),
		"description": val(func(j *job) string { return j.Description }), "id": val(func(j *job) string { return j.ID }),
	}
	items := c.store.jobs.where(nil, jobKey)
	slices.Reverse(items)
	return collect(c, "jobs", items, of, jobDocument)
}

func getJob(c *call) (*element, error) {
	j, err := one(c.store.jobs, "Job", c.id("id"))
	if err != nil {
		return nil, err
	}
	return jobDocument(c, j), nil
}

// eventOf says what an event is about.
type eventOf struct{ vm, host string }

// event adds to the engine's audit log.
func (s *Server) event(code int64, severity, description string, of eventOf) {
	made := &event{ID: s.store.next("events"), Code: code, Severity: severity, Description: description, VM: of.vm, Host: of.host, Time: time.Now()}
	s.store.events.put(fmt.Sprintf("%012d", made.ID), made)
	trim(s.store.events, maxEvents, eventKey)
}

func eventKey(e *event) string { return fmt.Sprintf("%012d", e.ID) }

func eventDocument(_ *call, e *event) *element {
	id := strconv.FormatInt(e.ID, 10)
	return object("event", id, "events", id).str("description", e.Description).num("code", e.Code).str("severity", e.Severity).str("origin", "oVirt").
		num("index", e.ID).num("flood_rate", 30).num("custom_id", -1).opt("correlation_id", e.Correlation).str("time", stamp(e.Time)).
		add(ref("vm", "vms", e.VM), ref("host", "hosts", e.Host))
}

func listEvents(c *call) (*element, error) {
	from := int64(-1)
	if raw := c.query.Get("from"); raw != "" {
		var err error
		if from, err = strconv.ParseInt(raw, 10, 64); err != nil {
			return nil, malformed("from is not a number: " + raw)
		}
	}
	of := fields[*event]{
		"severity": val(func(e *event) string { return e.Severity }), "type": val(func(e *event) string { return strconv.FormatInt(e.Code, 10) }),
		"message": val(func(e *event) string { return e.Description }), "id": val(func(e *event) string { return strconv.FormatInt(e.ID, 10) }),
		"vm.name": val(func(e *event) string {
			if v := c.store.vms.get(e.VM); v != nil {
				return v.Name
			}
			return ""
		}),
	}
	items := c.store.events.where(func(e *event) bool { return e.ID > from }, eventKey)
	slices.Reverse(items) // the newest first
	return collect(c, "events", items, of, eventDocument)
}

func getEvent(c *call) (*element, error) {
	n, _ := strconv.ParseInt(c.id("id"), 10, 64)
	e, err := one(c.store.events, "Event", fmt.Sprintf("%012d", n))
	if err != nil {
		return nil, err
	}
	return eventDocument(c, e), nil
}
