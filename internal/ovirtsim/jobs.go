package ovirtsim

import (
	"fmt"
	"net/http"
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
	made := &job{ID: newID(), Description: description, Status: "started", Correlation: c.correlationID, Started: now, Waits: waits}
	if waits == "" {
		made.Status, made.Ended = "finished", now
	}
	c.job = made.ID
	c.store.jobs.put(made.ID, made)
	trim(c.store.jobs, maxJobs, jobKey)
}

// finish ends the jobs that wait for an object.
func (s *Engine) finish(waits string) {
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
	out := object("job", j.ID, "jobs", j.ID).str("description", j.Description).str("status", j.Status).flag("auto_cleared", true).flag("external", false).
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
	j, err := one(c.store.jobs, c.id("id"))
	if err != nil {
		return nil, err
	}
	return jobDocument(c, j), nil
}

// eventOf says what an event is about.
type eventOf struct{ vm, host string }

// event adds to the engine's audit log what a request has done.
func (c *call) event(code int64, severity, description string, of eventOf) {
	c.Engine.event(code, severity, description, of)
	if last := c.store.events.get(fmt.Sprintf("%012d", c.store.counters.get("events").Value)); last != nil && c.r != nil {
		last.Correlation = c.correlationID
	}
}

// event adds to the engine's audit log.
func (s *Engine) event(code int64, severity, description string, of eventOf) {
	made := &event{ID: s.store.next("events"), Code: code, Severity: severity, Description: description, VM: of.vm, Host: of.host, Time: time.Now()}
	s.store.events.put(fmt.Sprintf("%012d", made.ID), made)
	trim(s.store.events, maxEvents, eventKey)
}

func eventKey(e *event) string { return fmt.Sprintf("%012d", e.ID) }

func eventDocument(c *call, e *event) *element {
	id := strconv.FormatInt(e.ID, 10)
	out := object("event", id, "events", id).str("description", e.Description).num("code", e.Code).opt("correlation_id", e.Correlation).num("custom_id", -1).
		num("flood_rate", 0).num("index", e.ID).str("origin", "oVirt").str("severity", e.Severity).str("time", stamp(e.Time))
	if e.VM != "" {
		out.add(ref("vm", "vms", e.VM).opt("name", c.store.vmName(e.VM)))
		if v := c.store.vms.get(e.VM); v != nil {
			out.add(ref("cluster", "clusters", v.Cluster).opt("name", c.store.clusterName(v.Cluster)))
			center := c.store.dataCenterOf(v.Cluster)
			out.add(ref("data_center", "datacenters", center).opt("name", c.store.dataCenterName(center)))
		}
	}
	if e.Host != "" {
		out.add(ref("host", "hosts", e.Host).opt("name", c.store.hostName(e.Host)))
	}
	return out
}

// eventFields are what events are found by. They are told by the objects that they are about.
func eventFields(c *call) fields[*event] {
	severities := map[string]string{"normal": "0", "warning": "1", "error": "2", "alert": "10"}
	return fields[*event]{
		"severity": func(e *event) []string { return []string{e.Severity, severities[e.Severity]} }, "type": val(func(e *event) string { return strconv.FormatInt(e.Code, 10) }),
		"message": val(func(e *event) string { return e.Description }), "id": val(func(e *event) string { return strconv.FormatInt(e.ID, 10) }),
		"correlation_id": val(func(e *event) string { return e.Correlation }), "time": val(func(e *event) string { return stamp(e.Time) }),
		"vm.name": val(func(e *event) string { return c.store.vmName(e.VM) }), "vms.name": val(func(e *event) string { return c.store.vmName(e.VM) }),
		"host.name": val(func(e *event) string { return c.store.hostName(e.Host) }), "hosts.name": val(func(e *event) string { return c.store.hostName(e.Host) }),
	}
}

func listEvents(c *call) (*element, error) {
	from := int64(-1)
	if raw := c.query.Get("from"); raw != "" {
		var err error
		if from, err = strconv.ParseInt(raw, 10, 64); err != nil {
			return nil, notANumber(raw)
		}
	}
	items := c.store.events.where(func(e *event) bool { return e.ID > from }, eventKey)
	slices.Reverse(items) // the newest first
	return collect(c, "events", items, eventFields(c), eventDocument)
}

// notANumber is what the engine says of a number that is none, outside of documents.
func notANumber(raw string) error {
	return &refusal{status: http.StatusBadRequest, reason: "Operation failed", detail: fmt.Sprintf("For input string: %q", raw)}
}

func getEvent(c *call) (*element, error) {
	n, err := strconv.ParseInt(c.id("id"), 10, 64)
	if err != nil {
		return nil, notANumber(c.id("id"))
	}
	e, err := one(c.store.events, fmt.Sprintf("%012d", n))
	if err != nil {
		return nil, err
	}
	return eventDocument(c, e), nil
}
