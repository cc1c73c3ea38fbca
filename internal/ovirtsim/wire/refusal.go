package wire

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
)

// Refusal is an unsuccessful answer.
type Refusal struct {
	Status int
	// Reason and detail make a fault. Without a reason the answer has no body.
	Reason, Detail string
	// Page is an answer in HTML instead of a fault. Plain reports that it is sent unchanged, without a page around it.
	Page  string
	Plain bool
	// Bare reports that the fault of an action comes without the surrounding action.
	Bare bool
	// Beside is an element of the action next to its fault.
	Beside *Element
}

// OperationFailed is the reason of nearly all faults.
const OperationFailed = "Operation Failed"

// FaultDocument is the body of a refusal.
func FaultDocument(reason, detail string) *Element {
	return El("fault").Str("detail", detail).Str("reason", reason)
}

// NotFound is the answer for a missing object in the path.
func NotFound() error { return &Refusal{Status: http.StatusNotFound} }

// EntityNotFound is the answer for a reference to a missing object.
func EntityNotFound(what string) error {
	return &Refusal{Status: http.StatusNotFound, Reason: OperationFailed, Detail: "Entity not found: " + what}
}

// Conflict is the answer for a violated rule of the engine, depending on the current state.
func Conflict(format string, args ...any) error {
	return &Refusal{
		Status: http.StatusConflict,
		Reason: OperationFailed,
		Detail: "[" + fmt.Sprintf(format, args...) + "]",
	}
}

// Invalid is the answer for a value rejected by the engine.
func Invalid(format string, args ...any) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: OperationFailed,
		Detail: "[" + fmt.Sprintf(format, args...) + "]",
	}
}

// PlainFault is a fault without brackets: an exception of the engine instead of a message of one of its rules.
func PlainFault(status int, format string, args ...any) error {
	return &Refusal{Status: status, Reason: OperationFailed, Detail: fmt.Sprintf(format, args...)}
}

// InternalError is the engine's answer after a failure of its own code.
func InternalError() error { return Invalid("Internal Engine Error") }

// BrokenPage is the page for an unhandled exception in the engine.
func BrokenPage() error {
	return &Refusal{
		Status: http.StatusInternalServerError,
		Page:   "<html><head><title>ERROR</title></head><body>Internal Server Error</body></html>",
		Plain:  true,
	}
}

// Forbidden is the answer to a change beyond the user's rights.
func Forbidden() error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: OperationFailed,
		Detail: "[User is not authorized to perform this action.]",
	}
}

// NotPermitted is the answer to a query reserved for administrators.
func NotPermitted() error {
	return PlainFault(http.StatusBadRequest, "query execution failed due to insufficient permissions.")
}

// WithoutAction removes the action around the fault of an action.
func WithoutAction(err error) error {
	var refused *Refusal
	if errors.As(err, &refused) {
		refused.Bare = true
	}

	return err
}

// BadUUID is the answer for an invalid UUID in a body's reference.
func BadUUID(text string) error {
	return &Refusal{Status: http.StatusBadRequest, Reason: "Operation failed", Detail: "Invalid UUID string: " + text}
}

func (r *Refusal) Error() string { return cmp.Or(r.Detail, http.StatusText(r.Status)) }
