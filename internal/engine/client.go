package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultTimeout bounds one request, connection and body included.
	DefaultTimeout = 30 * time.Second

	// maxResponse bounds the body of one response: 5,000 VMs with their devices are about 40 MB of XML.
	maxResponse = 256 << 20

	// authRetryMin and authRetryMax bound the pause after refused credentials. oVirt's internal domain locks a user
	// after 5 failures within its window, so the first pause must be long enough for a person to notice.
	authRetryMin = 30 * time.Second
	authRetryMax = 10 * time.Minute
)

// Config names an engine and the credentials to use.
type Config struct {
	// URL is the base URL of the engine, with or without the trailing /api: https://host/ovirt-engine.
	URL string
	// Username with its domain, such as admin@internal.
	Username string
	// Password of the user.
	Password string
	// CA holds PEM certificates that sign the engine's certificate. Empty means the system's trust store.
	CA []byte
	// Insecure turns the verification of the engine's certificate off.
	Insecure bool
	// Timeout of one request; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Client is an authenticated session with one engine.
type Client struct {
	cfg  Config
	base *url.URL // ends in /ovirt-engine, without a slash
	http *http.Client
	now  func() time.Time

	mu           sync.Mutex
	token        string
	authErr      *AuthError // the last refusal; until its RetryAt no login is tried
	authFailures int

	lists listCache
}

// New returns a client for the engine; it sends nothing yet. It fails on a URL or a CA that cannot be used.
func New(cfg Config) (*Client, error) {
	base, err := BaseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cfg.Insecure} //nolint:gosec // only when the user asks for it
	if len(cfg.CA) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(cfg.CA) {
			return nil, errors.New("the CA holds no PEM certificate")
		}
		tlsConfig.RootCAs = pool
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: cfg.Timeout,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       60 * time.Second,
	}
	return &Client{cfg: cfg, base: base, http: &http.Client{Transport: transport}, now: time.Now}, nil
}

// BaseURL parses the URL of an engine and strips a trailing /api and slashes, which manifests and the released
// Terraform provider write in different ways.
func BaseURL(raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		raw = "https://" + raw
	}
	base, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return nil, fmt.Errorf("failed to parse the engine URL: %w", err)
	}
	if base.Scheme != "https" {
		return nil, fmt.Errorf("the engine URL must begin with https://, not %s://", base.Scheme)
	}
	if base.Host == "" {
		return nil, fmt.Errorf("the engine URL %q has no host", raw)
	}
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/api")
	if base.Path == "" {
		base.Path = "/ovirt-engine"
	}
	base.RawQuery, base.Fragment, base.User = "", "", nil
	return base, nil
}

// APIURL is the URL of the engine's REST API, without a trailing slash.
func (c *Client) APIURL() string { return c.base.String() + "/api" }

// login returns the session's token, and makes a session where there is none.
func (c *Client) login(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" {
		return c.token, nil
	}
	if c.authErr != nil && c.now().Before(c.authErr.RetryAt) {
		return "", c.authErr
	}
	form := url.Values{
		"grant_type": {"password"},
		"scope":      {"ovirt-app-api"},
		"username":   {c.cfg.Username},
		"password":   {c.cfg.Password},
	}
	var reply struct {
		AccessToken string `json:"access_token"`
		Error       string `json:"error"`
		ErrorCode   string `json:"error_code"`
	}
	status, err := c.postForm(ctx, "/sso/oauth/token", form, &reply)
	if err != nil {
		return "", err
	}
	if reply.AccessToken == "" {
		if status >= 500 {
			return "", &UnreachableError{Err: fmt.Errorf("login answered HTTP %d", status)}
		}
		message := strings.TrimSpace(reply.ErrorCode + " " + reply.Error)
		if message == "" {
			message = http.StatusText(status)
		}
		pause := authRetryMin << min(c.authFailures, 10)
		c.authFailures++
		c.authErr = &AuthError{Username: c.cfg.Username, Message: message, RetryAt: c.now().Add(min(pause, authRetryMax))}
		return "", c.authErr
	}
	c.token, c.authErr, c.authFailures = reply.AccessToken, nil, 0
	return c.token, nil
}

func (c *Client) postForm(ctx context.Context, path string, form url.Values, reply any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, fmt.Errorf("failed to build the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, transportError(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, &UnreachableError{Err: err}
	}
	if err := json.Unmarshal(body, reply); err != nil && response.StatusCode == http.StatusOK {
		return 0, &UnreachableError{Err: fmt.Errorf("%s answered with something that is not JSON", path)}
	}
	return response.StatusCode, nil
}

// dropToken forgets a token that the engine no longer accepts, unless another call has already replaced it.
func (c *Client) dropToken(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = ""
	}
}

// Logout ends the session on the engine. The client can be used again and logs in anew.
func (c *Client) Logout(ctx context.Context) error {
	c.mu.Lock()
	token := c.token
	c.token = ""
	c.mu.Unlock()
	if token == "" {
		return nil
	}
	var reply struct{}
	_, err := c.postForm(ctx, "/sso/oauth/revoke", url.Values{"token": {token}}, &reply)
	return err
}

// do sends one request and decodes the answer into out where it is not nil. A session that expired is renewed once.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var payload []byte
	if in != nil {
		var err error
		if payload, err = xml.Marshal(in); err != nil {
			return fmt.Errorf("failed to encode the body of %s %s: %w", method, path, err)
		}
	}
	for attempt := 0; ; attempt++ {
		token, err := c.login(ctx)
		if err != nil {
			return err
		}
		err = c.send(ctx, token, method, path, query, payload, out)
		var fault *Fault
		if attempt == 0 && errors.As(err, &fault) && fault.StatusCode == http.StatusUnauthorized {
			c.dropToken(token)
			continue
		}
		return err
	}
}

func (c *Client) send(ctx context.Context, token, method, path string, query url.Values, payload []byte, out any) error {
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
		return fmt.Errorf("failed to build the request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Version", "4")
	request.Header.Set("Accept", "application/xml")
	if payload != nil {
		request.Header.Set("Content-Type", "application/xml")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return transportError(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return &UnreachableError{Err: err}
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return faultFrom(method, path, response.StatusCode, content)
	}
	if out == nil || len(bytes.TrimSpace(content)) == 0 {
		return nil
	}
	if err := xml.Unmarshal(content, out); err != nil {
		return &UnreachableError{Err: fmt.Errorf("%s %s answered with something that is not the engine's XML: %w", method, path, err)}
	}
	return nil
}

// faultFrom reads the fault in an error response: bare, or inside the action that failed.
func faultFrom(method, path string, status int, content []byte) error {
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
