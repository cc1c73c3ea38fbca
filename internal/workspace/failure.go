package workspace

import (
	"errors"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// longestMessage limits a run's error in a condition, in bytes.
const longestMessage = 2000

// Failure describes the last run of a workspace if it failed. After a successful run, it is zero.
type Failure struct {
	// Digest is the digest of the configuration the run was to apply.
	Digest string
	// Count is the number of failed runs in a row.
	Count int
	// At is the time at which the run ended.
	At  time.Time
	Err error
}

// IsDestroyFailure reports whether a destruction failed.
func (f Failure) IsDestroyFailure() bool { return f.Count > 0 && f.Digest == destroyDigest }

// Message returns the error, and the time of the next attempt. It omits the number of failures, because the object's
// status has it.
func (f Failure) Message() string {
	return steadytext.Shorten(f.Err.Error(), longestMessage) +
		" (the controller retries after a pause, or when the object changes; status.terraform counts the failures)"
}

// Reason returns the reason for a condition about the failure.
func (f Failure) Reason() string {
	var (
		refused *terraform.GuardError
		field   *blocker.Error
		invalid *tfstate.InvalidError
		newer   *terraform.StateVersionError
		large   *tfstate.TooLargeError
		late    *terraform.TimeoutError
		full    *terraform.DiskFullError
		killed  *terraform.KilledError
	)

	switch {
	case errors.As(f.Err, &refused):
		return infrav1.ReplaceRefusedReason
	case errors.As(f.Err, &field):
		return field.Reason
	case errors.As(f.Err, &invalid), errors.As(f.Err, &newer):
		return infrav1.StateInvalidReason
	case errors.As(f.Err, &large):
		return infrav1.StateTooLargeReason
	case errors.As(f.Err, &late):
		return infrav1.TimedOutReason
	case errors.As(f.Err, &full):
		return infrav1.WorkDirFullReason
	case errors.As(f.Err, &killed):
		return infrav1.ExecutorKilledReason
	}

	return infrav1.ApplyFailedReason
}
