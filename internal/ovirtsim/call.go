package ovirtsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// operation is one call of the API. It runs with Server.mu held and returns the document to answer with.
type operation func(c *call) (*element, error)

// call is one request to the API.
type call struct {
	*Server
	r       *http.Request
	user    string
	query   url.Values
	body    *element // nil where the request has none
	op      operation
	created bool   // answer 201
	job     string // of the operation
}

type callKey struct{}

// id is the part of the path that a pattern calls by that name.
func (c *call) id(name string) string { return c.r.PathValue(name) }

// allContent says whether an answer has what the engine leaves out of plain reads because it costs more queries: consoles,
// sound cards and the like. Answers to changes always have it.
func (c *call) allContent() bool {
	return c.r.Method != http.MethodGet || c.r.Header.Get("All-Content") == "true" || c.query.Get("all_content") == "true"
}

// correlation is the client's ID for the operation.
func (c *call) correlation() string {
	return orElse(c.query.Get("correlation_id"), c.r.Header.Get("Correlation-Id"))
}

// refusal is an answer that is a fault.
type refusal struct {
	status         int
	reason, detail string
}

func (r *refusal) Error() string { return r.detail }

const operationFailed = "Operation Failed"

func faultDocument(reason, detail string) *element {
	return el("fault").str("detail", detail).str("reason", reason)
}

func notFound(what, id string) error {
	return &refusal{http.StatusNotFound, operationFailed, "Entity not found: " + what + ": id=" + id}
}

// conflict is a rule of the engine that the request breaks.
func conflict(format string, args ...any) error {
	return &refusal{http.StatusConflict, operationFailed, "[" + fmt.Sprintf(format, args...) + "]"}
}

// invalid is a value that the engine does not accept.
func invalid(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, operationFailed, "[" + fmt.Sprintf(format, args...) + "]"}
}

func malformed(detail string) error {
	return &refusal{http.StatusBadRequest, "Request syntactically incorrect. See the link below for the correct syntax.", detail}
}

// require refuses a request without one of the elements; each may list alternatives, such as cluster.id|name.
func require(in *element, what string, elements ...string) error {
	var missing []string
	for _, want := range elements {
		path, alternatives, _ := strings.Cut(want, ".")
		found := in.get(path)
		if alternatives == "" && (found == nil || found.text == "" && len(found.kids) == 0 && len(found.attrs) == 0) {
			missing = append(missing, want)
			continue
		}
		present := alternatives == ""
		for _, one := range strings.Split(alternatives, "|") {
			present = present || one == "id" && found.attr("id") != "" || found.value(one) != ""
		}
		if !present {
			missing = append(missing, want)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return incomplete(what, missing...)
}

func incomplete(what string, missing ...string) error {
	return &refusal{http.StatusBadRequest, "Incomplete parameters", fmt.Sprintf("%s [%s] required for add", what, strings.Join(missing, ", "))}
}

// refID is the ID of the object that an element refers to, as an attribute or, from some clients, as an element.
func refID(e *element) string { return orElse(e.attr("id"), e.value("id")) }

// serveAPI answers one call below /ovirt-engine/api.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, entry *Request) {
	user, ok := s.authenticate(w, r)
	if !ok {
		w.Header().Add("WWW-Authenticate", `Bearer realm="oVirt Engine"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="oVirt Engine"`)
		s.reply(w, r, http.StatusUnauthorized, faultDocument("Unauthorized", "The session is missing or has expired"))
		return
	}
	if accept := r.Header.Get("Accept"); accept != "" && !strings.Contains(accept, "xml") && !strings.Contains(accept, "json") && !strings.Contains(accept, "*/*") {
		s.reply(w, r, http.StatusNotAcceptable, faultDocument("Not Acceptable", "The API speaks application/xml and application/json, not "+accept))
		return
	}
	c := &call{Server: s, user: user}
	status, document := s.run(c, r, entry)
	s.reply(w, r, status, document)
}

// run finds and executes the operation of a request.
func (s *Server) run(c *call, r *http.Request, entry *Request) (int, *element) {
	if refused := c.route(r); refused != nil {
		return refused.status, faultDocument(refused.reason, refused.detail)
	}
	if err := c.readBody(r, entry); err != nil {
		return statusOf(err)
	}
	document, err := c.execute()
	if r.Method != http.MethodGet {
		s.watchers.changed()
	}
	if err != nil {
		return statusOf(err)
	}
	if c.created {
		return http.StatusCreated, document
	}
	return http.StatusOK, document
}

// execute runs the operation under the lock. A bug in one operation must not stop the engine for all that follow.
func (c *call) execute() (document *element, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if failed := c.store.flush(); failed != nil && err == nil {
			err = failed
		}
	}()
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("this is a bug of the simulator: %v\n%s", problem, debug.Stack())
		}
	}()
	if document, err = c.op(c); err == nil && c.r.Method == http.MethodGet {
		document, err = c.follow(document)
	}
	return document, err
}

func statusOf(err error) (int, *element) {
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = &refusal{http.StatusInternalServerError, operationFailed, err.Error()}
	}
	return refused.status, faultDocument(refused.reason, refused.detail)
}

// route sets the operation of a request: the handlers in the mux only leave it in the call.
func (c *call) route(r *http.Request) *refusal {
	probe := &statusRecorder{ResponseWriter: discard{http.Header{}}}
	c.r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	c.api.ServeHTTP(probe, c.r)
	c.query = c.r.URL.Query()
	if c.op != nil {
		return nil
	}
	if probe.status == http.StatusMethodNotAllowed {
		return &refusal{http.StatusMethodNotAllowed, "Method Not Allowed", r.Method + " is not possible on " + r.URL.Path}
	}
	return &refusal{http.StatusNotFound, "Not Found", "There is nothing at " + r.URL.Path}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (d discard) Write(body []byte) (int, error) { return len(body), nil }
func (d discard) WriteHeader(int)                {}
func quietLog() *log.Logger                      { return log.New(io.Discard, "", 0) }

const maxBody = 32 << 20

// readBody parses the body of a request where it has one. Actions may come without.
func (c *call) readBody(r *http.Request, entry *Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return malformed("the body cannot be read: " + err.Error())
	}
	if len(content) > maxBody {
		return &refusal{http.StatusRequestEntityTooLarge, operationFailed, "the body is larger than 32 MiB"}
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil // what needs a body says what is missing
	}
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		err = errors.New("charset must be UTF-8")
	}
	switch {
	case err == nil && media == "application/xml":
		c.body, err = parseXML(bytes.NewReader(content))
	case err == nil && media == "application/json":
		c.body, err = parseJSON(bytes.NewReader(content), rootFor(r))
	default:
		return &refusal{http.StatusUnsupportedMediaType, "Unsupported Media Type", "Content-Type must be application/xml or application/json"}
	}
	if err != nil {
		return malformed(err.Error())
	}
	if want := rootFor(r); c.body.name != want {
		return malformed(fmt.Sprintf("the document is a %s, where a %s belongs", c.body.name, want))
	}
	unknown, err := c.body.check("")
	if err != nil {
		return malformed(err.Error())
	}
	if entry != nil && len(unknown) > 0 {
		c.noteUnknown(entry, unknown)
	}
	return nil
}

// collections gives the element of each collection; it names the document that a request to it holds.
var collections = map[string]string{
	"affinitygroups": "affinity_group", "affinitylabels": "affinity_label", "cdroms": "cdrom", "clusters": "cluster", "datacenters": "data_center",
	"diskattachments": "disk_attachment", "disks": "disk", "events": "event", "graphicsconsoles": "graphics_console", "hosts": "host",
	"imagetransfers": "image_transfer", "instancetypes": "instance_type", "jobs": "job", "networks": "network", "nics": "nic", "storagedomains": "storage_domain",
	"tags": "tag", "templates": "template", "users": "user", "vms": "vm", "vnicprofiles": "vnic_profile", "assignedtags": "tag",
}

// rootFor is the name of the document that belongs into a request: that of the collection for POST and PUT of an object,
// else an action.
func rootFor(r *http.Request) string {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, apiPath+"/"), "/")
	last := parts[len(parts)-1]
	if r.Method == http.MethodPost {
		if name, ok := collections[last]; ok && len(parts)%2 == 1 {
			return name
		}
		return "action"
	}
	if r.Method == http.MethodPut && len(parts) >= 2 {
		if name, ok := collections[parts[len(parts)-2]]; ok {
			return name
		}
	}
	return "action"
}

// complete is the answer to an action that was done.
func (c *call) complete() *element {
	return el("action").add(ref("job", "jobs", c.job)).str("status", "complete")
}

// max is the limit on a list; -1 where there is none.
func (c *call) max() (int, error) {
	raw := c.query.Get("max")
	if raw == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil {
		return 0, malformed("max is not a number: " + raw)
	}
	return n, nil
}

// flagParam is a boolean in the query.
func (c *call) flagParam(name string) bool { return c.query.Get(name) == "true" }

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }

// href is the path of an object.
func href(parts ...string) string { return apiPath + "/" + strings.Join(parts, "/") }

// ref refers to an object; nil for an empty ID.
func ref(name, collection, id string) *element {
	if id == "" {
		return nil
	}
	return el(name).set("href", href(collection, id)).set("id", id)
}

// object begins the document of an object.
func object(name, id string, path ...string) *element {
	return el(name).set("href", href(path...)).set("id", id)
}

// links adds the sub-collections of an object.
func (e *element) links(rels ...string) *element {
	base := e.attr("href")
	for _, rel := range rels {
		e.items(el("link").set("href", base+"/"+rel).set("rel", rel))
	}
	return e
}

// actions adds the operations that an object offers; libgovirt finds them there.
func (e *element) actions(rels ...string) *element {
	base := e.attr("href")
	list := el("actions")
	for _, rel := range rels {
		list.items(el("link").set("href", base+"/"+rel).set("rel", rel))
	}
	return e.add(list)
}

// follow replaces links by what they lead to, as ?follow=nics,disk_attachments.disk asks.
func (c *call) follow(document *element) (*element, error) {
	for _, path := range strings.Split(c.query.Get("follow"), ",") {
		if path = strings.TrimSpace(path); path == "" {
			continue
		}
		targets := []*element{document}
		if document.attr("href") == "" { // a list: follow from each of its items
			targets = document.kids
		}
		if err := c.followPath(targets, strings.Split(path, ".")); err != nil {
			return nil, err
		}
	}
	return document, nil
}

func (c *call) followPath(targets []*element, path []string) error {
	for depth, segment := range path {
		var next []*element
		known := false
		for _, target := range targets {
			found, ok, err := c.expand(target, segment)
			if err != nil {
				return err
			}
			known = known || ok
			next = append(next, found...)
		}
		if !known && len(targets) > 0 {
			return invalid("Failed to follow link: %s", strings.Join(path[:depth+1], "."))
		}
		targets = next
	}
	return nil
}

// expand replaces one link, or the references of one list, and returns what came instead, the items where it is a list.
func (c *call) expand(target *element, segment string) (found []*element, known bool, err error) {
	rel := strings.ReplaceAll(segment, "_", "")
	for i, kid := range target.kids { // what is in the document already goes before a link to the same
		if strings.ReplaceAll(kid.name, "_", "") != rel || kid.name == "link" {
			continue
		}
		if kid.attr("href") == "" {
			return kid.kids, true, c.resolveItems(kid)
		}
		if len(kid.kids) == 0 {
			document, err := c.resolve(kid.attr("href"))
			if err != nil {
				return nil, true, err
			}
			document.name = kid.name
			target.kids[i] = document
			kid = document
		}
		return []*element{kid}, true, nil
	}
	for i, kid := range target.kids {
		if kid.name == "link" && kid.attr("rel") == rel {
			document, err := c.resolve(kid.attr("href"))
			if err != nil {
				return nil, true, err
			}
			target.kids[i] = document
			return document.kids, true, c.resolveItems(document)
		}
	}
	return nil, false, nil
}

// resolveItems puts objects in the place of those items of a list that only refer to them.
func (c *call) resolveItems(list *element) error {
	for i, item := range list.kids {
		if item.attr("href") == "" || len(item.kids) > 0 {
			continue
		}
		document, err := c.resolve(item.attr("href"))
		if err != nil {
			return err
		}
		document.item = true
		list.kids[i] = document
	}
	return nil
}

// resolve runs the GET of a link within this call, whose lock it holds.
func (c *call) resolve(path string) (*element, error) {
	r, err := http.NewRequestWithContext(c.r.Context(), http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	r.Header = c.r.Header
	inner := &call{Server: c.Server, user: c.user}
	if refused := inner.route(r); refused != nil {
		return nil, refused
	}
	return inner.op(inner)
}
