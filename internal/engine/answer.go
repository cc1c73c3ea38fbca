package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// This file decides whether an answer comes from the engine. A proxy, an ingress or a default backend may send any
// status and any body. Without the check, such an answer would make an object look deleted or created.

// correlationHeader contains the ID of a request. Recordings show that an engine repeats this ID in each answer of its
// API. It omits the ID if it does not accept the session, or if an internal error replaces the answer. No other server
// knows the ID.
const correlationHeader = "Correlation-Id"

// sniffLength is the number of leading bytes of an answer used to check its form.
const sniffLength = 256

// origin is the client's knowledge about the source of the answers at an engine's URL.
type origin int

const (
	// originUnknown means that the client has not seen an answer yet.
	originUnknown origin = iota
	// originEchoesID means that the engine's answers contain the IDs of their requests.
	originEchoesID
	// originStripsID means that a proxy removes the IDs. Only the engine's installation ID then proves the origin of
	// an answer.
	originStripsID
)

// probeKey is the context key of the request that checks whether the engine is there. Its value is a *probe.
type probeKey struct{}

// probe is the result of the request that checks whether the engine is there.
type probe struct {
	// hasID reports whether the answer contained the ID of the request.
	hasID bool
}

// getProbe returns the probe of a request, or nil for all other requests.
func getProbe(ctx context.Context) *probe {
	found, _ := ctx.Value(probeKey{}).(*probe)

	return found
}

// newForeignError returns an error for an answer from a server other than the engine.
func newForeignError(method, path string, status int) error {
	return &UnreachableError{Err: fmt.Errorf(
		"%s %s was answered by a server in front of the engine (HTTP %d, without the %s of the request)", method, path,
		status, correlationHeader,
	)}
}

// checkOrigin returns an error for an answer from another server. known reports whether the answer provably comes from
// the engine.
func (c *Client) checkOrigin(
	ctx context.Context, method, path, id string, response *http.Response,
) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	switch probing := getProbe(ctx); {
	case response.Header.Get(correlationHeader) == id:
		if probing != nil {
			probing.hasID = true
		}

		c.answers = originEchoesID

		return true, nil
	case probing != nil:
		return false, nil // the caller compares the engine's identity
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusInternalServerError:
		return false, nil // an engine's own 401 or 500 has no ID either, and neither status proves what exists
	case c.answers == originEchoesID:
		return false, newForeignError(method, path, response.StatusCode)
	}

	return false, nil
}

// detectStrippedIDs reports whether a proxy has begun to remove the IDs of requests, for example after its deployment.
// It asks the engine for its identity, because only the same installation knows its ID.
func (c *Client) detectStrippedIDs(ctx context.Context) bool {
	c.mu.Lock()
	known := c.identity.Installation
	c.mu.Unlock()

	if getProbe(ctx) != nil || known == "" {
		return false
	}

	found := &probe{}
	product, err := c.FetchProduct(context.WithValue(ctx, probeKey{}, found))

	if err != nil || found.hasID || product.InstanceID != known {
		return false
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.answers = originStripsID

	return true
}

// checkForm returns an error for an answer with the request's ID, but in a form no recorded engine uses. An engine
// reports a missing object with a fault, or with no body and no media type. It answers a change with XML, or with 202
// and no body. body is the beginning of the answer.
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

// apiRealm is part of the header in each recorded 401 of the engine's API.
const apiRealm = `realm="RESTAPI"`

// newForeignFormError returns an error for an answer in a form no engine uses.
func newForeignFormError(method, path string, status int) error {
	return &UnreachableError{Err: fmt.Errorf(
		"%s %s was answered by a server in front of the engine (HTTP %d, in a form that no engine uses)", method, path,
		status,
	)}
}

// isEngineRefusal reports whether an error response other than a web page has the form of an engine's: no body, or XML
// with a fault. A proxy answers with JSON or plain text.
func isEngineRefusal(response *http.Response, content []byte) bool {
	media := response.Header.Get("Content-Type")

	return len(content) == 0 && media == "" ||
		strings.Contains(media, "xml") && (bytes.Contains(content, []byte("<fault")) ||
			bytes.Contains(content, []byte("<action")) || bytes.Contains(content, []byte("<usage_message")))
}

// verifyOrigin returns err, or another error if the engine did not answer the request. known reports whether the
// answer provably comes from the engine.
func (c *Client) verifyOrigin(ctx context.Context, method, path string, known bool, err error) error {
	if getProbe(ctx) != nil || path == "" || !c.shouldVerify(method, known, err) {
		return err
	}

	// A starting engine may itself answer 404. A 404 counts only if the engine also returns its identity.
	if _, probeErr := c.FetchProduct(context.WithValue(ctx, probeKey{}, &probe{})); IsCancelled(probeErr) {
		return probeErr
	} else if probeErr != nil {
		return &UnreachableError{Err: probeErr}
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.answers == originUnknown {
		c.answers = originStripsID
	}

	if !known && c.answers == originEchoesID {
		status := http.StatusOK

		var fault *Fault
		if errors.As(err, &fault) {
			status = fault.StatusCode
		}

		return newForeignError(method, path, status)
	}

	return err
}

// shouldVerify reports whether the result of a request counts only after a check that the engine is there.
func (c *Client) shouldVerify(method string, known bool, err error) bool {
	switch {
	case IsNotFound(err):
		return method == http.MethodGet || !known
	case err != nil || known:
		return false // an error changes nothing, and a known answer needs no proof
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	return method != http.MethodGet || c.answers != originStripsID
}
