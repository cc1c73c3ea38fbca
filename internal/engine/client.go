package engine

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/redact"
)

const (
	// DefaultTimeout limits one request, including connection and body.
	DefaultTimeout = 30 * time.Second

	// maxVMs limits the body of a list of VMs in bytes: 5,000 VMs with their devices are about 40 MB of XML. maxAnswer
	// limits other answers. The client parses answers as they arrive, and does not keep them.
	maxVMs, maxAnswer = 96 << 20, 16 << 20
	// maxItems and maxElements limit the decoded content: 5,000 VMs with their devices have a million elements.
	maxItems, maxElements = 50_000, 4_000_000
	// maxTag limits one tag with its attributes, in bytes.
	maxTag = 64 << 10
	// maxRefusal limits the body of an answer without an object in bytes. Examples are a fault and a web page.
	maxRefusal = 1 << 20

	// unreachableMemory is how long a failed attempt to reach the engine also answers the logins waiting behind it.
	unreachableMemory = time.Second
	// foreignPause is the minimum time between logins caused by a 401 from another server.
	foreignPause = 30 * time.Second
)

// authRetry lists the pauses after each refusal of credentials. The last one repeats. The first retries tell a short
// disturbance from a wrong password. The last pause is as long as the client remembers a refusal. Corrected credentials
// belong to a new client, so they wait only if their user has too many refusals.
var authRetry = []time.Duration{30 * time.Second, 2 * time.Minute, time.Hour, refusalLifetime}

// directoryRetry lists the pauses for users of an external directory. The engine reports a wrong password and an
// unreachable directory server in the same words, so all pauses are short.
var directoryRetry = []time.Duration{30 * time.Second, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// finalPause is the pause after a refusal that retries cannot change. An engine unlocks a locked user after an hour.
const finalPause = time.Hour

// noValidProfile is part of the engine's message for a user name with an unknown profile.
const noValidProfile = "No valid profile found"

// finalRefusals are parts of the engine's messages for refusals that retries cannot change.
var finalRefusals = append([]string{noValidProfile, "No user name found"}, closedUsers...)

// closedUsers are the final refusals with another reason than the user name or the password.
var closedUsers = []string{"disabled or locked", "password has expired", "account has expired"}

// computeAuthPause returns the pause before the next login after the n-th refusal in a row with this message.
func computeAuthPause(username, message string, failures int) time.Duration {
	pauses := directoryRetry
	if strings.HasSuffix(username, "@internal") {
		pauses = authRetry
	}

	if slices.ContainsFunc(finalRefusals, func(words string) bool { return strings.Contains(message, words) }) {
		return finalPause
	}

	return pauses[min(failures, len(pauses)-1)]
}

// lock is a mutex for code that sends requests. A waiter gives up when its context ends.
type lock struct {
	once sync.Once
	held chan struct{}
}

func (l *lock) acquire(ctx context.Context) error {
	l.once.Do(func() { l.held = make(chan struct{}, 1) })

	select {
	case l.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		if cancelled := toCancelledError(ctx); cancelled != nil {
			return cancelled
		}

		return &UnreachableError{Err: ctx.Err()}
	}
}

func (l *lock) release() { <-l.held }

// Config has the address of an engine and the credentials for it.
type Config struct {
	// URL is the base URL of the engine, with or without the trailing /api: https://host/ovirt-engine.
	URL string
	// Username includes the domain, such as admin@internal, or admin@ovirt@internalsso for an engine with Keycloak.
	Username string
	// Password of the user.
	Password string
	// CA holds PEM certificates to verify the engine's certificate. If empty, the system's trust store is used.
	CA []byte
	// Insecure disables the verification of the engine's certificate.
	Insecure bool
	// Filtered limits answers to objects the user has rights for. It is for users without an administrator role.
	// Without it, the client refuses such users, because hidden objects would look deleted.
	Filtered bool
	// Headers are sent with each API request, in addition to those of this package; see CheckHeader.
	Headers map[string]string
	// Timeout limits one request. 0 means DefaultTimeout.
	Timeout time.Duration
	// Token returns the token of a session owned by another process. That process logs in and out, and the client
	// ignores Username and Password. refused is the last token the engine did not accept, or empty the first time. If
	// Token is nil, the client logs in itself.
	Token func(ctx context.Context, refused string) (string, error)
	// MayAct is called before each changing request. If it returns an error, the client does not send the request. A
	// process that was paused does not know that another one has replaced it. A nil MayAct allows all requests.
	MayAct func(ctx context.Context) error
	// Observe is called with the values for metrics. If it is nil, the client updates the metrics of this process.
	Observe func(Observation)
}

// Client is an authenticated session with one engine.
type Client struct {
	cfg  Config
	base *url.URL // ends in /ovirt-engine, without a slash
	http *http.Client
	now  func() time.Time

	mu             sync.Mutex
	token, refused string    // refused is the last token the engine did not accept
	retiredAt      time.Time // last time the client ended a session after a 401 from another server
	identity       Identity  // of the engine with the session of the token identityOf
	identityOf     string
	seenEvents     map[int64]time.Time // events received in the session of identityOf, with their times
	changed        error               // the reason to refuse further requests, or nil
	answers        origin

	// loggingIn is held during a login and guards the following fields.
	loggingIn    lock
	logins       *loginLimiter // shared by all clients of this process
	accepted     bool          // whether the engine has accepted the credentials, now or before a restart
	authErr      *AuthError    // the last refusal; no login before its RetryAt
	authFailures int
	unreachable  error // the last login that did not reach the engine; the next one follows at unreachableUntil
	// unreachableUntil is the earliest time of the next login. hidden counts the answers that may have hidden a
	// refusal.
	unreachableUntil time.Time
	hidden           int

	lists listCache
}

// New returns a client for the engine without sending a request. It fails if the URL or the CA is unusable.
func New(cfg Config) (*Client, error) {
	base, err := ParseBaseURL(cfg.URL)
	if err != nil {
		return nil, err
	}

	cfg.Username, cfg.Password = CleanLogin(cfg.Username, cfg.Password)
	if err := CheckLogin(cfg.Username, cfg.Password); err != nil {
		return nil, err
	}

	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}

	tlsConfig := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: cfg.Insecure, //nolint:gosec // only when the user asks for it
	}
	if len(cfg.CA) > 0 {
		if tlsConfig.RootCAs, err = parseCABundle(cfg.CA); err != nil {
			return nil, err
		}
	}

	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: cfg.Timeout,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       60 * time.Second,
	}

	observe := cfg.Observe
	if observe == nil {
		observe = Observation.AddToMetrics
	}

	return &Client{
		cfg:  cfg,
		base: base,
		http: &http.Client{Transport: measured{transport, observe}, CheckRedirect: refuseRedirects},
		now:  time.Now,

		logins: &loginLimiter{},
	}, nil
}

// refuseRedirects keeps credentials, sessions and user data at the server in the URL. A redirect that preserves the
// method would send them to another server, or without encryption.
func refuseRedirects(request *http.Request, _ []*http.Request) error {
	return &redirectError{target: request.URL.Scheme + "://" + abridgeText(request.URL.Host)}
}

// APIURL returns the URL of the engine's REST API, without a trailing slash.
func (c *Client) APIURL() string { return c.base.String() + "/api" }

// ensureLogin returns the session's token. It starts a session if there is none.
func (c *Client) ensureLogin(ctx context.Context) (string, error) {
	if token := c.getToken(); token != "" {
		return token, nil
	}

	if err := c.loggingIn.acquire(ctx); err != nil {
		return "", err
	}

	defer c.loggingIn.release()
	if token := c.getToken(); token != "" {
		return token, nil // another request has logged in meanwhile
	}

	if c.cfg.Token != nil {
		return c.borrowToken(ctx)
	}

	if c.unreachable != nil && c.now().Before(c.unreachableUntil) {
		return "", c.unreachable
	}

	if c.authErr != nil && c.now().Before(c.authErr.RetryAt) {
		return "", c.authErr
	}

	return c.startSession(ctx)
}

// startSession logs in, unless the user has too many refused passwords. The caller holds loggingIn.
func (c *Client) startSession(ctx context.Context) (string, error) {
	user, begun := userKeys(ctx, c.base, c.cfg.Username), c.now()
	c.accepted = c.accepted || c.logins.isAccepted(ctx, user, c.cfg.Password)

	guess := !c.accepted
	if guess {
		limit := maxRefusals
		if c.authFailures > 0 {
			limit = maxRetries
		}

		if retryAt, ok := c.logins.reserveLogin(ctx, user, float64(limit), begun); !ok {
			return "", &AuthError{Username: c.cfg.Username, Message: tooManyRefusals(c.cfg.Username), RetryAt: retryAt}
		}
	}

	reply, err := c.requestToken(ctx)

	switch {
	case err != nil:
		if ctx.Err() == nil {
			c.unreachable, c.unreachableUntil = err, c.now().Add(c.computeHiddenPause(reply.status))
		}

		if guess {
			c.logins.releaseLogin(user, begun)
		}

		return "", err
	case reply.AccessToken == "":
		c.logins.recordRefusal(ctx, user, c.cfg.Password, guess, begun)

		return "", c.rememberRefusal(c.redactSecrets(reply.refusalText()))
	}

	c.accepted = true
	c.logins.recordSuccess(ctx, reachedKeys(c.base, reply.remote, c.cfg.Username), c.cfg.Password, begun)
	c.authErr, c.authFailures, c.unreachable, c.hidden = nil, 0, nil, 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = reply.AccessToken

	return c.token, nil
}

// computeHiddenPause returns the pause after a login that did not reach the engine. An engine refuses passwords with
// 400. A proxy may replace that answer with its own page, so the pause is longer after a 400. An earlier accepted
// password proves nothing, because the password may have changed since. The caller holds loggingIn.
func (c *Client) computeHiddenPause(status int) time.Duration {
	if status != http.StatusBadRequest {
		return unreachableMemory
	}

	c.hidden++

	return directoryRetry[min(c.hidden, len(directoryRetry))-1]
}

// tokenReply is the engine's answer to a login: a token, or a refusal of the credentials.
type tokenReply struct {
	AccessToken string `json:"access_token"`
	Error       string `json:"error"`
	ErrorCode   string `json:"error_code"`

	status int
	// isJSON reports whether the content type of the answer is JSON.
	isJSON bool
	// remote is the address of the server that answered.
	remote string
}

// refusalText returns the engine's reason for refusing the credentials.
func (r tokenReply) refusalText() string { return r.ErrorCode + " " + r.Error }

// isRefusal reports whether the engine refused the credentials. Recordings show a refusal with status 400 and JSON with
// a code and a message. A proxy or a portal with its own login answers 401 or 403, with a page or with JSON without
// such a code.
func (r tokenReply) isRefusal() bool {
	return r.isJSON && r.status >= 400 && r.status <= 499 && r.Error != "" &&
		(r.ErrorCode == "access_denied" || r.ErrorCode == "invalid_grant")
}

// isOfEngine reports whether an answer without a token has the form of an engine's answer. In some answers of an
// engine, the field error has the code.
func (r tokenReply) isOfEngine() bool {
	return r.isJSON && r.Error != "" && r.status != http.StatusUnauthorized && r.status != http.StatusForbidden
}

// requestToken sends the credentials. An answer about anything else is an error.
func (c *Client) requestToken(ctx context.Context) (reply tokenReply, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { reply.remote = got.Conn.RemoteAddr().String() },
	})
	const path = "/sso/oauth/token"
	reply.status, reply.isJSON, err = c.postForm(ctx, path, url.Values{
		"grant_type": {"password"},
		"scope":      {"ovirt-app-api"},
		"username":   {c.cfg.Username},
		"password":   {c.cfg.Password},
	}, &reply)

	switch {
	case err != nil || reply.AccessToken != "" && reply.status == http.StatusOK || reply.isRefusal():
		return reply, err
	case reply.isOfEngine():
		return reply, &UnreachableError{Err: fmt.Errorf(
			"%s%s answered HTTP %d without a token: %s",
			c.base,
			path,
			reply.status,
			abridgeText(c.redactSecrets(reply.Error)),
		)}
	}

	return reply, &UnreachableError{Err: fmt.Errorf(
		"%s%s was answered by a server in front of the engine, such as a proxy or a portal (HTTP %d); "+
			"the engine did not refuse the user", c.base, path, reply.status,
	)}
}

// borrowToken gets the token of a session owned by another process. The caller holds loggingIn.
func (c *Client) borrowToken(ctx context.Context) (string, error) {
	c.mu.Lock()
	refused := c.refused
	c.mu.Unlock()

	token, err := c.cfg.Token(ctx, refused)
	if err != nil {
		return "", err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token

	return token, nil
}

// ShareToken returns the session's token for a process without credentials. It logs in if there is no session. refused
// is a token the engine did not accept, or empty. The new token is for the same engine, because the process must not
// continue with another engine.
func (c *Client) ShareToken(ctx context.Context, refused string) (string, error) {
	if refused != "" {
		c.dropToken(refused)
	}

	token, err := c.ensureLogin(ctx)
	if err != nil {
		return "", err
	}

	if err := c.checkSession(ctx, token); err != nil {
		return "", err
	}

	return token, nil
}

// rememberRefusal stores a refusal of the credentials, and returns it. The caller holds loggingIn.
func (c *Client) rememberRefusal(message string) *AuthError {
	pause := computeAuthPause(c.cfg.Username, message, c.authFailures)
	c.authFailures++
	c.authErr = &AuthError{Username: c.cfg.Username, Message: message, RetryAt: c.now().Add(pause)}

	return c.authErr
}

func (c *Client) getToken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// postForm sends a form, and decodes a JSON answer into reply.
func (c *Client) postForm(
	ctx context.Context, path string, form url.Values, reply any,
) (status int, isJSON bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		return 0, false, fmt.Errorf("failed to build the request: %w", err)
	}

	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, false, classifyTransportError(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, false, classifyTransportError(ctx, err)
	}

	err = json.Unmarshal(body, reply)
	if err != nil && response.StatusCode == http.StatusOK {
		return response.StatusCode, false, &UnreachableError{
			Err: fmt.Errorf("%s answered with something that is not JSON", path),
		}
	}

	isJSON = err == nil && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json")

	return response.StatusCode, isJSON, nil
}

// dropToken discards a token the engine no longer accepts, unless another call has already replaced it.
func (c *Client) dropToken(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token, c.refused = "", token
	}
}

// DropSession discards the token of a session owned by another process, and closes the connections to the engine.
func (c *Client) DropSession() {
	c.mu.Lock()
	c.token, c.refused = "", ""
	c.mu.Unlock()
	c.http.CloseIdleConnections()
}

// Logout ends the session on the engine. A later call logs in again.
func (c *Client) Logout(ctx context.Context) error {
	c.mu.Lock()
	token := c.token
	c.token = ""
	c.mu.Unlock()
	if token == "" {
		return nil
	}

	return c.endSession(ctx, token)
}

// endSession ends a session on the engine.
func (c *Client) endSession(ctx context.Context, token string) error {
	var reply map[string]any
	status, _, err := c.postForm(ctx, "/services/sso-logout", url.Values{
		"scope": {"ovirt-app-api"},
		"token": {token},
	}, &reply)
	if err == nil && status != http.StatusOK {
		err = &UnreachableError{Err: fmt.Errorf("logout answered HTTP %d", status)}
	}

	return err
}

// fetchInto reads an object or a list into out.
func (c *Client) fetchInto(ctx context.Context, path string, header http.Header, out any) error {
	return c.sendWithSession(ctx, http.MethodGet, path, nil, header, nil, out)
}

// callEngine sends one request, and decodes the answer into out unless out is nil. It renews an expired session once.
func (c *Client) callEngine(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return c.sendWithSession(ctx, method, path, query, nil, in, out)
}

func (c *Client) sendWithSession(
	ctx context.Context, method, path string, query url.Values, header http.Header, in, out any,
) error {
	var payload []byte
	if in != nil {
		// The encoder replaces invalid XML characters with U+FFFD.
		err := CheckTexts("xml", in)
		if err != nil {
			return fmt.Errorf("%s %s cannot be sent: %w", method, path, err)
		}

		if payload, err = xml.Marshal(in); err != nil {
			return fmt.Errorf("failed to encode the body of %s %s: %w", method, path, err)
		}
	}

	if err := c.checkMayAct(ctx, method); err != nil {
		return fmt.Errorf("%s %s was not sent: %w", method, path, err)
	}

	// A session ends after some time, and a restart of the engine ends all sessions. So the client logs in again after
	// the first refusal.
	var ended *sessionError

	for range 2 {
		token, err := c.ensureLogin(ctx)
		if err != nil {
			return err
		}

		if err := c.checkSession(ctx, token); err != nil {
			return err
		}

		known, err := c.sendRequest(ctx, token, method, path, query, header, payload, out)
		if !errors.As(err, &ended) {
			return c.verifyOrigin(ctx, method, path, known, err)
		}

		if ended.foreign != nil && !c.retireToken(ctx, token) {
			return ended.foreign
		}

		c.dropToken(token)
	}

	return c.explainNotAdmitted(ctx, ended)
}

// tidying is the context key for requests that remove the results of a process that may no longer act.
type tidying struct{}

// checkMayAct calls MayAct for a request with this method.
func (c *Client) checkMayAct(ctx context.Context, method string) error {
	if method == http.MethodGet || c.cfg.MayAct == nil || ctx.Value(tidying{}) != nil {
		return nil
	}

	return c.cfg.MayAct(ctx)
}

// sessionError is a 401 of the API: the token is unknown or has expired, or its user may not log in. The servlet
// container answers in place of the API, with a web page.
type sessionError struct {
	// page is the text of the page.
	page string
	// foreign is the error for a 401 from another server, or nil for a 401 of the engine.
	foreign error
}

func (e *sessionError) Error() string { return "the engine does not accept the session: " + e.page }

// retireToken ends a session after a 401 without the engine's name: either another server refused the token, or a proxy
// removed the name. It reports false if the client keeps the session, because it has just tried a new one, or another
// process owns the session.
func (c *Client) retireToken(ctx context.Context, token string) bool {
	if c.cfg.Token != nil {
		return false
	}

	c.mu.Lock()
	isReplaced, isTooEarly := c.token != token, c.now().Before(c.retiredAt.Add(foreignPause))

	if !isReplaced && !isTooEarly {
		c.token, c.refused, c.retiredAt = "", token, c.now()
	}

	c.mu.Unlock()

	if !isReplaced && !isTooEarly {
		_ = c.endSession(ctx, token) // otherwise, the engine ends it later
	}

	return isReplaced || !isTooEarly
}

// explainNotAdmitted returns the error for a user whose login succeeds, but whose new session the API refuses. The
// password is right, but the user may not log in, or has too many sessions.
func (c *Client) explainNotAdmitted(ctx context.Context, refused *sessionError) error {
	if refused.foreign != nil {
		return refused.foreign
	}

	if err := c.loggingIn.acquire(ctx); err != nil {
		return err
	}

	defer c.loggingIn.release()
	if c.authErr != nil && c.now().Before(c.authErr.RetryAt) {
		return c.authErr // another request has already got this refusal
	}

	return c.rememberRefusal(
		"the login succeeds, and the API refuses the session (" + refused.page +
			"); the user needs a role that may log in",
	)
}

// sendRequest sends a request. known reports whether the engine certainly gave the answer.
func (c *Client) sendRequest(
	ctx context.Context, token, method, path string, query url.Values, header http.Header, payload []byte, out any,
) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	target := c.APIURL() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}

	var body io.Reader
	if payload != nil {
		body = bytes.NewReader(payload)
	}

	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return false, fmt.Errorf("failed to build the request: %w", err)
	}

	for name, value := range c.cfg.Headers {
		request.Header.Set(name, value)
	}

	maps.Copy(request.Header, header)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Version", "4")
	id := rand.Text() // only letters and digits, so the engine repeats it unchanged
	request.Header.Set(correlationHeader, id)
	request.Header.Set("Filter", strconv.FormatBool(c.cfg.Filtered))
	request.Header.Set("Accept", "application/xml")
	if payload != nil {
		request.Header.Set("Content-Type", "application/xml")
	}

	response, err := c.http.Do(request)
	if err != nil {
		return false, classifyTransportError(ctx, err)
	}
	defer response.Body.Close()

	if known, err = c.checkOrigin(ctx, method, path, id, response); err != nil && !c.detectStrippedIDs(ctx) {
		return false, err
	}

	answer := bufio.NewReader(response.Body)
	isPage := strings.HasPrefix(response.Header.Get("Content-Type"), "text/html")
	if known && !isPage {
		begins, _ := answer.Peek(sniffLength) // the body is read below even if Peek fails
		if err := checkForm(method, path, response, bytes.TrimSpace(begins)); err != nil {
			return false, err
		}
	}

	if response.StatusCode >= 200 && response.StatusCode <= 299 && !isPage {
		return known, decodeAnswer(ctx, method, path, answer, out)
	}

	return known, c.readRefusal(ctx, method, path, response, answer, isPage)
}

// readRefusal returns the error for an unexpected answer. isPage reports whether the answer is a web page.
func (c *Client) readRefusal(
	ctx context.Context, method, path string, response *http.Response, answer io.Reader, isPage bool,
) error {
	content, err := io.ReadAll(io.LimitReader(answer, maxRefusal))
	if err != nil {
		return classifyTransportError(ctx, err)
	}

	if response.StatusCode == http.StatusUnauthorized {
		refused := &sessionError{
			page: c.redactSecrets(extractPageText(content)),
		} // before the check of the content type: an engine's 401 is always a page
		if !strings.Contains(response.Header.Get("WWW-Authenticate"), apiRealm) {
			refused.foreign = newForeignFormError(method, path, response.StatusCode)
		}

		return refused
	}

	if isPage {
		if response.StatusCode == http.StatusInternalServerError { // an engine reports an internal error with a page
			return &Fault{
				Method:     method,
				Path:       path,
				StatusCode: response.StatusCode,
				Detail:     c.redactSecrets(extractPageText(content)),
			}
		}

		return &UnreachableError{
			Err: fmt.Errorf("%s %s was answered by a server in front of the engine (HTTP %d with a web page)", method,
				path, response.StatusCode),
		}
	}

	if !isEngineRefusal(response, content) {
		return newForeignFormError(method, path, response.StatusCode)
	}

	fault := parseFault(method, path, response.StatusCode, content)
	fault.Reason, fault.Detail = c.redactSecrets(fault.Reason), c.redactSecrets(fault.Detail)

	return fault
}

// redactSecrets returns a text of the engine without the password and the session's token.
func (c *Client) redactSecrets(text string) string {
	return redact.New([]string{c.cfg.Password, c.getToken()}).RemoveSecrets(text)
}

// decodeAnswer decodes an object or a list into out as it arrives, unless out is nil. The answer to a change may be
// empty.
func decodeAnswer(ctx context.Context, method, path string, body io.Reader, out any) error {
	most := int64(maxAnswer)
	if strings.HasPrefix(path, "/vms") {
		most = maxVMs
	}

	limited := &io.LimitedReader{R: body, N: most}
	if out == nil {
		_, err := io.Copy(io.Discard, io.LimitReader(limited, maxRefusal)) // so that the connection can be reused
		if err != nil {
			return classifyTransportError(ctx, err)
		}

		return nil
	}

	err := xml.NewTokenDecoder(&boundedTokens{
		from: xml.NewDecoder(bufio.NewReader(&boundedTags{from: limited})),
	}).Decode(out)

	var syntax *xml.SyntaxError
	switch {
	case err == nil:
		_, _ = io.Copy(io.Discard, io.LimitReader(limited, maxRefusal))
		return nil
	case ctx.Err() != nil:
		return classifyTransportError(ctx, err)
	case limited.N <= 0:
		return &UnreachableError{Err: fmt.Errorf("%s %s was answered with more than %d MiB", method, path, most>>20)}
	case errors.Is(err, io.EOF) && method == http.MethodGet:
		return &UnreachableError{Err: fmt.Errorf("%s %s was answered with nothing", method, path)}
	case errors.Is(err, io.EOF):
		return nil
	case !errors.As(err, &syntax) && isTransport(err):
		return classifyTransportError(ctx, err)
	}

	return &UnreachableError{
		Err: fmt.Errorf("%s %s answered with something that is not the engine's XML: %w", method, path, err),
	}
}

// boundedTags stops reading within an overlong tag, because the decoder keeps all attributes of a tag in memory before
// it returns them.
type boundedTags struct {
	from   io.Reader
	inside bool
	length int
}

// Read implements io.Reader.
func (b *boundedTags) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	for _, c := range into[:n] {
		switch {
		case c == '<':
			b.inside, b.length = true, 0
		case c == '>':
			b.inside = false
		case b.inside:
			b.length++
		}

		if b.length > maxTag {
			return 0, fmt.Errorf("it has a tag of more than %d KiB", maxTag>>10)
		}
	}

	return n, err
}

// boundedTokens stops if an answer has more elements than any engine sends. An empty element takes a few bytes on the
// wire, but hundreds in memory. boundedTokens also filters names and comments.
type boundedTokens struct {
	from                   *xml.Decoder
	depth, items, elements int
	text                   textFilter
}

// Token implements xml.TokenReader.
func (b *boundedTokens) Token() (xml.Token, error) {
	token, err := b.from.RawToken()
	switch read := token.(type) {
	case xml.StartElement:
		b.depth++
		b.elements++
		if b.depth == 2 {
			b.items++
		}

		b.text = newTextFilter(read.Name.Local)
	case xml.EndElement:
		b.depth--
		b.text = textFilter{}
	case xml.CharData:
		token = b.text.filterText(read)
	}

	if b.items > maxItems || b.elements > maxElements {
		return nil, fmt.Errorf("it has more than %d items or %d elements", maxItems, maxElements)
	}

	return token, err
}

// isTransport reports whether an error comes from the connection, not from the content of an answer.
func isTransport(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

var (
	pageTitle = regexp.MustCompile(`(?is)<(title|style|script)[^>]*>.*?</(title|style|script)>`)
	pageTag   = regexp.MustCompile(`<[^>]*>`)
)

// extractPageText returns the text of a web page, shortened to 200 characters.
func extractPageText(content []byte) string {
	text := pageTag.ReplaceAllString(pageTitle.ReplaceAllString(string(content), " "), " ")
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}

	return text
}

// parseFault reads the fault from the body of an error. The body is the fault, or the failed action with the fault
// inside.
func parseFault(method, path string, status int, content []byte) *Fault {
	type faultXML struct {
		Reason string `xml:"reason"`
		Detail string `xml:"detail"`
	}
	var body struct {
		XMLName xml.Name
		faultXML
		Nested *faultXML `xml:"fault"`
	}
	fault := &Fault{Method: method, Path: path, StatusCode: status}
	if err := xml.Unmarshal(content, &body); err == nil {
		fault.Reason, fault.Detail = body.Reason, body.Detail
		if body.Nested != nil {
			fault.Reason, fault.Detail = body.Nested.Reason, body.Nested.Detail
		}
	}

	return fault
}
