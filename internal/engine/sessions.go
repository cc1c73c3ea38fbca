package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// sessionIdle is how long a session that is not used is kept: rotated credentials leave one behind.
const sessionIdle = 30 * time.Minute

// sessionGrace is how long a session that was let go stays open: a run that is under way ends with it. It could not log
// in again, where the credentials were replaced, and would be counted as a guess.
const sessionGrace = time.Minute

// Sessions shares one Client among all who use the same engine with the same credentials, so that an engine sees one
// login, however many machines and Terraform runs there are. The zero value is ready to use.
type Sessions struct {
	// Refusals stores how many passwords were refused; nil forgets that with the process.
	Refusals RefusalStore
	// MayAct is that of the clients: it is asked before each request that changes something; see Config.
	MayAct func(ctx context.Context) error

	mu      sync.Mutex
	logins  *loginLimiter // of all clients
	clients map[string]*session
	// ending are those that were let go, until they are ended.
	ending map[*Client]*time.Timer
}

type session struct {
	client *Client
	used   time.Time
}

// Get returns the client for the configuration; it sends nothing. Other credentials make another client.
func (s *Sessions) Get(cfg Config) (*Client, error) {
	base, err := BaseURL(cfg.URL)
	if err != nil {
		return nil, err
	}

	cfg.Username, cfg.Password = CleanLogin(cfg.Username, cfg.Password)
	key := fmt.Sprintf(
		"%x",
		sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %t %t %q", base, cfg.Username, cfg.Password, cfg.CA, cfg.Insecure,
			cfg.Filtered, cfg.Headers)),
	)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if found, ok := s.clients[key]; ok && !found.client.isChanged() {
		found.used = now
		return found.client, nil
	} else if ok {
		s.drop(key)
	}

	if cfg.MayAct == nil {
		cfg.MayAct = s.MayAct
	}

	client, err := New(cfg)
	if err != nil {
		return nil, err
	}

	if s.logins == nil {
		s.logins = &loginLimiter{store: s.Refusals}
	}

	client.logins = s.logins

	for other, idle := range s.clients {
		if now.Sub(idle.used) > sessionIdle {
			s.drop(other)
		}
	}

	if s.clients == nil {
		s.clients = map[string]*session{}
	}

	s.clients[key] = &session{client: client, used: now}

	return client, nil
}

// Drop gives up the session of a client that is not needed any more: it is ended a minute later.
func (s *Sessions) Drop(client *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for key, open := range s.clients {
		if open.client == client {
			s.drop(key)
		}
	}
}

// Has reports whether a client is one that Get would return.
func (s *Sessions) Has(client *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, open := range s.clients {
		if open.client == client {
			return true
		}
	}

	return false
}

// drop lets go of a session; mu is held.
func (s *Sessions) drop(key string) {
	client := s.clients[key].client
	delete(s.clients, key)
	if s.ending == nil {
		s.ending = map[*Client]*time.Timer{}
	}

	s.ending[client] = time.AfterFunc(sessionGrace, func() {
		s.mu.Lock()
		delete(s.ending, client)
		s.mu.Unlock()
		_ = client.Logout(context.Background())
	})
}

// Close ends all sessions on their engines.
func (s *Sessions) Close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for key, open := range s.clients {
		_ = open.client.Logout(ctx)
		delete(s.clients, key)
	}

	for client, timer := range s.ending {
		timer.Stop()
		_ = client.Logout(ctx)
		delete(s.ending, client)
	}
}
