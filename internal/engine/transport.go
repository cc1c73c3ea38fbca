package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// CertificateProblem is the reason for refusing an engine's certificate. Each reason has another remedy.
type CertificateProblem string

// The problems of certificates.
const (
	// CertificateExpired is for a certificate that is no longer valid, and CertificateNotYetValid for one that is not
	// valid yet.
	CertificateExpired     CertificateProblem = "expired"
	CertificateNotYetValid CertificateProblem = "not yet valid"
	// CAExpired and CANotYetValid are the same for the certificate of a CA.
	CAExpired     CertificateProblem = "CA expired"
	CANotYetValid CertificateProblem = "CA not yet valid"
	// CertificateForOtherName is for a certificate without the URL's host.
	CertificateForOtherName CertificateProblem = "other name"
	// CertificateOfUnknownAuthority is for a certificate not signed by a trusted CA.
	CertificateOfUnknownAuthority CertificateProblem = "unknown authority"
	// CertificateMalformed is for an invalid certificate.
	CertificateMalformed CertificateProblem = "malformed"
	// CertificateUnfit is for a valid certificate not meant for servers, or with a bad chain of signatures.
	CertificateUnfit CertificateProblem = "unfit"
)

// TLSError reports that the client refuses the engine's certificate. Its text does not include the current time, so
// that it is the same for each try. It becomes a condition.
type TLSError struct {
	// Of is the owner of the certificate, such as "data endpoint host1:54322". It is empty for the engine.
	Of string
	// Problem is the reason for the refusal.
	Problem CertificateProblem
	// Host is the wanted host, and Names are the names in the certificate. Both are for CertificateForOtherName.
	Host  string
	Names []string
	// Err is the error of the TLS library. Its text may include the current time.
	Err error
}

func (e *TLSError) Error() string {
	who := cmp.Or(e.Of, "engine")
	shown := "the " + who + "'s certificate"

	switch e.Problem {
	case CertificateExpired:
		return shown + " has expired"
	case CertificateNotYetValid:
		return shown + " is not valid yet"
	case CAExpired:
		return "the CA certificate that signs " + shown + " has expired"
	case CANotYetValid:
		return "the CA certificate that signs " + shown + " is not valid yet"
	case CertificateForOtherName:
		return fmt.Sprintf("%s is for %s, not %s", shown, e.formatNames(), abridgeText(e.Host))
	case CertificateMalformed:
		return "the " + who + " shows something that is not a certificate"
	case CertificateUnfit:
		return shown + " cannot be used: " + e.explainUnfit()
	default:
		return shown + " is signed by an unknown authority"
	}
}

func (e *TLSError) Unwrap() error { return e.Err }

// formatNames lists the names of the certificate.
func (e *TLSError) formatNames() string {
	const most = 6

	if len(e.Names) == 0 {
		return "no host at all"
	}

	var out []string
	for _, name := range e.Names[:min(len(e.Names), most)] {
		out = append(out, abridgeText(name))
	}

	if more := len(e.Names) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}

	return strings.Join(out, ", ")
}

// explainUnfit explains why a valid certificate is unusable.
func (e *TLSError) explainUnfit() string {
	if isInsecurelySigned(e.Err) {
		return "it is signed with an insecure algorithm"
	}

	var invalid x509.CertificateInvalidError
	if errors.As(e.Err, &invalid) {
		switch invalid.Reason {
		case x509.NotAuthorizedToSign:
			return "its signer is not a CA"
		case x509.IncompatibleUsage:
			return "it is not for servers"
		case x509.TooManyIntermediates:
			return "its chain is longer than its CA allows"
		case x509.CANotAuthorizedForThisName, x509.NameConstraintsWithoutSANs, x509.UnconstrainedName:
			return "its CA may not sign for this name"
		}
	}

	return "its chain is not valid"
}

// isInsecurelySigned reports whether the client refuses a certificate because of its signature algorithm. An error
// about an unknown authority gives this reason only in its text.
func isInsecurelySigned(err error) bool {
	return err != nil && strings.Contains(err.Error(), "insecure algorithm")
}

// newTLSError returns the error of a refused certificate, or nil for any other error.
func newTLSError(err error, now time.Time) *TLSError {
	var (
		invalid  x509.CertificateInvalidError
		hostname x509.HostnameError
		unknown  x509.UnknownAuthorityError
		failed   *tls.CertificateVerificationError
	)

	switch {
	case errors.As(err, &hostname):
		return newOtherNameError(hostname, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &TLSError{Problem: findTimeProblem(invalid.Cert, now), Err: err}
	case errors.As(err, &invalid):
		return &TLSError{Problem: CertificateUnfit, Err: err}
	case errors.As(err, &unknown):
		return &TLSError{Problem: findAuthorityProblem(unknown), Err: err}
	case errors.As(err, &failed):
		return &TLSError{Problem: CertificateUnfit, Err: err}
	// The TLS library has no error type for it.
	case strings.Contains(err.Error(), "failed to parse certificate from server"):
		return &TLSError{Problem: CertificateMalformed, Err: err}
	}

	return nil
}

// newOtherNameError returns the error for a certificate without the host's name.
func newOtherNameError(hostname x509.HostnameError, err error) *TLSError {
	out := &TLSError{Problem: CertificateForOtherName, Host: hostname.Host, Err: err}
	if hostname.Certificate == nil {
		return out
	}

	out.Names = slices.Clone(hostname.Certificate.DNSNames)
	for _, ip := range hostname.Certificate.IPAddresses {
		out.Names = append(out.Names, ip.String())
	}

	slices.Sort(out.Names)

	return out
}

// findTimeProblem returns the problem of a certificate that is not valid now.
func findTimeProblem(certificate *x509.Certificate, now time.Time) CertificateProblem {
	early := certificate != nil && now.Before(certificate.NotBefore)

	switch isCA := certificate != nil && certificate.IsCA; {
	case isCA && early:
		return CANotYetValid
	case isCA:
		return CAExpired
	case early:
		return CertificateNotYetValid
	default:
		return CertificateExpired
	}
}

// findAuthorityProblem returns the problem of a certificate without a trusted signer. If the signer is known but
// refused, only the error's text says so.
func findAuthorityProblem(err x509.UnknownAuthorityError) CertificateProblem {
	switch text := err.Error(); {
	case isInsecurelySigned(err):
		return CertificateUnfit
	case !strings.Contains(text, "expired or is not yet valid"):
		return CertificateOfUnknownAuthority
	case strings.Contains(text, " is before "):
		return CANotYetValid
	default:
		return CAExpired
	}
}

// ErrPlainHTTP reports that the server does not speak TLS.
var ErrPlainHTTP = errors.New("it answers without encryption, as on a port for plain HTTP")

// redirectError reports that the engine redirects to another URL.
type redirectError struct{ target string }

func (e *redirectError) Error() string {
	return fmt.Sprintf("the engine redirects to %s, and redirects are not followed; write the URL of the engine itself",
		e.target)
}

// classifyTransportError classifies an error of the HTTP transport before or within the answer. The error's text
// becomes a condition, so it must be the same for each try. It has no times, no local ports, and no address of a host
// with several, and it calls all timeouts the same. ctx is the request's context.
func classifyTransportError(ctx context.Context, err error) error {
	if cancelled := toCancelledError(ctx); cancelled != nil {
		return cancelled
	}

	if refused := newTLSError(err, time.Now()); refused != nil {
		return refused
	}

	return &UnreachableError{Err: &steadyError{text: describeTransportError(err), err: err}}
}

// toCancelledError returns a *CancelledError if the caller canceled a request, and nil otherwise. A timeout is not a
// cancellation: the engine did not answer.
func toCancelledError(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}

	return &CancelledError{Err: context.Cause(ctx)}
}

// steadyError is an error with the same text for each try.
type steadyError struct {
	text string
	err  error
}

func (e *steadyError) Error() string { return e.text }
func (e *steadyError) Unwrap() error { return e.err }

// Is makes a refused protocol an ErrPlainHTTP, regardless of the library's error.
func (e *steadyError) Is(target error) bool { return target == ErrPlainHTTP && isPlainHTTP(e.err) }

// describeTransportError describes the problem, and names the host.
func describeTransportError(err error) string {
	at := ""

	var about *url.Error
	if errors.As(err, &about) {
		if target, parseErr := url.Parse(about.URL); parseErr == nil {
			at = target.Scheme + "://" + target.Host + ": "
		}

		err = about.Err
	}

	var op *net.OpError
	if errors.As(err, &op) && op.Op == "proxyconnect" {
		at += "through the proxy: "
	}

	return at + describeCause(err)
}

// describeCause returns why there is no usable answer.
func describeCause(err error) string {
	var (
		dns      *net.DNSError
		number   syscall.Errno
		redirect *redirectError
		alert    tls.AlertError
		timeout  net.Error
	)

	switch {
	case errors.As(err, &redirect):
		return redirect.Error()
	case isPlainHTTP(err):
		return ErrPlainHTTP.Error()
	case errors.As(err, &dns):
		return fmt.Sprintf("the name %s cannot be resolved", abridgeText(dns.Name))
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	case isClosed(err):
		return "it closed the connection"
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &alert):
		return alert.Error()
	case strings.Contains(err.Error(), "malformed"): // the rest of the text comes from the server
		return "it answers with something that is not HTTP"
	}

	return err.Error()
}

// isClosed reports whether a server closed the connection. Which of these errors appears depends on chance.
func isClosed(err error) bool {
	for _, closed := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
	} {
		if errors.Is(err, closed) {
			return true
		}
	}

	return strings.Contains(err.Error(), "server closed idle connection")
}

// isPlainHTTP reports whether the server answered a TLS handshake without TLS.
func isPlainHTTP(err error) bool {
	var record tls.RecordHeaderError

	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &record)
}
