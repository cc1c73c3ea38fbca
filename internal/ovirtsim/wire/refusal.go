package wire

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
)

// Refusal is an answer that reports a failure.
type Refusal struct {
	Status int
	// Reason and Detail are the contents of a fault. Without a Reason, the answer has no body.
	Reason, Detail string
	// Page is an HTML answer instead of a fault. Plain reports that the answer contains Page unchanged, without a page
	// around it.
	Page  string
	Plain bool
	// Bare reports that the fault of an action has no action around it.
	Bare bool
	// Beside is an element of the action in addition to its fault.
	Beside *Element
}

// OperationFailed is the reason of nearly all faults.
const OperationFailed = "Operation Failed"

// FaultDocument returns the body of a refusal.
func FaultDocument(reason, detail string) *Element {
	return El("fault").Str("detail", detail).Str("reason", reason)
}

// NotFound returns the refusal for a missing object in the path.
func NotFound() error { return &Refusal{Status: http.StatusNotFound} }

// EntityNotFound returns the refusal for a reference to a missing object.
func EntityNotFound(what string) error {
	return &Refusal{Status: http.StatusNotFound, Reason: OperationFailed, Detail: "Entity not found: " + what}
}

// Conflict returns the refusal for a request that violates a rule of the engine in the current state.
func Conflict(format string, args ...any) error {
	return &Refusal{
		Status: http.StatusConflict,
		Reason: OperationFailed,
		Detail: "[" + fmt.Sprintf(format, args...) + "]",
	}
}

// Invalid returns the refusal for a value that the engine rejects.
func Invalid(format string, args ...any) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: OperationFailed,
		Detail: "[" + fmt.Sprintf(format, args...) + "]",
	}
}

// PlainFault returns a fault without brackets. It stands for an exception of the engine instead of the message of a
// rule.
func PlainFault(status int, format string, args ...any) error {
	return &Refusal{Status: status, Reason: OperationFailed, Detail: fmt.Sprintf(format, args...)}
}

// InternalError returns the engine's refusal after a failure of its own code.
func InternalError() error { return Invalid("Internal Engine Error") }

// BrokenPage returns the HTML page for an unhandled exception in the engine.
func BrokenPage() error {
	return &Refusal{
		Status: http.StatusInternalServerError,
		Page:   "<html><head><title>ERROR</title></head><body>Internal Server Error</body></html>",
		Plain:  true,
	}
}

// Forbidden returns the refusal for a change beyond the user's rights.
func Forbidden() error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: OperationFailed,
		Detail: "[User is not authorized to perform this action.]",
	}
}

// NotPermitted returns the refusal for a query that only administrators may make.
func NotPermitted() error {
	return PlainFault(http.StatusBadRequest, "query execution failed due to insufficient permissions.")
}

// WithoutAction removes the action around a fault.
func WithoutAction(err error) error {
	var refused *Refusal
	if errors.As(err, &refused) {
		refused.Bare = true
	}

	return err
}

// BadUUID returns the refusal for an invalid UUID in a reference of the body.
func BadUUID(text string) error {
	return &Refusal{Status: http.StatusBadRequest, Reason: "Operation failed", Detail: "Invalid UUID string: " + text}
}

func (r *Refusal) Error() string { return cmp.Or(r.Detail, http.StatusText(r.Status)) }
