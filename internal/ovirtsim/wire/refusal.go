package wire

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
)

// Refusal is an answer that is no success.
type Refusal struct {
	Status int
	// Reason and detail make a fault. Without a reason the answer has no body.
	Reason, Detail string
	// Page is an answer in HTML instead of a fault; plain reports that it is sent as it is, without a page around it.
	Page  string
	Plain bool
	// Bare reports that the fault of an action comes without the action around it.
	Bare bool
	// Beside is an element of the action beside its fault.
	Beside *Element
}

// OperationFailed is the reason of nearly all faults.
const OperationFailed = "Operation Failed"

// FaultDocument is the body of a refusal.
func FaultDocument(reason, detail string) *Element {
	return El("fault").Str("detail", detail).Str("reason", reason)
}

// Gone is the answer for an object of the path that is not there.
func Gone() error { return &Refusal{Status: http.StatusNotFound} }

// EntityNotFound is the answer where a request refers to something that is not there.
func EntityNotFound(what string) error {
	return &Refusal{Status: http.StatusNotFound, Reason: OperationFailed, Detail: "Entity not found: " + what}
}

// Conflict is a rule of the engine that the request breaks, and that depends on the state of things.
func Conflict(format string, args ...any) error {
	return &Refusal{
		Status: http.StatusConflict,
		Reason: OperationFailed,
		Detail: "[" + fmt.Sprintf(format, args...) + "]",
	}
}

// Invalid is a value that the engine does not accept.
func Invalid(format string, args ...any) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: OperationFailed,
		Detail: "[" + fmt.Sprintf(format, args...) + "]",
	}
}

// Failed is a fault without brackets: an exception of the engine instead of a message of one of its rules.
func Failed(status int, format string, args ...any) error {
	return &Refusal{Status: status, Reason: OperationFailed, Detail: fmt.Sprintf(format, args...)}
}

// InternalError is what the engine says where its own code fails.
func InternalError() error { return Invalid("Internal Engine Error") }

// BrokenPage is the page of an exception that nothing in the engine handles.
func BrokenPage() error {
	return &Refusal{
		Status: http.StatusInternalServerError,
		Page:   "<html><head><title>ERROR</title></head><body>Internal Server Error</body></html>",
		Plain:  true,
	}
}

// Forbidden is the answer to a change that the user has no right to.
func Forbidden() error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: OperationFailed,
		Detail: "[User is not authorized to perform this action.]",
	}
}

// NotPermitted is the answer to a query that needs an administrator.
func NotPermitted() error {
	return Failed(http.StatusBadRequest, "query execution failed due to insufficient permissions.")
}

// Bare takes the action from around the fault of an action.
func Bare(err error) error {
	var refused *Refusal
	if errors.As(err, &refused) {
		refused.Bare = true
	}

	return err
}

// BadUUID is a reference in a body that is no UUID.
func BadUUID(text string) error {
	return &Refusal{Status: http.StatusBadRequest, Reason: "Operation failed", Detail: "Invalid UUID string: " + text}
}

func (r *Refusal) Error() string { return cmp.Or(r.Detail, http.StatusText(r.Status)) }
