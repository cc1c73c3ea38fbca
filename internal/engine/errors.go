package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"
)

// Fault is an error answer of the engine.
type Fault struct {
	// Method and Path of the request.
	Method, Path string
	// StatusCode is the HTTP status code.
	StatusCode int
	// Reason and Detail are the engine's messages. Detail names the violated rule.
	Reason, Detail string
}

func (f *Fault) Error() string {
	text := strings.TrimSpace(f.Reason + ": " + f.Detail)
	text = strings.Trim(text, ": ")
	if text == "" {
		text = http.StatusText(f.StatusCode)
	}

	return fmt.Sprintf("engine refused %s %s (HTTP %d): %s", f.Method, f.Path, f.StatusCode, text)
}

// IsNotAnAdministrator reports whether the engine refused a user for lack of an administrator role. Such a user may not
// see all objects.
func IsNotAnAdministrator(err error) bool {
	var fault *Fault
	return errors.As(err, &fault) && fault.StatusCode == http.StatusBadRequest &&
		strings.Contains(fault.Detail, notAnAdministrator)
}

// notAnAdministrator is part of the engine's message if a user without an administrator role requests unfiltered
// objects.
const notAnAdministrator = "query execution failed due to insufficient permissions"

// AuthError reports that the engine does not accept the credentials.
type AuthError struct {
	// Username of the refused user.
	Username string
	// Message of the engine.
	Message string
	// RetryAt is the time of the client's next attempt with these credentials. Earlier calls fail without a request, so
	// repeated attempts with a wrong password do not lock the account.
	RetryAt time.Time
}

// IsClosed reports whether the engine refuses the user regardless of the password, because it is locked, disabled or
// expired.
func (e *AuthError) IsClosed() bool {
	return slices.ContainsFunc(closedUsers, func(words string) bool { return strings.Contains(e.Message, words) })
}

// HasUnknownProfile reports whether the engine knows no profile with the name after the last @ of the user name. In
// this case, the engine has not checked the password.
func (e *AuthError) HasUnknownProfile() bool { return strings.Contains(e.Message, noValidProfile) }

func (e *AuthError) Error() string {
	return fmt.Sprintf("engine refuses user %q: %s", e.Username, e.Message)
}

// UnreachableError reports that the client got no usable answer: no connection, a timeout, or an answer from another
// server.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return fmt.Sprintf("engine cannot be reached: %v", e.Err) }

func (e *UnreachableError) Unwrap() error { return e.Err }

// CancelledError reports a request canceled by its caller, for example because a user pressed Ctrl-C or the process
// ends. It says nothing about the state of the engine, because the engine may have processed the request.
type CancelledError struct{ Err error }

func (e *CancelledError) Error() string { return "the request to the engine was cancelled" }

func (e *CancelledError) Unwrap() error { return e.Err }

// Is makes the error match context.Canceled, regardless of the cause of the cancellation.
func (e *CancelledError) Is(target error) bool { return target == context.Canceled }

// IsCancelled reports whether err is a canceled request. Such an error says nothing about the engine.
func IsCancelled(err error) bool {
	var cancelled *CancelledError

	return errors.As(err, &cancelled)
}

// NameError reports that no object has the wanted name.
type NameError struct {
	// Kind of object, such as "template".
	Kind string
	// Name is the wanted name.
	Name string
	// Scope of the look-up, such as `data center "Default"`.
	Scope string
	// Known holds the sorted names in the scope.
	Known []string
}

func (e *NameError) Error() string {
	known := e.Known
	more := ""
	const shown = 12
	if len(known) > shown {
		known, more = sortBySimilarity(e.Name, known)[:shown], fmt.Sprintf(" and %d more", len(e.Known)-shown)
	}

	list := "it has none"
	if len(known) > 0 {
		var names []string
		for _, name := range known {
			names = append(names, abridgeText(name))
		}

		list = "it has " + strings.Join(names, ", ") + more
	}

	return fmt.Sprintf("%s has no %s named %q (%s)", e.Scope, e.Kind, e.Name, list)
}

// sortBySimilarity sorts names by similarity to a name. It compares only the beginnings of long names, and does not
// sort a very long list.
func sortBySimilarity(name string, known []string) []string {
	const most = 2000
	if len(known) > most {
		return known
	}

	distances := make(map[string]int, len(known))
	for _, other := range known {
		distances[other] = levenshtein.Distance(abridgeText(name), abridgeText(other), nil)
	}

	return slices.SortedStableFunc(slices.Values(known), func(a, b string) int {
		return cmp.Compare(distances[a], distances[b])
	})
}

// IsNotFound reports whether err is the engine's 404.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsConflict reports whether err is the engine's 409.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsRefused reports whether err is the engine's 400 or 409. Such a request violates a rule of the engine, or does not
// fit the state of an object.
func IsRefused(err error) bool { return hasStatus(err, http.StatusBadRequest) || IsConflict(err) }

// hasStatus reports whether the engine answered with this status. It ignores a status inside an UnreachableError,
// because that answer may come from another server.
func hasStatus(err error, code int) bool {
	var (
		fault       *Fault
		unreachable *UnreachableError
	)

	return errors.As(err, &fault) && fault.StatusCode == code && !errors.As(err, &unreachable)
}

// IsTransient reports whether the same call may succeed later without a change. The engine was unreachable or had an
// internal error, another operation had locked an object, or the request was canceled.
func IsTransient(err error) bool {
	var unreachable *UnreachableError
	if errors.As(err, &unreachable) || IsCancelled(err) {
		return true
	}

	var fault *Fault
	if !errors.As(err, &fault) {
		return false
	}

	if fault.StatusCode >= 500 || fault.StatusCode == http.StatusTooManyRequests {
		return !fault.hasNotBegun()
	}

	detail := strings.ToLower(fault.Detail)

	return fault.StatusCode == http.StatusConflict &&
		slices.ContainsFunc(passingConflicts, func(text string) bool { return strings.Contains(detail, text) })
}

// passingConflicts are lower-case parts of the engine's messages for conflicts that end without a user's action. For
// example, another operation uses the object, or the engine still removes its dependents.
var passingConflicts = []string{
	"is locked",
	"are locked",
	"in progress",
	"please try again later",
	"try again in a few minutes",
	"is being created",
	"is being updated",
	"is being transferred",
	"is being removed",
	"is being migrated",
	"is being cloned",
	"is being exported",
	"is being moved or copied",
	"is hibernating",
	"is performing an operation on a snapshot",
	"currently in use to create vm",
	"are based on it",
	"because the vm is in wait for launch",
	"because the vm is in powering up",
	"because the vm is in image locked",
	"because the vm is in reboot in progress",
	"because the vm is in powering down",
	"because the vm is in migrating",
	"because the vm is in saving state",
	"because the vm is in restoring state",
	"unknown data center status",
}

// lastingConflicts are lower-case parts of the engine's messages for conflicts that end only if a user acts.
var lastingConflicts = []string{
	"already in use",
	"already exists",
	"already attached",
	"already marked",
	"already assigned",
	"already has",
	"already tagged",
	"no host that satisfies",
	"delete protection",
	"cannot exceed",
	"at least one",
	"not supported",
	"is not in the",
	"same data center",
	"low disk space",
	"option is set to",
	"is running",
	"plugged to a running vm",
	"currently in use",
	"is not shareable",
	"is based from template",
	"can be moved only",
	"doesn't match",
	"doesn't exist",
	"in order to detach",
}

// isWorthRetrying reports whether the engine refused the request for an unknown reason. The caller retries such a
// request for a while.
func isWorthRetrying(err error) bool {
	var fault *Fault
	if !errors.As(err, &fault) || fault.StatusCode != http.StatusConflict {
		return false
	}

	detail := strings.ToLower(fault.Detail)

	return !slices.ContainsFunc(lastingConflicts, func(text string) bool { return strings.Contains(detail, text) })
}

// IsAnswerLost reports whether the engine may have processed the request in spite of err, because the client got no
// conclusive answer.
func IsAnswerLost(err error) bool {
	var unreachable *UnreachableError
	var fault *Fault

	return errors.As(err, &unreachable) || IsCancelled(err) ||
		errors.As(err, &fault) && fault.StatusCode >= 500 && !fault.hasNotBegun()
}

// hasNotBegun reports whether the engine refused a command before it had any effect, although the status is 5xx. Such a
// command refers to a missing object.
func (f *Fault) hasNotBegun() bool {
	return strings.Contains(f.Detail, "General command validation failure")
}
