// Package attempt repeats requests to an API server.
package attempt

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// OnError calls fn until it succeeds, or until it fails with an error that is not retriable. It returns the last error.
// retry.OnError of client-go returns nil if fn fails because its context has ended, as if fn had succeeded.
func OnError(backoff wait.Backoff, retriable func(error) bool, fn func() error) error {
	var last error

	_ = retry.OnError(backoff, retriable, func() error {
		last = fn()
		return last
	})

	return last
}

// OnConflict calls fn, and repeats it after conflicts.
func OnConflict(fn func() error) error {
	return OnError(retry.DefaultBackoff, apierrors.IsConflict, fn)
}

// DefaultBackoff is the usual pause between attempts while several clients write the same object.
var DefaultBackoff = retry.DefaultBackoff
