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
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// This file has the way of a request of the API: who asks, in which version and form, for what, and the answer.

// operation is one call of the API. It runs with Server.mu held and returns the document to answer with.
type operation func(c *call) (*element, error)

// call is one request to the API.
type call struct {
	*Engine
	r        *http.Request
	user     *user
	query    url.Values
	body     *element // nil where the request has none
	op       operation
	service  *service
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

// missed says whether something was made after the request came in. The engine looks whether the names of tags and affinity
// groups are taken before it makes them, and locks nothing in between: of 20 creates at once, 3 tags and 9 groups of one name
// were made. That is recorded for creates alone.
func (c *call) missed(made time.Time) bool {
	arrival, ok := c.r.Context().Value(arrivalKey{}).(time.Time)
	return ok && made.After(arrival)
}

// id is the part of the path that a pattern calls by that name.
func (c *call) id(name string) string { return c.r.PathValue(name) }

// created answers 201 and names the object that was made.
func (c *call) created(document *element) *element {
	c.status, c.made = http.StatusCreated, document.attr("href")
	return document
}

// allContent says whether an answer has what the engine leaves out of plain reads because it costs more queries: consoles,
// sound cards and the like. Answers to changes always have it. The header wins over the parameter.
func (c *call) allContent() bool {
	if header := c.r.Header.Get("All-Content"); header != "" {
		return c.r.Method != http.MethodGet || strings.EqualFold(header, "true")
	}
	return c.r.Method != http.MethodGet || c.flagParam("all_content")
}

// maxCorrelation is how much of a client's ID the engine keeps.
const maxCorrelation = 36

// correlation is the client's ID for the operation, as the engine takes it over; "" where it sends none.
func correlation(r *http.Request) string {
	kept := strings.Map(func(c rune) rune {
		if c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return -1
	}, orElse(r.Header.Get("Correlation-Id"), r.URL.Query().Get("correlation_id")))
	return kept[:min(len(kept), maxCorrelation)]
}

// refusal is an answer that is no success.
type refusal struct {
	status int
	// reason and detail make a fault. Without a reason the answer has no body.
	reason, detail string
	// page is an answer in HTML instead of a fault; plain says that it is sent as it is, without a page around it.
	page  string
	plain bool
	// bare says that the fault of an action comes without the action around it.
	bare bool
	// beside is an element of the action beside its fault.
	beside *element
}

func (r *refusal) Error() string { return orElse(r.detail, http.StatusText(r.status)) }

const operationFailed = "Operation Failed"

func faultDocument(reason, detail string) *element {
	return el("fault").str("detail", detail).str("reason", reason)
}

// gone is the answer for an object of the path that is not there.
func gone() error { return &refusal{status: http.StatusNotFound} }

// entityNotFound is the answer where a request refers to something that is not there.
func entityNotFound(what string) error {
	return &refusal{status: http.StatusNotFound, reason: operationFailed, detail: "Entity not found: " + what}
}

// conflict is a rule of the engine that the request breaks, and that depends on the state of things.
func conflict(format string, args ...any) error {
	return &refusal{status: http.StatusConflict, reason: operationFailed, detail: "[" + fmt.Sprintf(format, args...) + "]"}
}

// invalid is a value that the engine does not accept.
func invalid(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, reason: operationFailed, detail: "[" + fmt.Sprintf(format, args...) + "]"}
}

// failed is a fault without brackets: an exception of the engine instead of a message of one of its rules.
func failed(status int, format string, args ...any) error {
	return &refusal{status: status, reason: operationFailed, detail: fmt.Sprintf(format, args...)}
}

// internalError is what the engine says where its own code fails.
func internalError() error { return invalid("Internal Engine Error") }

// brokenPage is the page of an exception that nothing in the engine handles.
func brokenPage() error {
	return &refusal{status: http.StatusInternalServerError, page: "<html><head><title>ERROR</title></head><body>Internal Server Error</body></html>", plain: true}
}

// forbidden is the answer to a change that the user has no right to.
func forbidden() error {
	return &refusal{status: http.StatusForbidden, reason: operationFailed, detail: "[User is not authorized to perform this action.]"}
}

// notPermitted is the answer to a query that needs an administrator.
func notPermitted() error {
	return failed(http.StatusBadRequest, "query execution failed due to insufficient permissions.")
}

// bare takes the action from around the fault of an action.
func bare(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		refused.bare = true
	}
	return err
}

// badUUID is a reference in a body that is no UUID.
func badUUID(text string) error {
	return &refusal{status: http.StatusBadRequest, reason: "Operation failed", detail: "Invalid UUID string: " + text}
}

// syntaxError names the documentation of the method, as the engine does for whatever is wrong with a document.
func (c *call) syntaxError() error {
	method := c.action
	if method == "" {
		method = map[string]string{http.MethodPost: "add", http.MethodPut: "update", http.MethodDelete: "remove"}[c.r.Method]
	}
	return &refusal{status: http.StatusBadRequest, reason: "Request syntactically incorrect.", bare: true,
		detail: fmt.Sprintf("For correct usage, see: %s/apidoc#services/%s/methods/%s", c.URL(), c.service.name, method)}
}

// camel is where a word begins in the engine's names of elements.
var camel = regexp.MustCompile(`[A-Z]`)

// require refuses a request without one of the elements; each may list alternatives, such as cluster.id|name. They are
// spelled as the engine spells them in its refusal, such as dataCenter.
func require(in *element, what string, elements ...string) error {
	var missing []string
	for _, want := range elements {
		path, alternatives, _ := strings.Cut(want, ".")
		var found *element
		for _, name := range strings.Split(path, "|") {
			found = orElse(found, in.get(camel.ReplaceAllStringFunc(name, func(letter string) string { return "_" + strings.ToLower(letter) })))
		}
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
	return &refusal{status: http.StatusBadRequest, reason: "Incomplete parameters", detail: fmt.Sprintf("%s [%s] required for add", what, strings.Join(missing, ", "))}
}

// mandatory refuses a request without an element that the description of the API demands.
func mandatory(in *element, root string, path ...string) error {
	if in.has(path...) {
		return nil
	}
	return notMandatory("Parameter '%s.%s' is mandatory but was not provided.", root, strings.Join(path, "."))
}

// mandatoryRef refuses a reference that has neither an ID nor a name.
func mandatoryRef(in *element, path string) error {
	if refID(in) != "" || in.value("name") != "" {
		return nil
	}
	return notMandatory("Parameters '%s.id' or '%s.name' are mandatory but both were not provided.", path, path)
}

func notMandatory(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, reason: "Input validation failed.", detail: fmt.Sprintf(format, args...), bare: true}
}

// refID is the ID of the object that an element refers to, as an attribute or, from some clients, as an element.
func refID(e *element) string { return orElse(e.attr("id"), e.value("id")) }

// checkRef refuses a reference whose ID is no UUID.
func checkRef(e *element) error {
	if id := refID(e); id != "" && uuid.Validate(id) != nil {
		return badUUID(id)
	}
	return nil
}

// serveAPI answers one call below /ovirt-engine/api.
func (s *Engine) serveAPI(w http.ResponseWriter, r *http.Request) {
	name, refused := s.authenticate(w, r)
	if refused != "" {
		unauthorized(w, refused)
		return
	}
	c := &call{Engine: s, r: r, correlationID: orElse(correlation(r), newID())}
	w.Header().Set("Correlation-Id", c.correlationID)
	document, err := c.run(name)
	if err != nil {
		c.refuse(w, err)
		return
	}
	if c.made != "" {
		w.Header().Set("Location", s.URL()+"/api/v4"+c.made)
	}
	if r.Method == http.MethodGet && r.URL.Path == apiPath {
		w.Header().Set("Link", s.rootLinks())
	}
	if document == nil {
		w.WriteHeader(c.status)
		return
	}
	reply(w, r, orElse(c.status, http.StatusOK), document)
}

// refuse answers with what went wrong.
func (c *call) refuse(w http.ResponseWriter, err error) {
	var options *optionsAnswer
	var method *methodRefusal
	var refused *refusal
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
		refused = &refusal{status: http.StatusInternalServerError, reason: operationFailed, detail: err.Error()}
	}
	switch {
	case refused.page != "" && refused.plain:
		w.Header().Set("Content-Type", "text/html;charset=UTF-8")
		w.WriteHeader(refused.status)
		_, _ = io.WriteString(w, refused.page)
	case refused.page != "":
		errorPage(w, refused.status, refused.page)
	case refused.reason == "":
		w.WriteHeader(refused.status)
	case c.action != "" && !refused.bare:
		answer := el("action")
		if c.body != nil {
			answer.kids = c.body.kids
		}
		reply(w, c.r, refused.status, answer.add(refused.beside, faultDocument(refused.reason, refused.detail)).str("status", "failed"))
	default:
		reply(w, c.r, refused.status, faultDocument(refused.reason, refused.detail))
	}
}

// run finds and executes the operation of a request.
func (c *call) run(userName string) (*element, error) {
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
	rest := strings.TrimPrefix(c.r.URL.Path, apiPath)
	if after, ok := strings.CutPrefix(rest, "/v"); ok {
		number, path, _ := strings.Cut(after, "/")
		if _, err := strconv.Atoi(number); err == nil {
			version = number
			c.r.URL.Path = strings.TrimSuffix(apiPath+"/"+path, "/")
		}
	}
	switch version {
	case "", "4":
		return nil
	case "3":
		return &refusal{status: http.StatusMethodNotAllowed, page: "HTTP method " + c.r.Method + " is not supported by this URL"}
	default:
		return &refusal{status: http.StatusBadRequest, page: "Bad Request"}
	}
}

// checkAccept refuses what the API does not speak.
func checkAccept(accept string) error {
	for _, one := range strings.Split(accept, ",") {
		media, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(one)), ";")
		kind, _, ok := strings.Cut(strings.TrimSpace(media), "/")
		switch {
		case media == "" || media == "*/*" || media == "application/*" || media == "application/xml" || media == "application/json":
			return nil
		case !ok || kind == "":
			return &refusal{status: http.StatusBadRequest, page: "Bad Request"}
		}
	}
	return &refusal{status: http.StatusNotAcceptable}
}

// execute runs the operation under the lock. A bug in one operation must not stop the engine for all that follow.
func (c *call) execute(userName string) (document *element, err error) {
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
	c.user = c.store.userNamed(userName)
	if err := c.authorize(); err != nil {
		return nil, err
	}
	var before *element
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

// route sets the operation of a request: the handlers in the mux only leave it in the call. A path that the API does not
// have is answered by the layer before it; one that the API has and the simulator does not is answered alike.
func (c *call) route() error {
	var segments []string
	if rest := strings.Trim(strings.TrimPrefix(c.r.URL.Path, apiPath), "/"); rest != "" {
		segments = strings.Split(rest, "/")
	}
	notThere := &refusal{status: http.StatusNotFound, plain: true,
		page: fmt.Sprintf("RESTEASY003210: Could not find resource for full path: %s/api/v4/%s", c.URL(), strings.Join(segments, "/"))}
	if c.service, c.action = api().at(segments); c.service == nil {
		return notThere
	}

	c.query = c.r.URL.Query()
	allowed := c.service.httpMethods(c.action)
	if len(c.service.methods) == 0 { // a step on the way to others, such as /options
		return notThere
	}
	switch {
	case c.r.Method == http.MethodOptions:
		c.op = func(*call) (*element, error) { return nil, &optionsAnswer{allowed} }
		return nil
	case !slices.Contains(allowed, c.r.Method):
		return &methodRefusal{allowed}
	}
	if c.r.Method == http.MethodPost || c.r.Method == http.MethodPut {
		if _, err := mediaOf(c.r); err != nil {
			return err
		}
	}
	probe := &statusRecorder{ResponseWriter: discard{http.Header{}}}
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

// optionsAnswer tells the methods that a path has.
type optionsAnswer struct{ allowed []string }

func (o *optionsAnswer) Error() string { return strings.Join(o.allowed, ", ") }

// otherIDs are the collections whose objects have IDs that are no UUIDs.
var otherIDs = []string{"events", "graphicsconsoles", "operatingsystems", "clusterlevels", "cdroms", "networkfilters", "options", "statistics"}

// checkIDs refuses an ID in the path that is no UUID: the object is not there.
func (c *call) checkIDs(segments []string) error {
	for i := 1; i < len(segments); i += 2 {
		isAction := c.action != "" && i == len(segments)-1
		if !isAction && !slices.Contains(otherIDs, segments[i-1]) && uuid.Validate(segments[i]) != nil {
			return gone()
		}
	}
	return nil
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (d discard) Write(body []byte) (int, error) { return len(body), nil }
func (d discard) WriteHeader(int)                {}
func quietLog() *log.Logger                      { return log.New(io.Discard, "", 0) }

const maxBody = 32 << 20

// mediaOf is the form of a body; a request that may have one must name it even where it is empty.
func mediaOf(r *http.Request) (string, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/xml" && media != "application/json" {
		return "", &refusal{status: http.StatusUnsupportedMediaType}
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
		return failed(http.StatusRequestEntityTooLarge, "the body is larger than 32 MiB")
	}
	empty := len(bytes.TrimSpace(content)) == 0
	if r.Method != http.MethodPost && r.Method != http.MethodPut || empty && c.action != "" {
		if empty || r.Method != http.MethodDelete {
			return nil
		}
	}
	root := c.rootName()
	if media, _ := mediaOf(r); media == "application/json" {
		c.body, err = parseJSON(bytes.NewReader(content), root)
	} else {
		c.body, err = parseXML(bytes.NewReader(content))
	}
	if err != nil {
		return c.syntaxError()
	}
	if api().roots[c.body.name] == "" {
		return c.syntaxError()
	}
	if c.body.name != root {
		return &refusal{status: http.StatusInternalServerError, page: "java.lang.ClassCastException@1f", plain: true}
	}
	// In JSON a value that its element cannot have is no document of the API.
	err = api().shape(c.body, api().roots[root])
	if media, _ := mediaOf(r); errors.Is(err, errSyntax) || err != nil && media == "application/json" {
		err = c.syntaxError()
	}
	return err
}

// collections gives the element of each collection whose name does not tell it.
var collections = map[string]string{
	"affinitygroups": "affinity_group", "affinitylabels": "affinity_label", "datacenters": "data_center", "diskattachments": "disk_attachment",
	"graphicsconsoles": "graphics_console", "imagetransfers": "image_transfer", "instancetypes": "instance_type", "storagedomains": "storage_domain",
	"vnicprofiles": "vnic_profile", "cpuprofiles": "cpu_profile", "diskprofiles": "disk_profile", "macpools": "mac_pool", "vmpools": "vm_pool",
	"storageconnections": "storage_connection", "schedulingpolicies": "scheduling_policy", "networkfilters": "network_filter", "numanodes": "vm_numa_node",
	"networkfilterparameters": "network_filter_parameter", "hostdevices": "host_device", "mediateddevices": "vm_mediated_device",
}

// rootName is the name of the document that belongs into a request: an action, or the object of the collection.
func (c *call) rootName() string {
	if c.action != "" {
		return "action"
	}
	parts := strings.Split(strings.TrimPrefix(c.r.URL.Path, apiPath+"/"), "/")
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

// complete is the answer to an action that was done: its job, the object that it was done to, and the request's elements.
func (c *call) complete(kids ...*element) *element {
	out := el("action").add(ref("job", "jobs", c.job)).add(kids...)
	if c.body != nil && c.action != "" {
		for _, kid := range c.body.kids {
			if out.get(kid.name) == nil {
				out.add(kid)
			}
		}
	}
	return out.str("status", "complete")
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
		return 0, failed(http.StatusBadRequest, "illegal max count value for query : %d", n)
	}
	return n, nil
}

// flagParam is a boolean in the query.
func (c *call) flagParam(name string) bool { return strings.EqualFold(c.query.Get(name), "true") }

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

// object begins the document of an object, with the actions and the collections that the API has for it.
func object(name, id string, path ...string) *element {
	out := el(name).set("href", href(path...)).set("id", id)
	found, _ := api().at(path)
	if found == nil {
		return out
	}

	base, actions := out.attr("href"), el("actions")
	for _, method := range found.methods {
		if rel, ok := strings.CutPrefix(method, "!"); ok {
			actions.items(el("link").set("href", base+"/"+rel).set("rel", rel))
		}
	}
	if len(actions.kids) > 0 {
		out.add(actions)
	}
	for _, rel := range sortedKeys(found.paths) {
		if rel != "{}" {
			out.items(el("link").set("href", base+"/"+rel).set("rel", rel))
		}
	}
	return out
}
