package engine

import (
	"context"
	"errors"
	"time"
)

// lostWait is how long the engine may take to finish a create after its answer was lost.
const lostWait = 10 * time.Second

// CreateOnce creates an object and returns it. It retries while the engine refuses because an object is locked. If the
// answer is lost, it calls find for lostWait to look for the object. find returns nil if the object does not exist.
// CreateOnce never repeats a request that may have had an effect. An interrupt stops neither function, because no state
// would then record the object. Both functions have their own timeouts.
func CreateOnce[T any](
	ctx context.Context, what string, report func(seen string), create, find func(context.Context) (*T, error),
) (*T, error) {
	var made *T
	asked := time.Now()
	err := Wait(ctx, what+" to be created", func(ctx context.Context) (bool, string, error) {
		ctx = context.WithoutCancel(ctx)
		var err error
		if made, err = create(ctx); err == nil {
			return true, "", nil
		}

		if !IsAnswerLost(err) {
			return false, "", err
		}

		deadline, cancel := context.WithTimeout(ctx, lostWait)
		defer cancel()
		_ = Wait(deadline, what, func(ctx context.Context) (bool, string, error) {
			var findErr error
			made, findErr = find(ctx)
			return made != nil, "", findErr
		}, nil)
		if made != nil {
			return true, "", nil
		}

		return false, "", &UnansweredError{Err: err, Asked: asked, GaveUp: time.Now()}
	}, report)

	return made, err
}

// CreateUnique creates an object unique in the engine, such as a disk in a VM. Unlike CreateOnce, it
// repeats a request without an answer if a look does not find the object: the engine refuses a second one. Any error
// after a lost answer is an UnansweredError.
func CreateUnique[T any](
	ctx context.Context, what string, report func(seen string), create, find func(context.Context) (*T, error),
) (*T, error) {
	var made *T
	asked, lost := time.Now(), false
	err := Wait(ctx, what+" to be created", func(ctx context.Context) (bool, string, error) {
		ctx = context.WithoutCancel(ctx)
		var err error
		if made, err = create(ctx); err == nil {
			return true, "", nil
		}

		if lost = lost || IsAnswerLost(err); !lost {
			return false, "", err
		}

		found, findErr := find(ctx)
		if findErr != nil {
			return false, "", findErr
		}

		if made = found; made != nil {
			return true, "", nil
		}

		return false, "", err
	}, report)
	if err == nil {
		return made, nil
	}

	if lost {
		err = &UnansweredError{Err: err, Asked: asked, GaveUp: time.Now()}
	}

	return nil, err
}

// UnansweredError reports that the engine may have made an object, or may yet make it, although no answer came and the
// object was not found. The caller must not repeat the request.
type UnansweredError struct {
	Err error
	// Mark is the description of the requested disk. It is empty for other objects.
	Mark string
	// Known has the IDs of similar objects that existed before the request.
	Known []ID
	// Asked is the start of the create, and GaveUp the end of the search for the object. Unknown times are zero.
	Asked, GaveUp time.Time
}

func (e *UnansweredError) Error() string { return e.Err.Error() }

// AddKnownIDs records in an UnansweredError the similar objects that existed before. It returns err.
func AddKnownIDs(err error, known []ID) error {
	var lost *UnansweredError
	if errors.As(err, &lost) {
		lost.Known = known
	}

	return err
}

// finalError is an error that Wait never retries, even if the wrapped error is transient.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
