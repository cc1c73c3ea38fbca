package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// This file decides whether an answer is the engine's. A proxy, an ingress or a default backend may send any status and
// any body, but answers decide whether objects count as gone or as made.

// correlationHeader names a request. As was recorded, an engine repeats the client's name on each answer of its API. It
// omits the name if it does not accept the session, or if an internal error replaces the answer. Nothing else knows the
// name.
const correlationHeader = "Correlation-Id"

// formLength is the length of the part of an answer used to check its form.
const formLength = 256

// origin is the client's knowledge of the answers from an engine's URL.
type origin int

const (
	// originUnknown means that no answer was seen yet.
	originUnknown origin = iota
	// originNamed means that the engine's answers carry the names of their requests.
	originNamed
	// originPlain means that something in between removes the names. The engine's identity then decides.
	originPlain
)

// verifying marks the request that checks if the engine is there. Its value is a *probe.
type verifying struct{}

// probe is the result of the request that checks if the engine is there.
type probe struct {
	// named reports that the answer carried the name of the request.
	named bool
}

// getProbe returns the probe of a request, or nil for all other requests.
func getProbe(ctx context.Context) *probe {
	found, _ := ctx.Value(verifying{}).(*probe)

	return found
}

// newForeignError reports an answer from something other than the engine.
func newForeignError(method, path string, status int) error {
	return &UnreachableError{Err: fmt.Errorf(
		"%s %s was answered by something before the engine (HTTP %d, without the %s of the request)", method, path,
		status, correlationHeader,
	)}
}

// checkOrigin returns an error for an answer not from the engine. known reports a proven answer of the engine.
func (c *Client) checkOrigin(
	ctx context.Context, method, path, id string, response *http.Response,
) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	switch probing := getProbe(ctx); {
	case response.Header.Get(correlationHeader) == id:
		if probing != nil {
			probing.named = true
		}

		c.answers = originNamed

		return true, nil
	case probing != nil:
		return false, nil // the identity in the answer decides
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusInternalServerError:
		return false, nil // the engine's own lack the name too, and neither status shows what exists
	case c.answers == originNamed:
		return false, newForeignError(method, path, response.StatusCode)
	}

	return false, nil
}

// hasLostNames reports whether something has begun to remove the names of requests, such as a proxy newly put before
// the engine. It asks the engine for its identity: only the previous installation knows its ID.
func (c *Client) hasLostNames(ctx context.Context) bool {
	c.mu.Lock()
	known := c.identity.Installation
	c.mu.Unlock()

	if getProbe(ctx) != nil || known == "" {
		return false
	}

	found := &probe{}
	product, err := c.FetchProduct(context.WithValue(ctx, verifying{}, found))

	if err != nil || found.named || product.InstanceID != known {
		return false
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.answers = originPlain

	return true
}

// checkForm returns an error for an answer with the request's name, but in a form never used by an engine, as was
// recorded. An engine reports a missing object with no body and no media type, or with a fault. It answers changes with
// XML, or with 202 and no body. body is the beginning of the answer.
func checkForm(method, path string, response *http.Response, body []byte) error {
	document := strings.Contains(response.Header.Get("Content-Type"), "xml") && bytes.HasPrefix(body, []byte("<"))
	fits := true

	switch status := response.StatusCode; {
	case status == http.StatusNotFound:
		fits = len(body) == 0 && response.Header.Get("Content-Type") == "" ||
			document && (bytes.Contains(body, []byte("<fault")) || bytes.Contains(body, []byte("<action")))
	case status < 200 || status > 299 || method == http.MethodGet:
	case len(body) == 0:
		fits = status == http.StatusAccepted
	case method == http.MethodDelete:
		fits = document && bytes.Contains(body, []byte("<action"))
	default:
		fits = document
	}

	if fits {
		return nil
	}

	return newForeignFormError(method, path, response.StatusCode)
}

// apiRealm is in the header by which the engine asks for a login with each 401 of its API, as was recorded.
const apiRealm = `realm="RESTAPI"`

// newForeignFormError reports an answer in a form that the engine's never have.
func newForeignFormError(method, path string, status int) error {
	return &UnreachableError{Err: fmt.Errorf(
		"%s %s was answered by something before the engine (HTTP %d, in a form that no engine uses)", method, path,
		status,
	)}
}

// isEngineRefusal reports whether a refusal that is no page has a form that the engine's have: none at all, or XML with
// a fault. A proxy refuses with JSON or with plain text.
func isEngineRefusal(response *http.Response, content []byte) bool {
	media := response.Header.Get("Content-Type")

	return len(content) == 0 && media == "" ||
		strings.Contains(media, "xml") && (bytes.Contains(content, []byte("<fault")) ||
			bytes.Contains(content, []byte("<action")) || bytes.Contains(content, []byte("<usage_message")))
}

// verifyOrigin returns the result of a request, or an error if it is not the engine's. known reports that the engine
// gave the answer.
func (c *Client) verifyOrigin(ctx context.Context, method, path string, known bool, err error) error {
	if getProbe(ctx) != nil || path == "" || !c.shouldVerify(method, known, err) {
		return err
	}

	// A starting engine may itself answer 404. A 404 counts only from an engine that knows its identity.
	if _, alive := c.FetchProduct(context.WithValue(ctx, verifying{}, &probe{})); IsCancelled(alive) {
		return alive
	} else if alive != nil {
		return &UnreachableError{Err: alive}
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.answers == originUnknown {
		c.answers = originPlain
	}

	if !known && c.answers == originNamed {
		status := http.StatusOK

		var fault *Fault
		if errors.As(err, &fault) {
			status = fault.StatusCode
		}

		return newForeignError(method, path, status)
	}

	return err
}

// shouldVerify reports whether to believe the result of a request only if the engine is there.
func (c *Client) shouldVerify(method string, known bool, err error) bool {
	switch {
	case IsNotFound(err):
		return method == http.MethodGet || !known
	case err != nil || known:
		return false // a refusal changes nothing, and a missing answer needs no proof
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	return method != http.MethodGet || c.answers != originPlain
}
