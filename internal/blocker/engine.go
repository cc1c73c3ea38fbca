package blocker

import (
	"cmp"
	"errors"
	"fmt"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Places are where a person corrects the connection to an engine; an empty one is that of OLVMClusters.
type Places struct {
	// Credentials are the user name and the password, CA the certificate, and URL the address of the engine.
	Credentials, CA, URL string
}

// OfManifests are the places for who writes OLVMClusters.
var OfManifests = Places{
	Credentials: "the Secret of spec.olvmOvirtAPIServer.credentialsSecret",
	CA:          "the ConfigMap of spec.olvmOvirtAPIServer.caConfigMap",
	URL:         "spec.olvmOvirtAPIServer.serverURL",
}

// EngineReason is the condition reason and message of a failed call to the engine.
func EngineReason(err error) (reason, message string) {
	var (
		field *Error
		auth  *engine.AuthError
		tls   *engine.TLSError
	)
	switch {
	case errors.As(err, &field):
		return field.Reason, field.Error()
	case errors.As(err, &auth):
		reason = infrav1.AuthenticationFailedReason
	case engine.IsNotAnAdministrator(err):
		reason = infrav1.NotAnAdministratorReason
	case errors.As(err, &tls):
		reason = infrav1.UntrustedCertificateReason
	default:
		reason = infrav1.EngineUnreachableReason
	}

	return reason, fmt.Sprintf("%v; %s", innermost(err), OfManifests.remedy(err))
}

// innermost is the error of the engine, without what was put around it.
func innermost(err error) error {
	var (
		auth *engine.AuthError
		tls  *engine.TLSError
	)
	switch {
	case errors.As(err, &auth):
		return auth
	case errors.As(err, &tls):
		return tls
	}

	return err
}

// remedy is what to do about an engine that cannot be used.
func (p Places) remedy(err error) string {
	var (
		auth *engine.AuthError
		tls  *engine.TLSError
	)

	credentials := cmp.Or(p.Credentials, OfManifests.Credentials)

	switch {
	case errors.As(err, &auth) && auth.Closed():
		return "its password may be right: have the user unlocked or enabled, or its password renewed, in the engine " +
			"(ovirt-aaa-jdbc-tool for users of the domain internal)"
	case errors.As(err, &auth):
		return "correct the user name (with its domain, such as admin@internal) and password in " + credentials
	case engine.IsNotAnAdministrator(err):
		return "give the user of " + credentials + " an administrator role in the engine, such as SuperUser"
	case errors.As(err, &tls):
		return "put the engine's CA certificate into " + cmp.Or(p.CA, OfManifests.CA)
	}

	return "check " + cmp.Or(p.URL, OfManifests.URL) + " and that the engine is up"
}

// OfEngine reports whether an engine cannot be used at all: it does not answer, or refuses its user.
func OfEngine(err error) bool {
	var (
		auth        *engine.AuthError
		tls         *engine.TLSError
		unreachable *engine.UnreachableError
	)

	return errors.As(err, &auth) || errors.As(err, &tls) || errors.As(err, &unreachable) ||
		engine.IsNotAnAdministrator(err)
}

// Explain adds the remedy to an error about the connection to the engine, for a command whose user corrects it at these
// places. What the engine itself says needs none, and an error that was explained already has one.
func Explain(err error, at Places) error {
	var done *explained
	if !OfEngine(err) || errors.As(err, &done) {
		return err
	}

	return &explained{fmt.Sprintf("%v; %s", innermost(err), at.remedy(err)), err}
}

// explained is an error with its remedy.
type explained struct {
	message string
	err     error
}

func (e *explained) Error() string { return e.message }
func (e *explained) Unwrap() error { return e.err }
