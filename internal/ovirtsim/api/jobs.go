package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the engine's reports about its own work: jobs and events.

var jobRoutes = []route{
	{"GET", "/events", listEvents},
	{"GET", "/events/{id}", getEvent},
	{"GET", "/jobs", listJobs},
	{"GET", "/jobs/{id}", getJob},
	{"GET", "/jobs/{id}/steps", listNothing("steps")},
}

const (
	maxJobs   = 2000
	maxEvents = 5000
)

// work records an operation as a job. The job ends with finish of the object it waits for, or at once without one.
func (c *call) work(description, waits string) {
	now := c.now()
	made := &store.Job{
		ID:          store.NewID(),
		Description: description,
		Status:      "started",
		Correlation: c.correlationID,
		Started:     now,
		Waits:       waits,
	}
	if waits == "" {
		made.Status, made.Ended = "finished", now
	}

	c.job = made.ID
	c.store.Jobs.Put(made.ID, made)
	trim(c.store.Jobs, maxJobs, store.JobKey)
}

// finish ends the jobs waiting for an object.
func (s *Engine) finish(waits string) {
	for _, j := range s.store.Jobs.Rows {
		if j.Waits == waits && j.Status == "started" {
			j.Status, j.Ended = "finished", s.now()
			s.store.Jobs.Put(j.ID, j)
		}
	}
}

// trim drops the oldest quarter of a table above its limit.
func trim[T any](t *store.Table[T], limit int, key func(*T) string) {
	if len(t.Rows) <= limit {
		return
	}

	ids := make(map[*T]string, len(t.Rows))
	for id, row := range t.Rows {
		ids[row] = id
	}

	for _, row := range t.Where(nil, key)[:limit/4] {
		t.Drop(ids[row])
	}
}

func jobDocument(_ *call, j *store.Job) *wire.Element {
	out := wire.Object("job", j.ID, "jobs", j.ID).Str("description", j.Description).Str("status", j.Status).
		Flag("auto_cleared", true).Flag("external", false).
		Str("correlation_id", j.Correlation).Str("start_time", stamp(j.Started)).
		Str("last_updated", stamp(cmp.Or(j.Ended, j.Started)))
	if !j.Ended.IsZero() {
		out.Str("end_time", stamp(j.Ended))
	}

	return out
}

// noJobField is the engine's error for a job search with an unknown field. It was recorded for a name; for a status,
// only the refusal was.
const noJobField = "statementcallback; bad sql grammar [select * from (select * from job where ( job id in (select " +
	"distinct job.job id from " +
	" job   where  (  ) ))  order by start time asc) as t1 offset (1 -1) limit 2147483647]; nested exception is " +
	"org.postgresql.util.psqlexception: error: syntax error at or near \")\"\n  position: 102"

func listJobs(c *call) (*wire.Element, error) {
	of := fields[*store.Job]{
		"correlation_id": val(func(j *store.Job) string { return j.Correlation }),
		"description":    val(func(j *store.Job) string { return j.Description }),
	}
	if q, err := parseSearch(c.query.Get("search")); err == nil && !q.knows(of) {
		return nil, wire.Failed(http.StatusBadRequest, "%s", noJobField)
	}

	items := c.store.Jobs.Where(nil, store.JobKey)
	slices.Reverse(items)

	return collect(c, "jobs", items, of, jobDocument)
}

func getJob(c *call) (*wire.Element, error) {
	j, err := one(c.store.Jobs, c.id("id"))
	if err != nil {
		return nil, err
	}

	return jobDocument(c, j), nil
}

// eventOf names the objects of an event.
type eventOf struct{ vm, host string }

// event adds the effect of a request to the engine's audit log.
func (c *call) event(code int64, severity, description string, of eventOf) {
	c.Engine.event(code, severity, description, of)
	last := c.store.Events.Get(fmt.Sprintf("%012d", c.store.Counters.Get("events").Value))
	if last != nil && c.r != nil {
		last.Correlation = c.correlationID
	}
}

// event adds an entry to the engine's audit log.
func (s *Engine) event(code int64, severity, description string, of eventOf) {
	made := &store.Event{
		ID:          s.store.Next("events"),
		Code:        code,
		Severity:    severity,
		Description: description,
		VM:          of.vm,
		VMName:      s.store.VMName(of.vm),
		Host:        of.host,
		Time:        s.now(),
	}
	s.store.Events.Put(fmt.Sprintf("%012d", made.ID), made)
	trim(s.store.Events, maxEvents, store.EventKey)
}

func eventDocument(c *call, e *store.Event) *wire.Element {
	id := strconv.FormatInt(e.ID, 10)
	out := wire.Object("event", id, "events", id).Str("description", e.Description).Num("code", e.Code).
		Opt("correlation_id", e.Correlation).Num("custom_id", -1).
		Num("flood_rate", 0).Num("index", e.ID).Str("origin", "oVirt").Str("severity", e.Severity).
		Str("time", stamp(e.Time))
	if e.VM != "" {
		out.Add(wire.Ref("vm", "vms", e.VM).Opt("name", c.store.VMName(e.VM)))
		if v := c.store.VMs.Get(e.VM); v != nil {
			out.Add(wire.Ref("cluster", "clusters", v.Cluster).Opt("name", c.store.ClusterName(v.Cluster)))
			center := c.store.DataCenterOf(v.Cluster)
			out.Add(wire.Ref("data_center", "datacenters", center).Opt("name", c.store.DataCenterName(center)))
		}
	}

	if e.Host != "" {
		out.Add(wire.Ref("host", "hosts", e.Host).Opt("name", c.store.HostName(e.Host)))
	}

	return out
}

// eventFields are the search fields of events. They include the objects of the events.
func eventFields(c *call) fields[*store.Event] {
	severities := map[string]string{"normal": "0", "warning": "1", "error": "2", "alert": "10"}

	return fields[*store.Event]{
		"severity":       func(e *store.Event) []string { return []string{e.Severity, severities[e.Severity]} },
		"type":           val(func(e *store.Event) string { return strconv.FormatInt(e.Code, 10) }),
		"message":        val(func(e *store.Event) string { return e.Description }),
		"id":             val(func(e *store.Event) string { return strconv.FormatInt(e.ID, 10) }),
		"correlation_id": val(func(e *store.Event) string { return e.Correlation }),
		"time":           val(func(e *store.Event) string { return stamp(e.Time) }),
		"event_vm":       val(func(e *store.Event) string { return e.VMName }),
		"vm.name":        val(func(e *store.Event) string { return c.store.VMName(e.VM) }),
		"vms.name":       val(func(e *store.Event) string { return c.store.VMName(e.VM) }),
		"host.name":      val(func(e *store.Event) string { return c.store.HostName(e.Host) }),
		"hosts.name":     val(func(e *store.Event) string { return c.store.HostName(e.Host) }),
	}
}

func listEvents(c *call) (*wire.Element, error) {
	from := int64(-1)
	if raw := c.query.Get("from"); raw != "" {
		var err error
		if from, err = strconv.ParseInt(raw, 10, 64); err != nil {
			return nil, notANumber(raw)
		}
	}

	items := c.store.Events.Where(func(e *store.Event) bool { return e.ID > from }, store.EventKey)
	slices.Reverse(items) // newest first

	return collect(c, "events", items, eventFields(c), eventDocument)
}

// notANumber returns the engine's error for an invalid number outside a document.
func notANumber(raw string) error {
	return &wire.Refusal{
		Status: http.StatusBadRequest,
		Reason: "Operation failed",
		Detail: fmt.Sprintf("For input string: %q", raw),
	}
}

func getEvent(c *call) (*wire.Element, error) {
	n, err := strconv.ParseInt(c.id("id"), 10, 64)
	if err != nil {
		return nil, notANumber(c.id("id"))
	}

	e, err := one(c.store.Events, fmt.Sprintf("%012d", n))
	if err != nil {
		return nil, err
	}

	return eventDocument(c, e), nil
}
