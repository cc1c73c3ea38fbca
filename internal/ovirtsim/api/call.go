package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file has the way of a request of the API: who asks, in which version and form, for what, and the answer.

// operation is one call of the API. It runs with the engine locked and returns the document to answer with.
type operation func(c *call) (*wire.Element, error)

// call is one request to the API.
type call struct {
	*Engine
	r        *http.Request
	user     *store.User
	query    url.Values
	body     *wire.Element // nil where the request has none
	op       operation
	service  *wire.Service
	action   string // the action of the service that the request is for; empty where it is for an object or a list
	filtered bool   // the user sees only what is theirs
	status   int    // of the answer where it is not 200
	made     string // the path of what the request made
	job      string // of the operation
	// correlationID is the client's, or one that the engine made.
	correlationID string
}

type (
	callKey    struct{}
	arrivalKey struct{} // of the time when a request came in
)

// Arrived notes on a request that it came in now, before anything that delays it.
func Arrived(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), arrivalKey{}, time.Now()))
}

// missed reports whether something was made after the request came in. The engine looks whether the names of tags and
// affinity groups are taken before it makes them, and locks nothing in between: of 20 creates at once, 3 tags and 9
// groups of one name were made. That is recorded for creates alone.
func (c *call) missed(made time.Time) bool {
	arrival, ok := c.r.Context().Value(arrivalKey{}).(time.Time)
	return ok && made.After(arrival)
}

// id is the part of the path that a pattern calls by that name.
func (c *call) id(name string) string { return c.r.PathValue(name) }

// created answers 201 and names the object that was made.
func (c *call) created(document *wire.Element) *wire.Element {
	c.status, c.made = http.StatusCreated, document.Attr("href")
	return document
}

// allContent reports whether an answer has what the engine leaves out of plain reads because it costs more queries:
// consoles, sound cards and the like. Answers to changes always have it. The header wins over the parameter.
func (c *call) allContent() bool {
	if header := c.r.Header.Get("All-Content"); header != "" {
		return c.r.Method != http.MethodGet || strings.EqualFold(header, "true")
	}

	return c.r.Method != http.MethodGet || c.flagParam("all_content")
}

// CorrelationHeader names a request and its answer.
const CorrelationHeader = "Correlation-Id"

// maxCorrelation is how much of a client's ID the engine keeps.
const maxCorrelation = 36

// correlation is the client's ID for the operation, as the engine takes it over; "" where it sends none.
func correlation(r *http.Request) string {
	kept := strings.Map(func(c rune) rune {
		if c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}

		return -1
	}, cmp.Or(r.Header.Get(CorrelationHeader), r.URL.Query().Get("correlation_id")))

	return kept[:min(len(kept), maxCorrelation)]
}

// CorrelationID is the name of a request that its answer repeats.
func CorrelationID(r *http.Request) string { return cmp.Or(correlation(r), store.NewID()) }

// syntaxError names the documentation of the method, as the engine does for whatever is wrong with a document.
func (c *call) syntaxError() error {
	method := c.action
	if method == "" {
		method = map[string]string{
			http.MethodPost:   "add",
			http.MethodPut:    "update",
			http.MethodDelete: "remove",
		}[c.r.Method]
	}

	return &wire.Refusal{Status: http.StatusBadRequest, Reason: "Request syntactically incorrect.", Bare: true,
		Detail: fmt.Sprintf("For correct usage, see: %s/apidoc#services/%s/methods/%s", c.URL(), c.service.Name,
			method),
	}
}

// serveAPI answers one call below /ovirt-engine/api.
func (s *Engine) serveAPI(w http.ResponseWriter, r *http.Request) {
	name, refused := s.authenticate(w, r)
	if refused != "" {
		unauthorized(w, refused)
		return
	}

	c := &call{Engine: s, r: r, correlationID: CorrelationID(r)}
	w.Header().Set(CorrelationHeader, c.correlationID)
	document, err := c.run(name)
	if err != nil {
		c.refuse(w, err)
		return
	}

	if c.made != "" {
		w.Header().Set("Location", s.URL()+"/api/v4"+c.made)
	}

	if r.Method == http.MethodGet && r.URL.Path == wire.APIPath {
		w.Header().Set("Link", s.rootLinks())
	}

	if document == nil {
		w.WriteHeader(c.status)
		return
	}

	if r.Method == http.MethodHead && r.URL.Path == wire.APIPath {
		w.Header()["Content-Type"] = nil // not even one that is guessed
		w.WriteHeader(http.StatusOK)
		return
	}

	wire.Reply(w, r, cmp.Or(c.status, http.StatusOK), document)
}

// refuse answers with what went wrong.
func (c *call) refuse(w http.ResponseWriter, err error) {
	var options *optionsAnswer
	var method *methodRefusal

	var refused *wire.Refusal
	switch {
	case errors.As(err, &options):
		w.Header().Set("Allow", options.Error())
		w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
		_, _ = io.WriteString(w, options.Error())

		return
	case errors.As(err, &method):
		w.Header().Set("Allow", strings.Join(method.allowed, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !errors.As(err, &refused):
		refused = &wire.Refusal{
			Status: http.StatusInternalServerError,
			Reason: wire.OperationFailed,
			Detail: err.Error(),
		}
	}

	switch {
	case refused.Page != "" && refused.Plain:
		if refused.Status == http.StatusInternalServerError && c.action == "" {
			w.Header().Del(CorrelationHeader) // an exception takes the answer from the handler that had begun it
		}

		w.Header().Set("Content-Type", "text/html;charset=UTF-8")
		w.WriteHeader(refused.Status)
		_, _ = io.WriteString(w, refused.Page)
	case refused.Page != "":
		errorPage(w, refused.Status, refused.Page)
	case refused.Reason == "":
		w.WriteHeader(refused.Status)
	case c.action != "" && !refused.Bare:
		answer := wire.El("action")
		if c.body != nil {
			answer.Kids = c.body.Kids
		}

		wire.Reply(
			w, c.r, refused.Status,
			answer.Add(refused.Beside, wire.FaultDocument(refused.Reason, refused.Detail)).Str("status", "failed"),
		)
	default:
		wire.Reply(w, c.r, refused.Status, wire.FaultDocument(refused.Reason, refused.Detail))
	}
}

// run finds and executes the operation of a request.
func (c *call) run(userName string) (*wire.Element, error) {
	if err := c.checkVersion(); err != nil {
		return nil, err
	}

	if err := checkAccept(c.r.Header.Get("Accept")); err != nil {
		return nil, err
	}

	if err := c.route(); err != nil {
		return nil, err
	}

	if err := c.readBody(); err != nil {
		return nil, err
	}

	document, err := c.execute(userName)
	if c.r.Method != http.MethodGet {
		c.settings.Changed()
	}

	return document, err
}

// checkVersion takes the version of the API out of the path, and refuses others than 4.
func (c *call) checkVersion() error {
	version := c.r.Header.Get("Version")
	rest := strings.TrimPrefix(c.r.URL.Path, wire.APIPath)
	if after, ok := strings.CutPrefix(rest, "/v"); ok {
		number, path, _ := strings.Cut(after, "/")
		if _, err := strconv.Atoi(number); err == nil {
			version = number
			c.r.URL.Path = strings.TrimSuffix(wire.APIPath+"/"+path, "/")
		}
	}

	switch version {
	case "", "4":
		return nil
	case "3":
		return &wire.Refusal{
			Status: http.StatusMethodNotAllowed,
			Page:   "HTTP method " + c.r.Method + " is not supported by this URL",
		}
	default:
		return &wire.Refusal{Status: http.StatusBadRequest, Page: "Bad Request"}
	}
}

// checkAccept refuses what the API does not speak.
func checkAccept(accept string) error {
	for _, one := range strings.Split(accept, ",") {
		media, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(one)), ";")

		kind, _, ok := strings.Cut(strings.TrimSpace(media), "/")
		switch {
		case media == "" || media == "*/*" || media == "application/*" || media == "application/xml" ||
			media == "application/json":
			return nil
		case !ok || kind == "":
			return &wire.Refusal{Status: http.StatusBadRequest, Page: "Bad Request"}
		}
	}

	return &wire.Refusal{Status: http.StatusNotAcceptable}
}

// execute runs the operation under the lock. A bug in one operation must not stop the engine for all that follow.
func (c *call) execute(userName string) (document *wire.Element, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if failed := c.store.Flush(); failed != nil && err == nil {
			err = failed
		}
	}()
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("this is a bug of the simulator: %v\n%s", problem, debug.Stack())
		}
	}()
	c.user = c.store.UserNamed(userName)
	if err := c.authorize(); err != nil {
		return nil, err
	}

	var before *wire.Element
	if c.flagParam("async") && c.r.Method == http.MethodPut { // which is answered before it is done
		before, _ = c.resolve(c.r.URL.Path)
	}

	document, err = c.op(c)
	switch {
	case err != nil:
	case before != nil:
		document = before
	case c.flagParam("async") && c.r.Method == http.MethodDelete:
		document, c.status = nil, http.StatusAccepted
	}

	if err == nil && (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead) {
		document, err = c.follow(document)
	}

	return document, err
}

// route sets the operation of a request: the handlers in the mux only leave it in the call. A path that the API does
// not have is answered by the layer before it; one that the API has and the simulator does not is answered alike.
func (c *call) route() error {
	var segments []string
	if rest := strings.Trim(strings.TrimPrefix(c.r.URL.Path, wire.APIPath), "/"); rest != "" {
		segments = strings.Split(rest, "/")
	}

	notThere := &wire.Refusal{Status: http.StatusNotFound, Plain: true,
		Page: fmt.Sprintf("RESTEASY003210: Could not find resource for full path: %s/api/v4/%s", c.URL(),
			strings.Join(segments, "/")),
	}
	if c.service, c.action = wire.API().At(segments); c.service == nil {
		return notThere
	}

	c.query = c.r.URL.Query()
	allowed := c.service.HttpMethods(c.action)
	if len(c.service.Methods) == 0 { // a step on the way to others, such as /options
		return notThere
	}

	switch {
	case c.r.Method == http.MethodOptions:
		c.op = func(*call) (*wire.Element, error) { return nil, &optionsAnswer{allowed} }
		return nil
	case !slices.Contains(allowed, c.r.Method):
		return &methodRefusal{allowed}
	}

	if c.r.Method == http.MethodPost || c.r.Method == http.MethodPut {
		if _, err := mediaOf(c.r); err != nil {
			return err
		}
	}

	probe := &wire.StatusRecorder{ResponseWriter: discard{http.Header{}}}
	request := c.r.WithContext(context.WithValue(c.r.Context(), callKey{}, c))
	if request.Method == http.MethodHead {
		request.Method = http.MethodGet
	}

	c.mux.ServeHTTP(probe, request)
	if c.op == nil {
		return notThere
	}

	return c.checkIDs(segments)
}

// methodRefusal is a method that a path does not have.
type methodRefusal struct{ allowed []string }

func (m *methodRefusal) Error() string { return "method not allowed" }

// optionsAnswer names the methods that a path has.
type optionsAnswer struct{ allowed []string }

func (o *optionsAnswer) Error() string { return strings.Join(o.allowed, ", ") }

// otherIDs are the collections whose objects have IDs that are no UUIDs.
var otherIDs = []string{
	"events",
	"graphicsconsoles",
	"operatingsystems",
	"clusterlevels",
	"cdroms",
	"networkfilters",
	"options",
	"statistics",
}

// checkIDs refuses an ID in the path that is no UUID: the object is not there.
func (c *call) checkIDs(segments []string) error {
	for i := 1; i < len(segments); i += 2 {
		isAction := c.action != "" && i == len(segments)-1
		if !isAction && !slices.Contains(otherIDs, segments[i-1]) && uuid.Validate(segments[i]) != nil {
			return wire.Gone()
		}
	}

	return nil
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header { return d.header }

func (d discard) Write(body []byte) (int, error) { return len(body), nil }

func (d discard) WriteHeader(int) {}

const maxBody = 32 << 20

// mediaOf is the form of a body; a request that may have one must name it even where it is empty.
func mediaOf(r *http.Request) (string, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/xml" && media != "application/json" {
		return "", &wire.Refusal{Status: http.StatusUnsupportedMediaType}
	}

	return media, nil
}

// readBody parses the body of a request where it has one.
func (c *call) readBody() error {
	r := c.r
	content, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return c.syntaxError()
	}

	if len(content) > maxBody {
		return wire.Failed(http.StatusRequestEntityTooLarge, "the body is larger than 32 MiB")
	}

	empty := len(bytes.TrimSpace(content)) == 0
	if r.Method != http.MethodPost && r.Method != http.MethodPut || empty && c.action != "" {
		if empty || r.Method != http.MethodDelete {
			return nil
		}
	}

	root := c.rootName()
	if media, _ := mediaOf(r); media == "application/json" {
		c.body, err = wire.ParseJSON(bytes.NewReader(content), root)
	} else {
		c.body, err = wire.ParseXML(bytes.NewReader(content))
	}

	if err != nil {
		return c.syntaxError()
	}

	if wire.API().Roots[c.body.Name] == "" {
		return c.syntaxError()
	}

	if c.body.Name != root {
		text := "java.lang.ClassCastException@1f"
		if c.action != "" {
			text = "argument type mismatch"
		}

		return &wire.Refusal{Status: http.StatusInternalServerError, Page: text, Plain: true}
	}

	// In JSON a value that its element cannot have is no document of the API.
	err = wire.API().Shape(c.body, wire.API().Roots[root])
	if media, _ := mediaOf(r); errors.Is(err, wire.ErrSyntax) || err != nil && media == "application/json" {
		err = c.syntaxError()
	}

	return err
}

// collections gives the element of each collection whose name does not have it.
var collections = map[string]string{
	"affinitygroups":          "affinity_group",
	"affinitylabels":          "affinity_label",
	"datacenters":             "data_center",
	"diskattachments":         "disk_attachment",
	"graphicsconsoles":        "graphics_console",
	"imagetransfers":          "image_transfer",
	"instancetypes":           "instance_type",
	"storagedomains":          "storage_domain",
	"vnicprofiles":            "vnic_profile",
	"cpuprofiles":             "cpu_profile",
	"diskprofiles":            "disk_profile",
	"macpools":                "mac_pool",
	"vmpools":                 "vm_pool",
	"storageconnections":      "storage_connection",
	"schedulingpolicies":      "scheduling_policy",
	"networkfilters":          "network_filter",
	"numanodes":               "vm_numa_node",
	"networkfilterparameters": "network_filter_parameter",
	"hostdevices":             "host_device",
	"mediateddevices":         "vm_mediated_device",
}

// rootName is the name of the document that belongs into a request: an action, or the object of the collection.
func (c *call) rootName() string {
	if c.action != "" {
		return "action"
	}

	parts := strings.Split(strings.TrimPrefix(c.r.URL.Path, wire.APIPath+"/"), "/")
	collection := parts[len(parts)-1]
	if c.r.Method == http.MethodPut || c.r.Method == http.MethodDelete {
		collection = parts[max(len(parts)-2, 0)]
	}

	if c.r.Method == http.MethodDelete {
		return "action"
	}

	if name, ok := collections[collection]; ok {
		return name
	}

	return strings.TrimSuffix(collection, "s")
}

// complete is the answer to an action that was done: its job, the object that it was done to, and the request's
// elements.
func (c *call) complete(kids ...*wire.Element) *wire.Element {
	out := wire.El("action").Add(wire.Ref("job", "jobs", c.job)).Add(kids...)
	if c.body != nil && c.action != "" {
		for _, kid := range c.body.Kids {
			if out.Get(kid.Name) == nil {
				out.Add(kid)
			}
		}
	}

	return out.Str("status", "complete")
}

// max is the limit on a list; -1 where there is none.
func (c *call) max() (int, error) {
	raw := c.query.Get("max")
	if raw == "" {
		return -1, nil
	}

	n, err := strconv.Atoi(raw)
	switch {
	case err != nil:
		return 0, notANumber(raw)
	case n < 0:
		return 0, wire.Failed(http.StatusBadRequest, "illegal max count value for query : %d", n)
	}

	return n, nil
}

// flagParam is a boolean in the query.
func (c *call) flagParam(name string) bool { return strings.EqualFold(c.query.Get(name), "true") }

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }
