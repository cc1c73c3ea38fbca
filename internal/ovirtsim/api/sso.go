package api

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the engine's single sign-on, and the authentication of API requests.

// maxFailures is the number of consecutive wrong passwords after which the internal domain locks a user.
const maxFailures = 5

// session is the session of a user.
type session struct {
	user   string
	expiry time.Time
}

// setLocaleCookie sets the cookie that all pages of the engine outside the API have in common.
func setLocaleCookie(w http.ResponseWriter) {
	const never = 1<<31 - 1
	expires := time.Now().Add(never * time.Second).UTC().Format(http.TimeFormat)
	w.Header().
		Add("Set-Cookie", fmt.Sprintf("locale=en_US; path=/; secure; HttpOnly; Max-Age=%d; Expires=%s", never, expires))
}

// setSecurityHeaders sets the headers of the single sign-on pages.
func setSecurityHeaders(w http.ResponseWriter) {
	setLocaleCookie(w)
	w.Header().Set("X-Content-Type-Options", "NOSNIFF")
	w.Header().Set("X-Frame-Options", "SAMEORIGIN")
	w.Header().Set("X-XSS-Protection", "1; MODE=BLOCK")
}

// loginError is the refusal of a login: an OAuth code and the engine's text.
type loginError struct{ code, text string }

func (e *loginError) Error() string { return e.code + ": " + e.text }

// accessDenied returns the error of a failed login. Only its text depends on the reason.
func accessDenied(user, profile, why string) *loginError {
	return &loginError{"access_denied", fmt.Sprintf("Cannot authenticate user '%s@%s': %s.", user, profile, why)}
}

// These constants are texts of refused logins. The text for a locked user is from the engine's messages; no recording
// confirms it.
const (
	unableToLogIn = "Unable to log in. Verify your login information or contact the system administrator."
	noProfile     = "No valid profile found in credentials."
	noUserName    = "No user name found in credentials."
	lockedUser    = "Unable to log in because the user account is disabled or locked. Contact the system administrator."
)

// serveToken serves the endpoint for tokens. It accepts parameters from the query and from the form, even in a GET
// request.
func (s *Engine) serveToken(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w)
	refuse := func(code, text string) {
		wire.AnswerJSON(w, http.StatusBadRequest, map[string]any{"error_code": code, "error": text})
	}
	const unsupported, unsupportedText = "unsupported_grant_type", "The authorization grant type is not supported " +
		"by the authorization server."
	err := r.ParseForm()
	if err != nil || strings.TrimSpace(strings.Join(slices.Collect(maps.Keys(r.Form)), "")) == "" {
		wire.AnswerJSON(w, http.StatusBadRequest, map[string]any{
			"error":             unsupported,
			"error_description": unsupportedText,
		})

		return
	}

	switch grant := r.Form.Get("grant_type"); {
	case r.Header.Get("Accept") != "application/json":
		refuse("invalid_request", "Missing parameter: 'Accept Header'")
		return
	case grant == "urn:ovirt:params:oauth:grant-type:http": // for browsers with Kerberos
		target := s.URL() + "/oauth2-callback?error=unauthorized_client&error_description=" + url.QueryEscape(
			"Authentication required.",
		)
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // as the engine has it
			Name:     sessionCookie,
			Value:    wire.RandomHex(16),
			Path:     wire.EnginePath + "/sso",
			HttpOnly: true,
		})
		http.Redirect(w, r, target, http.StatusFound)

		return
	case grant != "password":
		refuse(unsupported, unsupportedText)
		return
	}

	for _, needed := range []string{"username", "password"} {
		if !r.Form.Has(needed) {
			refuse("invalid_request", "Missing parameter: '"+needed+"'")
			return
		}
	}

	name := r.Form.Get("username")
	if refused := s.checkLogin(name, r.Form.Get("password")); refused != nil {
		refuse(refused.code, refused.text)
		return
	}

	wire.AnswerJSON(w, http.StatusOK, map[string]any{
		"access_token": s.openSession(name),
		"token_type":   "bearer",
		"scope":        grantedScope(r.Form.Get("scope")),
		"exp":          "9223372036854775807",
	})
}

// grantedScope returns the scope of a token: the requested scope with the additions that it implies.
func grantedScope(asked string) string {
	words := strings.Fields(asked)
	if slices.Contains(words, "ovirt-app-admin") {
		words = append(words, "ovirt-ext=revoke:revoke-all")
	}

	if slices.Contains(words, "ovirt-app-api") || slices.Contains(words, "ovirt-app-admin") {
		words = append(words, "ovirt-ext=token-info:authz-search", "ovirt-ext=token-info:public-authz-search",
			"ovirt-ext=token-info:validate", "ovirt-ext=token:password-access")
	}

	slices.Sort(words)

	return strings.Join(slices.Compact(words), " ")
}

// checkLogin checks a password, and locks a user after too many wrong passwords. The part of a name after the last @ is
// the profile.
func (s *Engine) checkLogin(name, password string) *loginError {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { _ = s.store.Flush() }() // a lock must survive a restart
	user, profile := name, ""
	if at := strings.LastIndex(name, "@"); at >= 0 {
		user, profile = name[:at], name[at+1:]
	}

	switch found := s.store.UserNamed(name); {
	case user == "":
		return accessDenied("", cmp.Or(profile, "N/A"), noUserName)
	case !s.hasProfile(profile):
		return accessDenied(user, cmp.Or(profile, "N/A"), noProfile)
	case found == nil:
		return accessDenied(user, profile, unableToLogIn)
	case found.Locked:
		return accessDenied(user, profile, lockedUser)
	case found.Password != password:
		found.Failures++
		found.Locked = found.Failures >= maxFailures
		s.store.Users.Put(found.ID, found)
		s.recordEvent(30, "warning", "User "+name+" failed to log in.", eventOf{})

		return accessDenied(user, profile, unableToLogIn)
	case found.Failures > 0:
		found.Failures = 0
		s.store.Users.Put(found.ID, found)
	}

	s.sessionsMu.Lock()
	s.logins++
	s.sessionsMu.Unlock()

	return nil
}

func (s *Engine) openSession(user string) (token string) {
	token = wire.RandomHex(32)
	s.sessionsMu.Lock()
	defer s.sessionsMu.Unlock()
	s.dropExpiredSessions() // sessions of clients that never log out must not accumulate
	s.sessions[token] = session{user: user, expiry: s.now().Add(s.settings.TokenLifetime)}

	return token
}

// serveLogout ends a session. Like the engine, it accepts every request.
func (s *Engine) serveLogout(w http.ResponseWriter, r *http.Request) {
	setLocaleCookie(w)
	if r.ParseForm() == nil {
		s.CloseSession(r.Form.Get("token"))
	}

	wire.AnswerJSON(w, http.StatusOK, struct{}{})
}

// serveRevoke refuses every request, because only the engine's own clients know the required ID and secret.
func serveRevoke(w http.ResponseWriter, _ *http.Request) {
	setSecurityHeaders(w)
	wire.AnswerJSON(w, http.StatusBadRequest, map[string]any{
		"error_code": "invalid_request",
		"error":      "Missing parameter: 'client_id'",
	})
}

// serveTokenInfo refuses every request for the same reason.
func serveTokenInfo(w http.ResponseWriter, _ *http.Request) {
	setSecurityHeaders(w)
	wire.AnswerJSON(w, http.StatusBadRequest, map[string]any{
		"error":             "invalid_request",
		"error_description": "Missing parameter: 'client_id'",
	})
}

// sessionCookie is the cookie with the session of a client. Such a client logs in with HTTP Basic and asks for the
// cookie.
const sessionCookie = "JSESSIONID"

// setSession sets the cookie of the API; an empty value removes it.
func setSession(w http.ResponseWriter, value string) {
	cookie := sessionCookie + "=" + value + "; path=" + wire.APIPath + "; HttpOnly"
	if value == "" {
		cookie += "; Max-Age=0; Expires=" + time.Unix(0, 0).UTC().Format(http.TimeFormat)
	}

	w.Header().Add("Set-Cookie", cookie)
}

// These constants are texts of the page for a 401, in addition to those of refused logins.
const (
	nothingSent  = "Unauthorized"
	sessionEnded = "invalid_grant: The provided authorization grant for the auth code has expired."
)

// authenticate returns the user of a request, or the text of the refusal. It accepts the cookie of a session, the token
// of a session, or HTTP Basic. A client that sends "Prefer: persistent-auth" with its password gets a cookie. The first
// request with this cookie but without this header ends the session. This is how such clients log out.
func (s *Engine) authenticate(w http.ResponseWriter, r *http.Request) (user, refused string) {
	isBreak := func(c rune) bool { return c == ',' || c == ' ' }
	persistent := slices.Contains(strings.FieldsFunc(strings.Join(r.Header.Values("Prefer"), ","), isBreak),
		"persistent-auth")
	authorization := r.Header.Get("Authorization")
	cookie, err := r.Cookie(sessionCookie)
	if err == nil && authorization == "" {
		return s.authenticateCookie(w, cookie.Value, persistent)
	}

	scheme, credentials, _ := strings.Cut(authorization, " ")
	switch scheme {
	case "Bearer":
		if user, ok := s.useSession(credentials); ok {
			if persistent || cookie != nil { // the cookie grants nothing beyond the token
				setSession(w, wire.RandomHex(16))
			}

			return user, ""
		}

		return "", sessionEnded
	case "Basic":
		if s.settings.Keycloak {
			return "", basicOfKeycloak
		}

		decoded, _ := base64.StdEncoding.DecodeString(credentials)
		name, password, _ := strings.Cut(string(decoded), ":")
		if refused := s.checkLogin(name, password); refused != nil {
			return "", refused.Error()
		}

		if persistent {
			token := s.openSession(name)
			setSession(w, token)
		}

		return name, ""
	}

	return "", nothingSent
}

func (s *Engine) authenticateCookie(w http.ResponseWriter, value string, persistent bool) (user, refused string) {
	user, known := s.useSession(value)
	switch {
	case known && persistent:
		return user, ""
	case known:
		s.CloseSession(value)
		setSession(w, "")
	case !persistent:
		setSession(w, wire.RandomHex(16))
	}

	return "", nothingSent
}

// writeUnauthorized writes the servlet container's page for a request without a session. This page is never an API
// document.
func writeUnauthorized(w http.ResponseWriter, text string) {
	if text == basicOfKeycloak {
		writeBasicRefused(w)
		return
	}

	w.Header().Set("WWW-Authenticate", `Basic realm="RESTAPI"`)
	writeErrorPage(w, http.StatusUnauthorized, text)
}

// writeErrorPage writes an error page in the form of the servlet container.
func writeErrorPage(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/html;charset=UTF-8")
	w.WriteHeader(status)
	escaped := strings.ReplaceAll(html.EscapeString(text), "&#39;", "'") // the engine does not escape apostrophes
	_, _ = fmt.Fprintf(w, "<html><head><title>Error</title></head><body>%s</body></html>", escaped)
}

// useSession returns the user of a session and extends the session. Its lifetime counts from the last use, as in the
// engine.
func (s *Engine) useSession(token string) (string, bool) {
	s.sessionsMu.Lock()
	defer s.sessionsMu.Unlock()
	found, known := s.sessions[token]
	if !known || s.now().After(found.expiry) {
		delete(s.sessions, token)
		return "", false
	}

	found.expiry = s.now().Add(s.settings.TokenLifetime)
	s.sessions[token] = found

	return found.user, true
}

// CloseSession ends a session. It ignores an unknown token.
func (s *Engine) CloseSession(token string) {
	s.sessionsMu.Lock()
	defer s.sessionsMu.Unlock()
	delete(s.sessions, token)
}

// ExpireSessions invalidates every token, like a restart of the engine.
func (s *Engine) ExpireSessions() {
	s.sessionsMu.Lock()
	defer s.sessionsMu.Unlock()
	s.sessions = map[string]session{}
}

// CountSessions returns the number of valid sessions, and the number of successful logins so far.
func (s *Engine) CountSessions() (live, logins int) {
	s.sessionsMu.Lock()
	defer s.sessionsMu.Unlock()
	s.dropExpiredSessions()

	return len(s.sessions), s.logins
}

// dropExpiredSessions drops expired sessions. The caller must hold sessionsMu.
func (s *Engine) dropExpiredSessions() {
	now := s.now()
	maps.DeleteFunc(s.sessions, func(_ string, one session) bool { return now.After(one.expiry) })
}

// servePKIResource serves certificates to clients that do not trust them yet, so it needs no session.
func (s *Engine) servePKIResource(w http.ResponseWriter, r *http.Request) {
	setLocaleCookie(w)
	query := r.URL.Query()
	resource, format := query.Get("resource"), query.Get("format")

	content := map[string][]byte{
		"ca-certificate":     s.settings.CA,
		"engine-certificate": s.settings.Certificate,
	}[resource]
	switch {
	case resource == "":
		writeErrorPage(w, http.StatusBadRequest, "Missing resource name")
		return
	case content == nil:
		writeErrorPage(w, http.StatusBadRequest, "Resource '"+resource+"' is invalid")
		return
	}

	media := map[string]string{
		"X509-PEM-CA":    "application/x-x509-ca-cert",
		"X509-PEM":       "application/x-x509-cert",
		"OPENSSH-PUBKEY": "text/plain",
		"": map[string]string{
			"ca-certificate":     "application/x-x509-ca-cert",
			"engine-certificate": "application/x-x509-cert",
		}[resource],
	}[format]
	if media == "" {
		writeErrorPage(w, http.StatusBadRequest, "Format '"+format+"' is invalid")
		return
	}

	if format == "OPENSSH-PUBKEY" {
		content = s.settings.SSHKeys[resource]
	}

	if r.Method != http.MethodHead {
		media += "; charset=ISO-8859-1"
	}

	w.Header().Set("Content-Type", media)
	_, _ = w.Write(content)
}
