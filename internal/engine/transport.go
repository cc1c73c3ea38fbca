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

// CertificateProblem is why an engine's certificate is refused. Each has another remedy.
type CertificateProblem string

// The problems of certificates.
const (
	// CertificateExpired is a certificate that was good, and CertificateNotYetValid is one that will be.
	CertificateExpired     CertificateProblem = "expired"
	CertificateNotYetValid CertificateProblem = "not yet valid"
	// CAExpired and CANotYetValid are the same for a certificate that signs the engine's.
	CAExpired     CertificateProblem = "CA expired"
	CANotYetValid CertificateProblem = "CA not yet valid"
	// CertificateForOtherName is a certificate that does not name the host of the URL.
	CertificateForOtherName CertificateProblem = "other name"
	// CertificateOfUnknownAuthority is a certificate that none of the trusted CAs signed.
	CertificateOfUnknownAuthority CertificateProblem = "unknown authority"
	// CertificateMalformed is something that is no certificate.
	CertificateMalformed CertificateProblem = "malformed"
	// CertificateUnfit is a certificate that is valid, but not for a server, or not by this way of signing.
	CertificateUnfit CertificateProblem = "unfit"
)

// TLSError reports that the engine's certificate is refused. Its text has neither the current time nor anything else
// that differs from try to try, because it becomes a condition.
type TLSError struct {
	// Of whom the certificate is, such as "data endpoint host1:54322"; empty means the engine.
	Of string
	// Problem of the certificate.
	Problem CertificateProblem
	// Host that was asked for, and Names that the certificate has in its place; of CertificateForOtherName.
	Host  string
	Names []string
	// Err of the TLS library, whose text may have the current time.
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
		return fmt.Sprintf("%s is for %s, not %s", shown, e.names(), abridged(e.Host))
	case CertificateMalformed:
		return "the " + who + " shows something that is not a certificate"
	case CertificateUnfit:
		return shown + " cannot be used: " + e.unfit()
	default:
		return shown + " is signed by an unknown authority"
	}
}

func (e *TLSError) Unwrap() error { return e.Err }

// names lists the names of the certificate.
func (e *TLSError) names() string {
	const most = 6

	if len(e.Names) == 0 {
		return "no host at all"
	}

	var out []string
	for _, name := range e.Names[:min(len(e.Names), most)] {
		out = append(out, abridged(name))
	}

	if more := len(e.Names) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}

	return strings.Join(out, ", ")
}

// unfit says why a valid certificate cannot be used.
func (e *TLSError) unfit() string {
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

// isInsecurelySigned reports whether a certificate is refused for its signature algorithm. An unknown authority keeps
// that reason to itself but for its text.
func isInsecurelySigned(err error) bool {
	return err != nil && strings.Contains(err.Error(), "insecure algorithm")
}

// tlsError returns the error of a certificate that was refused; nil for an error about anything else.
func tlsError(err error, now time.Time) *TLSError {
	var (
		invalid  x509.CertificateInvalidError
		hostname x509.HostnameError
		unknown  x509.UnknownAuthorityError
		failed   *tls.CertificateVerificationError
	)

	switch {
	case errors.As(err, &hostname):
		return otherName(hostname, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &TLSError{Problem: outOfTime(invalid.Cert, now), Err: err}
	case errors.As(err, &invalid):
		return &TLSError{Problem: CertificateUnfit, Err: err}
	case errors.As(err, &unknown):
		return &TLSError{Problem: unknownAuthority(unknown), Err: err}
	case errors.As(err, &failed):
		return &TLSError{Problem: CertificateUnfit, Err: err}
	// The TLS library has no type for it.
	case strings.Contains(err.Error(), "failed to parse certificate from server"):
		return &TLSError{Problem: CertificateMalformed, Err: err}
	}

	return nil
}

// otherName is the error of a certificate that does not name the host.
func otherName(hostname x509.HostnameError, err error) *TLSError {
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

// outOfTime is the problem of a certificate that is not valid now.
func outOfTime(certificate *x509.Certificate, now time.Time) CertificateProblem {
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

// unknownAuthority is the problem of a certificate whose signer is not trusted. A signer that is known and refused is
// only in the text.
func unknownAuthority(err x509.UnknownAuthorityError) CertificateProblem {
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

// ErrPlainHTTP reports that what answers does not speak TLS.
var ErrPlainHTTP = errors.New("it answers without encryption, as on a port for plain HTTP")

// redirectError reports that the engine redirects to another place.
type redirectError struct{ target string }

func (e *redirectError) Error() string {
	return fmt.Sprintf("the engine redirects to %s, and redirects are not followed; write the URL of the engine itself",
		e.target)
}

// transportError classifies an error of the HTTP transport, which may come before the answer or within it. The text of
// what it returns becomes a condition, so it is the same for each try: it has no times, no ports of this side, no
// addresses of a name that has several, and one word for all the ways to run out of time. ctx is that of the request.
func transportError(ctx context.Context, err error) error {
	if cancelled := cancellation(ctx); cancelled != nil {
		return cancelled
	}

	if refused := tlsError(err, time.Now()); refused != nil {
		return refused
	}

	return &UnreachableError{Err: &steadyError{text: transportText(err), err: err}}
}

// cancellation returns a *CancelledError if the caller gave up a request, and nil otherwise. A request that ran out of
// time was not given up: the engine did not answer.
func cancellation(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}

	return &CancelledError{Err: context.Cause(ctx)}
}

// steadyError is an error with a text that does not differ from try to try.
type steadyError struct {
	text string
	err  error
}

func (e *steadyError) Error() string { return e.text }
func (e *steadyError) Unwrap() error { return e.err }

// Is makes the refusal of another protocol the same error, whatever the library calls it.
func (e *steadyError) Is(target error) bool { return target == ErrPlainHTTP && isPlainHTTP(e.err) }

// transportText says what went wrong at which host.
func transportText(err error) string {
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

	return at + causeText(err)
}

// causeText is why there is no usable answer.
func causeText(err error) string {
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
		return fmt.Sprintf("the name %s cannot be resolved", abridged(dns.Name))
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	case isClosed(err):
		return "it closed the connection"
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &alert):
		return alert.Error()
	case strings.Contains(err.Error(), "malformed"): // what follows is what the server sent
		return "it answers with something that is not HTTP"
	}

	return err.Error()
}

// isClosed reports whether a server ended the connection. Which of these errors comes is a matter of chance.
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

// isPlainHTTP reports whether a server answered a TLS handshake with something else.
func isPlainHTTP(err error) bool {
	var record tls.RecordHeaderError

	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &record)
}
