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

// Fault is a refusal by the engine.
type Fault struct {
	// Method and Path of the request.
	Method, Path string
	// StatusCode is the HTTP status code.
	StatusCode int
	// Reason and Detail are the engine's words; Detail names the rule that was broken.
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

// IsNotAnAdministrator reports whether the engine refused a user that has no administrator role, and so must not see
// everything.
func IsNotAnAdministrator(err error) bool {
	var fault *Fault
	return errors.As(err, &fault) && fault.StatusCode == http.StatusBadRequest &&
		strings.Contains(fault.Detail, notAnAdministrator)
}

// notAnAdministrator is in what an engine says to a user that has no administrator role and asks for everything.
const notAnAdministrator = "query execution failed due to insufficient permissions"

// AuthError reports that the engine does not accept the credentials.
type AuthError struct {
	// Username that was refused.
	Username string
	// Message of the engine.
	Message string
	// RetryAt is when the client will try these credentials again; earlier calls fail without a request,
	// so that a wrong password does not lock the account out.
	RetryAt time.Time
}

// Closed reports whether the engine refuses the user whatever the password is: it is locked, disabled or expired.
func (e *AuthError) Closed() bool {
	return slices.ContainsFunc(closedUsers, func(words string) bool { return strings.Contains(e.Message, words) })
}

// NoProfile reports whether the engine knows no profile of that name, which is what follows the last @ of a user name.
// The password was not looked at.
func (e *AuthError) NoProfile() bool { return strings.Contains(e.Message, noValidProfile) }

func (e *AuthError) Error() string {
	return fmt.Sprintf("engine refuses user %q: %s", e.Username, e.Message)
}

// UnreachableError reports that no usable answer came: no connection, a time-out, or an answer that is not the
// engine's.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return fmt.Sprintf("engine cannot be reached: %v", e.Err) }

func (e *UnreachableError) Unwrap() error { return e.Err }

// CancelledError reports that a request was given up because its caller no longer wants the answer: a person pressed
// Ctrl-C, or the process ends. It says nothing of the engine, which may have done what it was asked.
type CancelledError struct{ Err error }

func (e *CancelledError) Error() string { return "the request to the engine was cancelled" }

func (e *CancelledError) Unwrap() error { return e.Err }

// Is makes it a context.Canceled, whatever the cause of the cancellation is called.
func (e *CancelledError) Is(target error) bool { return target == context.Canceled }

// IsCancelled reports whether err is a request that was given up, and says nothing of the engine.
func IsCancelled(err error) bool {
	var cancelled *CancelledError

	return errors.As(err, &cancelled)
}

// NameError reports that no object has the name that was asked for.
type NameError struct {
	// Kind of object, such as "template".
	Kind string
	// Name that was looked up.
	Name string
	// Scope in which it was looked up, such as `data center "Default"`.
	Scope string
	// Known holds the names that exist there, sorted.
	Known []string
}

func (e *NameError) Error() string {
	known := e.Known
	more := ""
	const shown = 12
	if len(known) > shown {
		known, more = nearest(e.Name, known)[:shown], fmt.Sprintf(" and %d more", len(e.Known)-shown)
	}

	list := "it has none"
	if len(known) > 0 {
		var names []string
		for _, name := range known {
			names = append(names, abridged(name))
		}

		list = "it has " + strings.Join(names, ", ") + more
	}

	return fmt.Sprintf("%s has no %s named %q (%s)", e.Scope, e.Kind, e.Name, list)
}

// nearest sorts names by how near they are to one. An engine may have many, and long ones: of each the beginning
// counts, and too many stay in their order.
func nearest(name string, known []string) []string {
	const most = 2000
	if len(known) > most {
		return known
	}

	distances := make(map[string]int, len(known))
	for _, other := range known {
		distances[other] = levenshtein.Distance(abridged(name), abridged(other), nil)
	}

	return slices.SortedStableFunc(slices.Values(known), func(a, b string) int {
		return cmp.Compare(distances[a], distances[b])
	})
}

// IsNotFound reports whether err is the engine's 404.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsConflict reports whether err is the engine's 409.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsRefused reports whether err is the engine's 400 or 409: a rule of the engine, or the state of things, is against
// the request.
func IsRefused(err error) bool { return hasStatus(err, http.StatusBadRequest) || IsConflict(err) }

// hasStatus reports whether the engine answered with a status. An UnreachableError may have the answer of something
// else in it, which says nothing of the engine.
func hasStatus(err error, code int) bool {
	var (
		fault       *Fault
		unreachable *UnreachableError
	)

	return errors.As(err, &fault) && fault.StatusCode == code && !errors.As(err, &unreachable)
}

// IsTransient reports whether the same call may succeed later without any change to it: the engine could not be
// reached, had an error of its own, or an object was locked by another operation; or the request was cancelled.
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
		return !fault.neverBegan()
	}

	detail := strings.ToLower(fault.Detail)

	return fault.StatusCode == http.StatusConflict &&
		slices.ContainsFunc(passingConflicts, func(text string) bool { return strings.Contains(detail, text) })
}

// passingConflicts are the engine's words, in lower case, for conflicts that end by themselves: something else is at
// the object, or what depended on it is still being removed.
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

// lastingConflicts are the engine's words, in lower case, for conflicts that stay until a person acts.
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

// mayPass reports whether an engine refused for a reason that is not known, so that it is worth to try again for a
// while.
func mayPass(err error) bool {
	var fault *Fault
	if !errors.As(err, &fault) || fault.StatusCode != http.StatusConflict {
		return false
	}

	detail := strings.ToLower(fault.Detail)

	return !slices.ContainsFunc(lastingConflicts, func(text string) bool { return strings.Contains(detail, text) })
}

// AnswerLost reports whether the engine may have done what it was asked although err came back: there was no answer, or
// one from which nothing can be learned.
func AnswerLost(err error) bool {
	var unreachable *UnreachableError
	var fault *Fault

	return errors.As(err, &unreachable) || IsCancelled(err) ||
		errors.As(err, &fault) && fault.StatusCode >= 500 && !fault.neverBegan()
}

// neverBegan reports that a command was refused before it did anything, with the status of an error all the same: it
// refers to something that is not there.
func (f *Fault) neverBegan() bool {
	return strings.Contains(f.Detail, "General command validation failure")
}
