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

// This file contains the engine's reports of its own work: jobs and events.

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

// recordJob records an operation as a job with a description. The job ends when the object with the ID waits is
// finished, or at once if waits is "".
func (c *call) recordJob(description, waits string) {
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
	trimTable(c.store.Jobs, maxJobs, store.JobKey)
}

// finishJobs ends the jobs that wait for an object.
func (s *Engine) finishJobs(waits string) {
	for _, j := range s.store.Jobs.Rows {
		if j.Waits == waits && j.Status == "started" {
			j.Status, j.Ended = "finished", s.now()
			s.store.Jobs.Put(j.ID, j)
		}
	}
}

// trimTable drops the oldest quarter of a table if the table exceeds its limit.
func trimTable[T any](t *store.Table[T], limit int, key func(*T) string) {
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
	out := wire.NewObject("job", j.ID, "jobs", j.ID).Str("description", j.Description).Str("status", j.Status).
		Flag("auto_cleared", true).Flag("external", false).
		Str("correlation_id", j.Correlation).Str("start_time", formatTime(j.Started)).
		Str("last_updated", formatTime(cmp.Or(j.Ended, j.Started)))
	if !j.Ended.IsZero() {
		out.Str("end_time", formatTime(j.Ended))
	}

	return out
}

// noJobField is the engine's error for a job search with an unknown field. The recording shows this text for the field
// name. For the field status, the recording shows only the refusal.
const noJobField = "statementcallback; bad sql grammar [select * from (select * from job where ( job id in (select " +
	"distinct job.job id from " +
	" job   where  (  ) ))  order by start time asc) as t1 offset (1 -1) limit 2147483647]; nested exception is " +
	"org.postgresql.util.psqlexception: error: syntax error at or near \")\"\n  position: 102"

func listJobs(c *call) (*wire.Element, error) {
	of := fields[*store.Job]{
		"correlation_id": singleValue(func(j *store.Job) string { return j.Correlation }),
		"description":    singleValue(func(j *store.Job) string { return j.Description }),
	}
	if q, err := parseSearch(c.query.Get("search")); err == nil && !q.usesKnownFields(of) {
		return nil, wire.PlainFault(http.StatusBadRequest, "%s", noJobField)
	}

	items := c.store.Jobs.Where(nil, store.JobKey)
	slices.Reverse(items)

	return answerList(c, "jobs", items, of, jobDocument)
}

func getJob(c *call) (*wire.Element, error) {
	j, err := findRow(c.store.Jobs, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return jobDocument(c, j), nil
}

// eventOf holds the names of an event's objects.
type eventOf struct{ vm, host string }

// recordEvent adds an event for a request to the engine's audit log.
func (c *call) recordEvent(code int64, severity, description string, of eventOf) {
	c.Engine.recordEvent(code, severity, description, of)
	last := c.store.Events.Get(fmt.Sprintf("%012d", c.store.Counters.Get("events").Value))
	if last != nil && c.r != nil {
		last.Correlation = c.correlationID
	}
}

// recordEvent adds an entry to the engine's audit log.
func (s *Engine) recordEvent(code int64, severity, description string, of eventOf) {
	made := &store.Event{
		ID:          s.store.NextNumber("events"),
		Code:        code,
		Severity:    severity,
		Description: description,
		VM:          of.vm,
		VMName:      s.store.VMName(of.vm),
		Host:        of.host,
		Time:        s.now(),
	}
	s.store.Events.Put(fmt.Sprintf("%012d", made.ID), made)
	trimTable(s.store.Events, maxEvents, store.EventKey)
}

func eventDocument(c *call, e *store.Event) *wire.Element {
	id := strconv.FormatInt(e.ID, 10)
	out := wire.NewObject("event", id, "events", id).Str("description", e.Description).Num("code", e.Code).
		StrIfSet("correlation_id", e.Correlation).Num("custom_id", -1).
		Num("flood_rate", 0).Num("index", e.ID).Str("origin", "oVirt").Str("severity", e.Severity).
		Str("time", formatTime(e.Time))
	if e.VM != "" {
		out.Add(wire.Ref("vm", "vms", e.VM).StrIfSet("name", c.store.VMName(e.VM)))
		if v := c.store.VMs.Get(e.VM); v != nil {
			out.Add(wire.Ref("cluster", "clusters", v.Cluster).StrIfSet("name", c.store.ClusterName(v.Cluster)))
			center := c.store.DataCenterOf(v.Cluster)
			out.Add(wire.Ref("data_center", "datacenters", center).StrIfSet("name", c.store.DataCenterName(center)))
		}
	}

	if e.Host != "" {
		out.Add(wire.Ref("host", "hosts", e.Host).StrIfSet("name", c.store.HostName(e.Host)))
	}

	return out
}

// eventFields returns the search fields of events, including fields for the events' objects.
func eventFields(c *call) fields[*store.Event] {
	severities := map[string]string{"normal": "0", "warning": "1", "error": "2", "alert": "10"}

	return fields[*store.Event]{
		"severity":       func(e *store.Event) []string { return []string{e.Severity, severities[e.Severity]} },
		"type":           singleValue(func(e *store.Event) string { return strconv.FormatInt(e.Code, 10) }),
		"message":        singleValue(func(e *store.Event) string { return e.Description }),
		"id":             singleValue(func(e *store.Event) string { return strconv.FormatInt(e.ID, 10) }),
		"correlation_id": singleValue(func(e *store.Event) string { return e.Correlation }),
		"time":           singleValue(func(e *store.Event) string { return formatTime(e.Time) }),
		"event_vm":       singleValue(func(e *store.Event) string { return e.VMName }),
		"vm.name":        singleValue(func(e *store.Event) string { return c.store.VMName(e.VM) }),
		"vms.name":       singleValue(func(e *store.Event) string { return c.store.VMName(e.VM) }),
		"host.name":      singleValue(func(e *store.Event) string { return c.store.HostName(e.Host) }),
		"hosts.name":     singleValue(func(e *store.Event) string { return c.store.HostName(e.Host) }),
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

	return answerList(c, "events", items, eventFields(c), eventDocument)
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
	n, err := strconv.ParseInt(c.pathID("id"), 10, 64)
	if err != nil {
		return nil, notANumber(c.pathID("id"))
	}

	e, err := findRow(c.store.Events, fmt.Sprintf("%012d", n))
	if err != nil {
		return nil, err
	}

	return eventDocument(c, e), nil
}
