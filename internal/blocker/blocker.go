// Package blocker has the error that says why something cannot go on: a condition reason, the field, and the remedy.
package blocker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Error is why something cannot go on.
type Error struct {
	// Reason of the condition that reports it.
	Reason string
	// Field that is to be corrected; empty where something else has to happen first.
	Field string
	// Message says what is wrong, and the remedy.
	Message string
	// RetryAfter is when to look again; zero where a change of an object says so.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}

	return e.Field + ": " + e.Message
}

// Deletion returns the error of an object that must not go yet. The message names the remedy.
func Deletion(retryAfter time.Duration, format string, args ...any) *Error {
	return &Error{
		Reason:     infrav1.DeletionBlockedReason,
		Message:    fmt.Sprintf(format, args...),
		RetryAfter: retryAfter,
	}
}

// New returns the error of a field.
func New(reason, field, format string, args ...any) error {
	return &Error{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)}
}

// CheckTexts returns an error of the first text of a spec that XML cannot carry to the engine. within is the path of
// the spec, such as "spec". Whatever a spec says may reach the engine, at the latest in user data.
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

// NotFound turns a name that does not exist, or a storage domain that takes no disks, into an error of its field.
func NotFound(err error, reason, field string) error {
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

// mendedByPeople are the reasons of what stays until a person changes an object or the engine. What may go away by
// itself is not among them: an engine that is away, one whose directory is away and that refuses passwords meanwhile,
// addresses that are all in use, a run that failed.
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

// StaysUntilMended reports whether what has that reason stays until a person changes an object or the engine.
func StaysUntilMended(reason string) bool { return mendedByPeople[reason] }
