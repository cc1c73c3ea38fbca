// Package blocker provides the error of a blocked object. It contains a reason for a condition, the field, and the
// remedy.
package blocker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Error explains why an operation on an object cannot continue.
type Error struct {
	// Reason is the reason of the condition.
	Reason string
	// Field is the field to correct, or "" if something else must happen first.
	Field string
	// Message describes the problem and the remedy.
	Message string
	// RetryAfter is the time until the next try. Zero means that the object waits for a change.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}

	return e.Field + ": " + e.Message
}

// NewDeletionError returns the error of an object that must not be deleted yet. The message contains the remedy.
func NewDeletionError(retryAfter time.Duration, format string, args ...any) *Error {
	return &Error{
		Reason:     infrav1.DeletionBlockedReason,
		Message:    fmt.Sprintf(format, args...),
		RetryAfter: retryAfter,
	}
}

// New returns an error about a field.
func New(reason, field, format string, args ...any) error {
	return &Error{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)}
}

// CheckTexts returns an error for the first text in a spec that XML cannot carry to the engine. The parameter within is
// the path of the spec, such as "spec". Every text in a spec may reach the engine, at the latest as part of user data.
func CheckTexts(reason, within string, spec any) error {
	var problem *engine.TextError
	if err := engine.CheckTexts("json", spec); !errors.As(err, &problem) {
		return nil
	}

	separator := "."
	if strings.HasPrefix(problem.Path, "[") {
		separator = ""
	}

	return New(reason, within+separator+problem.Path, "%v", problem.Problem)
}

// WrapNotFound turns two errors into errors about a field: an unknown name, and a storage domain that is unavailable
// for disks.
func WrapNotFound(err error, reason, field string) error {
	var (
		unknown  *engine.NameError
		inactive *engine.InactiveError
	)

	switch {
	case errors.As(err, &inactive):
		if reason == infrav1.StorageDomainNotFoundReason {
			reason = infrav1.StorageDomainInactiveReason
		}

		return New(reason, field, "%s; activate it in the engine, or name another one", inactive)
	case !errors.As(err, &unknown):
		return err
	}

	return &Error{
		Reason:  reason,
		Field:   field,
		Message: fmt.Sprintf("%s; correct the name or create it in the engine", unknown),
	}
}

// mendedByPeople are the reasons of permanent problems, for which a user must change an object or the engine. They do
// not include problems that can disappear by themselves. Examples of these are an unreachable engine, an engine that
// rejects passwords while its directory is unreachable, exhausted addresses, and a failed run.
var mendedByPeople = map[string]bool{
	infrav1.AddressRangeInvalidReason:         true,
	infrav1.AffinityGroupConflictReason:       true,
	infrav1.AffinityGroupNotFoundReason:       true,
	infrav1.BootstrapDataInvalidReason:        true,
	infrav1.CAConfigMapInvalidReason:          true,
	infrav1.OvirtClusterNotFoundReason:        true,
	infrav1.ControlPlaneServicesInvalidReason: true,
	infrav1.CredentialsNotAllowedReason:       true,
	infrav1.CredentialsNotFoundReason:         true,
	infrav1.DataCenterNotFoundReason:          true,
	infrav1.EndpointInAddressRangeReason:      true,
	infrav1.EndpointMissingReason:             true,
	infrav1.EngineNotAllowedReason:            true,
	infrav1.FailureDomainInvalidReason:        true,
	infrav1.FailureDomainNotFoundReason:       true,
	infrav1.EndpointInUseReason:               true,
	infrav1.EndpointsDifferReason:             true,
	infrav1.EngineChangedReason:               true,
	infrav1.EngineRestoredReason:              true,
	infrav1.HostNotFoundReason:                true,
	infrav1.IPProfileNotFoundReason:           true,
	infrav1.InstanceTypeNotFoundReason:        true,
	infrav1.InvalidHardwareReason:             true,
	infrav1.InvalidMemoryReason:               true,
	infrav1.InventoryInvalidReason:            true,
	infrav1.InventoryNotFoundReason:           true,
	infrav1.MachineTemplateNotFoundReason:     true,
	infrav1.NetworkNotFoundReason:             true,
	infrav1.NotAnAdministratorReason:          true,
	infrav1.OperatingSystemNotFoundReason:     true,
	infrav1.PlacementInvalidReason:            true,
	infrav1.ProvisionInvalidReason:            true,
	infrav1.StorageDomainInactiveReason:       true,
	infrav1.SharedByClustersReason:            true,
	infrav1.StorageDomainNotFoundReason:       true,
	infrav1.TagNotFoundReason:                 true,
	infrav1.VMTemplateNotFoundReason:          true,
	infrav1.UntrustedCertificateReason:        true,
	infrav1.VMNameConflictReason:              true,
	infrav1.VNICProfileNotFoundReason:         true,
	infrav1.VirtualRouterIDInUseReason:        true,
}

// IsStuckUntilFixed reports whether a problem with this reason stays until a user changes an object or the engine.
func IsStuckUntilFixed(reason string) bool { return mendedByPeople[reason] }
