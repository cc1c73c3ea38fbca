package ovirtsim

import (
	"encoding/json"
	"maps"
	"net/http"
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
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.store.userNamed(name)
	switch {
	case found == nil:
		refuse(http.StatusUnauthorized, "access_denied", "Cannot authenticate user '"+name+"'. The username or password is incorrect.")
		return
	case found.Locked:
		refuse(http.StatusUnauthorized, "access_denied", "Cannot authenticate user '"+name+"' because the account is disabled or locked. Please contact the system administrator.")
		return
	case found.Password != r.PostForm.Get("password"):
		found.Failures++
		found.Locked = found.Failures >= maxFailures
		s.store.users.put(found.ID, found)
		refuse(http.StatusUnauthorized, "access_denied", "Cannot authenticate user '"+name+"'. The username or password is incorrect.")
		s.event(30, "warning", "User "+name+" failed to log in.", eventOf{})
		return
	}
	if found.Failures > 0 {
		found.Failures = 0
		s.store.users.put(found.ID, found)
	}
	token, expiry := randomHex(32), time.Now().Add(s.options.TokenLifetime)
	s.front.Lock()
	s.sessions[token] = session{user: name, expiry: expiry}
	s.logins++
	s.front.Unlock()
	answerJSON(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "bearer", "scope": "ovirt-app-api", "exp": expiry.UnixMilli()})
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
	s.front.Lock()
	delete(s.sessions, r.Form.Get("token"))
	s.front.Unlock()
	answerJSON(w, http.StatusOK, struct{}{})
}

// authenticate returns the user of a request's session, and prolongs it: the engine counts from the last use.
func (s *Server) authenticate(r *http.Request) (string, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", false
	}
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
