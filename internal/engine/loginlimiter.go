package engine

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// maxRefusals limits the refused passwords of a user in a row. An engine's internal domain locks a user after five,
	// and directories after about as many. One attempt remains for the user.
	maxRefusals = 4
	// maxRetries is the part of maxRefusals for retries of refused credentials. The last attempt is reserved for
	// corrected credentials.
	maxRetries = maxRefusals - 1
	// refusalLifetime is the time until one refusal is forgotten.
	refusalLifetime = 6 * time.Hour
	// maxUsers limits the number of remembered users. Their records must fit into a Secret.
	maxUsers = 2000
	// maxAddresses limits how many addresses of an engine count as its names.
	maxAddresses = 8
	// lookupLimit limits the look-up of an engine's addresses.
	lookupLimit = 2 * time.Second
)

// RefusalStore stores the number of refused passwords per user, so the counts outlive the process.
type RefusalStore interface {
	// Load returns the last saved content, or nil.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the content.
	Save(ctx context.Context, content []byte) error
}

// loginLimiter limits how many wrong passwords of one user reach the engine, across all tenants. Several tenants may
// use the same user, and each of them could lock it for the others. A password accepted before never waits because of
// others' refusals.
type loginLimiter struct {
	store RefusalStore // nil stores nothing

	// stored guards the store. It is taken before mu.
	stored sync.Mutex
	loaded bool

	mu    sync.Mutex
	users map[string]userRecord
	// key is the key of the password digests in the records.
	key []byte
}

// userRecord is the record of a user of an engine.
type userRecord struct {
	// Count is the number of refused passwords at the time At. It decreases with time.
	Count float64   `json:"count,omitempty"`
	At    time.Time `json:"at"`
	// Accepted is the bcrypt hash of the last accepted password, or empty without a store. Without the hash, a
	// restarted manager could not distinguish the right password from a guess.
	Accepted string `json:"accepted,omitempty"`
	// digest identifies the same password within this process.
	digest string
}

// decayTo returns the record with the refusals that remain at a time.
func (r userRecord) decayTo(now time.Time) userRecord {
	passed := max(now.Sub(r.At), 0)
	r.Count, r.At = max(r.Count-passed.Hours()/refusalLifetime.Hours(), 0), now

	return r
}

// userKeys returns the keys of a user of an engine: one for the engine's name in the URL, and one for each of its
// addresses. So another name of the same engine does not get a count of its own. Engines ignore case in user names.
func userKeys(ctx context.Context, base *url.URL, username string) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()

	keys := []string{userKey(base, base.Hostname(), username)}

	// Without an answer, only the name counts.
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", base.Hostname())
	for _, address := range addresses[:min(len(addresses), maxAddresses)] {
		keys = append(keys, userKey(base, address.Unmap().String(), username))
	}

	slices.Sort(keys)

	return slices.Compact(keys)
}

// reachedKeys returns the keys of a user after a successful login: for the engine's name, and for the address of the
// connection. It omits other addresses, because the owner of the name could make it resolve to other engines.
func reachedKeys(base *url.URL, remote, username string) []string {
	keys := []string{userKey(base, base.Hostname(), username)}
	if host, port, err := net.SplitHostPort(remote); err == nil && port == getPort(base) {
		keys = append(keys, userKey(base, host, username))
	}

	slices.Sort(keys)

	return slices.Compact(keys)
}

// userKey returns the key of a user of an engine for one of the engine's names.
func userKey(base *url.URL, name, username string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	digest := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", name, getPort(base), strings.ToLower(username)))

	return hex.EncodeToString(digest[:16])
}

func getPort(base *url.URL) string { return cmp.Or(base.Port(), "443") }

// reserveLogin counts a login as one refusal of the user, up to limit. Beyond the limit, ok is false, and retryAt is
// the earliest time for the next login. A pending login counts as refused, so that concurrent logins cannot exceed the
// limit.
func (l *loginLimiter) reserveLogin(
	ctx context.Context, user []string, limit float64, now time.Time,
) (retryAt time.Time, ok bool) {
	l.loadRecords(ctx)

	l.mu.Lock()
	defer l.mu.Unlock()

	var used float64
	for _, key := range user {
		used = max(used, l.users[key].decayTo(now).Count)
	}

	if over := used + 1 - limit; over > 0 {
		return now.Add(time.Duration(over * float64(refusalLifetime))), false
	}

	l.addRefusals(user, 1, now)

	return time.Time{}, true
}

// addRefusals changes the refusals of a user by count. The caller holds mu.
func (l *loginLimiter) addRefusals(user []string, count float64, now time.Time) {
	if l.users == nil {
		l.users = map[string]userRecord{}
	}

	for _, key := range user {
		record := l.users[key].decayTo(now)
		record.Count = min(max(record.Count+count, 0), maxRefusals)
		l.users[key] = record
	}
}

// releaseLogin undoes reserveLogin.
func (l *loginLimiter) releaseLogin(user []string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.addRefusals(user, -1, now)
}

// recordRefusal stores a refusal. counted reports whether reserveLogin has already counted it.
func (l *loginLimiter) recordRefusal(ctx context.Context, user []string, password string, counted bool, now time.Time) {
	wasAccepted := l.isAccepted(ctx, user, password)

	l.mu.Lock()

	if !counted {
		l.addRefusals(user, 1, now)
	}

	for _, key := range user {
		if record := l.users[key]; wasAccepted {
			record.Accepted, record.digest = "", ""
			l.users[key] = record
		}
	}

	l.mu.Unlock()
	l.saveRecords(ctx, now)
}

// recordSuccess resets the refusals of a user, like the engine after a login, and remembers the password.
func (l *loginLimiter) recordSuccess(ctx context.Context, user []string, password string, now time.Time) {
	hash := l.hashToStore(ctx, user, password)

	l.mu.Lock()

	if l.users == nil {
		l.users = map[string]userRecord{}
	}

	digest, changed := l.hashPassword(password), false

	for _, key := range user {
		record := l.users[key]
		changed = changed || record.Count > 0 || hash != record.Accepted
		l.users[key] = userRecord{At: now, Accepted: hash, digest: digest}
	}

	l.mu.Unlock()

	if changed {
		l.saveRecords(ctx, now)
	}
}

// hashToStore returns the hash of a password for the store. It reuses the stored hash of the same password.
func (l *loginLimiter) hashToStore(ctx context.Context, user []string, password string) string {
	if l.store == nil {
		return ""
	}

	if l.isAccepted(ctx, user, password) {
		for _, record := range l.getRecords(user) {
			if record.Accepted != "" {
				return record.Accepted
			}
		}
	}

	hash, err := bcrypt.GenerateFromPassword(shortenPassword(password), bcrypt.DefaultCost)
	if err != nil {
		return "" // after a restart, a password without a hash counts as a guess
	}

	return string(hash)
}

// isAccepted reports whether a password is the user's last accepted one.
func (l *loginLimiter) isAccepted(ctx context.Context, user []string, password string) bool {
	l.loadRecords(ctx)

	l.mu.Lock()
	digest := l.hashPassword(password)
	l.mu.Unlock()

	return slices.ContainsFunc(l.getRecords(user), func(record userRecord) bool {
		if record.digest != "" {
			return record.digest == digest
		}

		return record.Accepted != "" &&
			bcrypt.CompareHashAndPassword([]byte(record.Accepted), shortenPassword(password)) == nil
	})
}

// getRecords returns the records of a user.
func (l *loginLimiter) getRecords(user []string) []userRecord {
	l.mu.Lock()
	defer l.mu.Unlock()

	var out []userRecord
	for _, key := range user {
		out = append(out, l.users[key])
	}

	return out
}

// hashPassword returns a digest of a password that is valid in this process. The caller holds mu.
func (l *loginLimiter) hashPassword(password string) string {
	if l.key == nil {
		l.key = make([]byte, sha256.Size)
		_, _ = rand.Read(l.key) // never fails
	}

	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(password))

	return string(mac.Sum(nil))
}

// shortenPassword shortens a password to the 72 bytes that bcrypt accepts.
func shortenPassword(password string) []byte {
	digest := sha256.Sum256([]byte(password))

	return []byte(base64.StdEncoding.EncodeToString(digest[:]))
}

// loadRecords reads the records of earlier processes. If it fails, the next login tries again.
func (l *loginLimiter) loadRecords(ctx context.Context) {
	if l.store == nil {
		return
	}

	l.stored.Lock()
	defer l.stored.Unlock()

	l.loadLocked(ctx)
}

// loadLocked is loadRecords for a caller that holds stored. It reports whether the store has been read.
func (l *loginLimiter) loadLocked(ctx context.Context) bool {
	if l.loaded {
		return true
	}

	content, err := l.store.Load(ctx)
	if err != nil {
		return false
	}

	known := map[string]userRecord{}
	_ = json.Unmarshal(content, &known) // ignore invalid content, such as a manual edit

	l.mu.Lock()
	defer l.mu.Unlock()

	if l.users == nil {
		l.users = map[string]userRecord{}
	}

	for key, earlier := range known {
		record, current := l.users[key]
		if !current {
			record.Accepted = earlier.Accepted
		}

		if earlier.Count = min(max(earlier.Count, 0), maxRefusals); record.Count < earlier.Count {
			record.Count, record.At = earlier.Count, earlier.At
		}

		l.users[key] = record
	}

	l.loaded = true

	return true
}

// saveRecords stores the records. It never replaces the records of an earlier process before it has read them. If it
// fails, the next refusal tries again.
func (l *loginLimiter) saveRecords(ctx context.Context, now time.Time) {
	l.pruneRecords(now)

	if l.store == nil {
		return
	}

	l.stored.Lock()
	defer l.stored.Unlock()

	if !l.loadLocked(ctx) {
		return
	}

	l.mu.Lock()
	content, err := json.Marshal(l.users)
	l.mu.Unlock()

	if err == nil {
		_ = l.store.Save(ctx, content)
	}
}

// pruneRecords removes empty records, and the least important ones if there are too many. The limit is necessary
// because anyone with write access to Secrets can invent users.
func (l *loginLimiter) pruneRecords(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	maps.DeleteFunc(l.users, func(_ string, record userRecord) bool {
		return record.decayTo(now).Count == 0 && record.Accepted == "" && record.digest == ""
	})

	if len(l.users) <= maxUsers {
		return
	}

	byWeight := slices.SortedFunc(maps.Keys(l.users), func(a, b string) int {
		return cmp.Compare(l.users[a].getWeight(now), l.users[b].getWeight(now))
	})
	for _, key := range byWeight[:len(byWeight)-maxUsers] {
		delete(l.users, key)
	}
}

// getWeight returns the importance of a record. A user with a successful login certainly exists, but others may be
// invented.
func (r userRecord) getWeight(now time.Time) float64 {
	weight := r.decayTo(now).Count
	if r.Accepted != "" || r.digest != "" {
		weight += maxRefusals
	}

	return weight
}

// tooManyRefusals returns the message for a login refused without a request to the engine.
func tooManyRefusals(username string) string {
	return fmt.Sprintf(
		"the engine refused several passwords of user %s, in this namespace or in others, and one more could lock the "+
			"user; the manager waits before the next login with new credentials. Correct each Secret that names this "+
			"user",
		username,
	)
}
