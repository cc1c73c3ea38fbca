package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// sessionIdle is how long an unused session lives. A change of credentials leaves an unused session behind.
const sessionIdle = 30 * time.Minute

// sessionGrace keeps a dropped session open for Terraform runs that still use it. If the credentials were replaced,
// such a run could not log in again, and its attempt would count as a guess.
const sessionGrace = time.Minute

// Sessions shares one Client among all users of the same engine and credentials. So the engine sees one login for any
// number of machines and Terraform runs. The zero value is ready to use.
type Sessions struct {
	// Refusals stores the number of refused passwords. If it is nil, the count ends with the process.
	Refusals RefusalStore
	// MayAct is the clients' MayAct, called before each changing request; see Config.
	MayAct func(ctx context.Context) error

	mu      sync.Mutex
	logins  *loginLimiter // shared by all clients
	clients map[string]*session
	// ending holds the dropped sessions until they end.
	ending map[*Client]*time.Timer
}

type session struct {
	client *Client
	used   time.Time
}

// Get returns the client for the configuration without sending a request. Different credentials get different clients.
func (s *Sessions) Get(cfg Config) (*Client, error) {
	base, err := ParseBaseURL(cfg.URL)
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
		s.dropLocked(key)
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
			s.dropLocked(other)
		}
	}

	if s.clients == nil {
		s.clients = map[string]*session{}
	}

	s.clients[key] = &session{client: client, used: now}

	return client, nil
}

// Drop gives up a client that is no longer needed. Its session ends a minute later.
func (s *Sessions) Drop(client *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for key, open := range s.clients {
		if open.client == client {
			s.dropLocked(key)
		}
	}
}

// HasClient reports whether Get can return this client.
func (s *Sessions) HasClient(client *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, open := range s.clients {
		if open.client == client {
			return true
		}
	}

	return false
}

// dropLocked gives up the client with this key. The caller holds mu.
func (s *Sessions) dropLocked(key string) {
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
