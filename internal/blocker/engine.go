package blocker

import (
	"cmp"
	"errors"
	"fmt"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// Places tell users where to correct the connection to an engine. An empty place means the place for OLVMClusters.
type Places struct {
	// Credentials is the place of the user name and the password, CA of the certificate, and URL of the engine's
	// address.
	Credentials, CA, URL string
}

// OfManifests are the places for authors of OLVMClusters.
var OfManifests = Places{
	Credentials: "the Secret of spec.olvmOvirtAPIServer.credentialsSecret",
	CA:          "the ConfigMap of spec.olvmOvirtAPIServer.caConfigMap",
	URL:         "spec.olvmOvirtAPIServer.serverURL",
}

// ExplainEngineError returns the reason and the message of a condition for a failed call to the engine.
func ExplainEngineError(err error) (reason, message string) {
	var field *Error
	if errors.As(err, &field) {
		return field.Reason, field.Error()
	}

	return OfManifests.explainReason(err)
}

// explainReason returns the reason why an engine is unusable. The message contains the remedy.
func (p Places) explainReason(err error) (reason, message string) {
	var (
		auth *engine.AuthError
		tls  *engine.TLSError
	)

	credentials := cmp.Or(p.Credentials, OfManifests.Credentials)

	switch {
	case engine.IsCancelled(err): // the manager or the user cancelled the request to the engine
		return infrav1.WaitingForEngineReason, err.Error()
	case errors.As(err, &auth) && auth.IsClosed():
		return infrav1.AuthenticationFailedReason, fmt.Sprintf("%v; its password may be right: have the user unlocked "+
			"or enabled, or its password renewed, in the engine (ovirt-aaa-jdbc-tool for users of the domain internal)",
			auth)
	case errors.As(err, &auth) && auth.HasUnknownProfile():
		return infrav1.AuthenticationFailedReason, fmt.Sprintf("%v; the profile is missing or wrong (it follows "+
			"the last @ of a user name); the password was not checked. Correct the user name in %s: for example "+
			"admin@internal, or admin@ovirt@internalsso at an engine with Keycloak, whose web interface takes "+
			"admin@ovirt", auth, credentials)
	case errors.As(err, &auth):
		return infrav1.AuthenticationFailedReason, fmt.Sprintf("%v; correct the user name (with its domain, such as "+
			"admin@internal) and password in %s; with Keycloak, the user name looks like admin@ovirt@internalsso",
			auth, credentials)
	case engine.IsNotAnAdministrator(err):
		return infrav1.NotAnAdministratorReason, fmt.Sprintf("%v; give the user of %s an administrator role in the "+
			"engine, such as SuperUser", err, credentials)
	case errors.As(err, &tls):
		return infrav1.UntrustedCertificateReason, fmt.Sprintf("%v; %s", tls, p.certificateRemedy(tls.Problem))
	case errors.Is(err, engine.ErrPlainHTTP):
		return infrav1.EngineUnreachableReason, fmt.Sprintf("%v; in %s, name the port on which the engine "+
			"speaks HTTPS (443 unless it was changed)", err, cmp.Or(p.URL, OfManifests.URL))
	}

	return infrav1.EngineUnreachableReason, fmt.Sprintf("%v; check %s and that the engine is up", err,
		cmp.Or(p.URL, OfManifests.URL))
}

// certificateRemedy returns the remedy if an engine's certificate was rejected.
func (p Places) certificateRemedy(problem engine.CertificateProblem) string {
	const renew = "on the engine's host, have engine-setup renew it"
	ca, server := cmp.Or(p.CA, OfManifests.CA), cmp.Or(p.URL, OfManifests.URL)

	switch problem {
	case engine.CertificateExpired, engine.CertificateMalformed, engine.CertificateUnfit:
		return renew
	case engine.CAExpired:
		return renew + ", and put the new CA certificate into " + ca
	case engine.CertificateNotYetValid, engine.CANotYetValid:
		return "correct the clocks of the engine's host and of this one"
	case engine.CertificateForOtherName:
		return "in " + server + ", name the engine as its certificate does"
	default:
		return "put the engine's CA certificate into " + ca
	}
}

// IsEngineError reports whether an engine is unusable because it does not answer or rejects its user.
func IsEngineError(err error) bool {
	var (
		auth        *engine.AuthError
		tls         *engine.TLSError
		unreachable *engine.UnreachableError
	)

	return errors.As(err, &auth) || errors.As(err, &tls) || errors.As(err, &unreachable) ||
		engine.IsNotAnAdministrator(err)
}

// AddRemedy adds the remedy to a connection error. It is for a command whose users correct the connection at these
// places. Errors from the engine itself need no remedy, and explained errors already contain one.
func AddRemedy(err error, at Places) error {
	var done *explained
	if !IsEngineError(err) || errors.As(err, &done) {
		return err
	}

	_, message := at.explainReason(err)

	return &explained{message, err}
}

// explained is an error that contains its remedy.
type explained struct {
	message string
	err     error
}

func (e *explained) Error() string { return e.message }
func (e *explained) Unwrap() error { return e.err }
