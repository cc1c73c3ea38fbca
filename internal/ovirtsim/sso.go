package ovirtsim

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxFailures is how many wrong passwords the internal domain accepts in a row before it locks the user.
const maxFailures = 5

// session of a user.
type session struct {
	user   string
	expiry time.Time
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// token is the engine's SSO service.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code, text string) {
		answerJSON(w, status, map[string]any{"error_code": code, "error": text})
	}
	if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != "password" || r.PostForm.Get("scope") != "ovirt-app-api" {
		refuse(http.StatusBadRequest, "invalid_request", "grant_type=password and scope=ovirt-app-api are required")
		return
	}
	name := r.PostForm.Get("username")
	if err := s.login(name, r.PostForm.Get("password")); err != nil {
		refuse(http.StatusUnauthorized, "access_denied", err.Error())
		return
	}
	token, expiry := s.openSession(name)
	answerJSON(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "bearer", "scope": "ovirt-app-api", "exp": expiry.UnixMilli()})
}

// login checks a password, and locks the user of too many wrong ones.
func (s *Server) login(name, password string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { _ = s.store.flush() }() // a lock must hold over a restart
	found := s.store.userNamed(name)
	wrong := &refusal{detail: "Cannot authenticate user '" + name + "'. The username or password is incorrect."}
	switch {
	case found == nil:
		return wrong
	case found.Locked:
		return &refusal{detail: "Cannot authenticate user '" + name + "' because the user account is disabled or locked. Please contact the system administrator."}
	case found.Password != password:
		found.Failures++
		found.Locked = found.Failures >= maxFailures
		s.store.users.put(found.ID, found)
		s.event(30, "warning", "User "+name+" failed to log in.", eventOf{})
		return wrong
	}
	if found.Failures > 0 {
		found.Failures = 0
		s.store.users.put(found.ID, found)
	}
	s.front.Lock()
	s.logins++
	s.front.Unlock()
	return nil
}

func (s *Server) openSession(user string) (token string, expiry time.Time) {
	token, expiry = randomHex(32), time.Now().Add(s.options.TokenLifetime)
	s.front.Lock()
	defer s.front.Unlock()
	s.liveSessions() // those of clients that never log out must not pile up
	s.sessions[token] = session{user: user, expiry: expiry}
	return token, expiry
}

func (s *store) userNamed(name string) *user {
	for _, u := range s.users.rows {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// logout ends a session as the engine's SDKs do it: sso-logout in older ones, revoke in newer ones.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Form.Get("token") == "" {
		answerJSON(w, http.StatusBadRequest, map[string]any{"error_code": "invalid_request", "error": "the token is missing"})
		return
	}
	s.closeSession(r.Form.Get("token"))
	answerJSON(w, http.StatusOK, struct{}{})
}

// sessionCookie holds the session of a client that logged in with HTTP Basic and asked for one.
const sessionCookie = "JSESSIONID"

// authenticate returns the user of a request: by the cookie of a session, by the token of one, or by HTTP Basic, which
// older clients use. A client that sends "Prefer: persistent-auth" with its password gets a cookie; the first request
// with the cookie and without that header ends the session, which is how such clients log out.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (string, bool) {
	persistent := slices.Contains(strings.FieldsFunc(strings.Join(r.Header.Values("Prefer"), ","), func(c rune) bool { return c == ',' || c == ' ' }), "persistent-auth")
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		if user, ok := s.useSession(cookie.Value); ok {
			if !persistent {
				s.closeSession(cookie.Value)
			}
			return user, true
		}
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return s.useSession(token)
	}
	name, password, ok := r.BasicAuth()
	if !ok || s.login(name, password) != nil {
		return "", false
	}
	if persistent {
		token, _ := s.openSession(name)
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: token, Path: apiPath, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
		w.Header().Set(sessionCookie, token) // the engine repeats it for clients that do not parse cookies
	}
	return name, true
}

// useSession returns the user of a session and prolongs it: the engine counts from the last use.
func (s *Server) useSession(token string) (string, bool) {
	s.front.Lock()
	defer s.front.Unlock()
	found, known := s.sessions[token]
	if !known || time.Now().After(found.expiry) {
		delete(s.sessions, token)
		return "", false
	}
	found.expiry = time.Now().Add(s.options.TokenLifetime)
	s.sessions[token] = found
	return found.user, true
}

func (s *Server) closeSession(token string) {
	s.front.Lock()
	defer s.front.Unlock()
	delete(s.sessions, token)
}

// ExpireSessions makes every token invalid, as a restart of the engine does.
func (s *Server) ExpireSessions() {
	s.front.Lock()
	defer s.front.Unlock()
	s.sessions = map[string]session{}
}

// liveSessions are those that have not expired; front is held.
func (s *Server) liveSessions() int {
	now := time.Now()
	maps.DeleteFunc(s.sessions, func(_ string, one session) bool { return now.After(one.expiry) })
	return len(s.sessions)
}

// pkiResource gives the CA's certificate to those who do not trust it yet; it needs no session.
func (s *Server) pkiResource(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("resource") != "ca-certificate" {
		http.Error(w, "Resource not found", http.StatusNotFound)
		return
	}
	switch query.Get("format") {
	case "", "X509-PEM", "X509-PEM-CA":
		w.Header().Set("Content-Type", "application/x-x509-ca-cert")
		_, _ = w.Write(s.caPEM)
	default:
		http.Error(w, "Unknown format", http.StatusBadRequest)
	}
}
