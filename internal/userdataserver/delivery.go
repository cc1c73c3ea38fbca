package userdataserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/jumphost"
)

// secretType is the type of Secrets with user data.
const secretType corev1.SecretType = "infrastructure.cluster.x-k8s.io/user-data"

const (
	// tokenKey and dataKey are the data keys of these Secrets.
	tokenKey = "token"
	dataKey  = "value"
	// expiresAnnotation is the time at which the token expires. deliveredAnnotation is the time of the delivery.
	expiresAnnotation   = "infrastructure.cluster.x-k8s.io/user-data-expires"
	deliveredAnnotation = "infrastructure.cluster.x-k8s.io/user-data-delivered"
	// tokenHashAnnotation is the SHA-256 of the token, in hexadecimal digits. With it, the server can tell a stranger
	// from a VM without a request to the API server. A token has 130 bits, so its hash does not reveal it.
	tokenHashAnnotation = "infrastructure.cluster.x-k8s.io/user-data-token-sha256"
)

var requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capolvm_user_data_requests_total",
	Help: "Requests of VMs for their user data, by result: delivered, refused (wrong, used or expired token), " +
		"limited (too many at once), failed (the VM may ask again, as after limited).",
}, []string{"result"})

// Collectors returns the metrics of this package.
func Collectors() []prometheus.Collector { return []prometheus.Collector{requestsTotal} }

func init() {
	for _, result := range []string{"delivered", "refused", "limited", "failed"} {
		requestsTotal.WithLabelValues(result)
	}
}

// secretKey returns the key of the Secret with the user data of a machine.
func secretKey(machine client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: machine.Namespace, Name: machine.Name + "-user-data"}
}

// Server delivers user data.
type Server struct {
	client    client.Client
	writer    client.Client
	metadata  client.Reader
	recorder  events.EventRecorder
	url       *url.URL
	lifetime  time.Duration
	authority *authority
	limits    *limits
	hosts     Hosts
	now       func() time.Time
}

// Options configure a Server.
type Options struct {
	// Client reads Secrets from the API server instead of a cache. It has its own rate limit.
	Client client.Client
	// Writer writes the data that controllers offer. It may refuse to write if this process is not the leader. All
	// replicas answer VMs, so answers use Client instead. The default is Client.
	Writer client.Client
	// Metadata is a cache of the metadata of Secrets. The server uses it to reject strangers.
	Metadata client.Reader
	// Recorder records events about machines.
	Recorder events.EventRecorder
	// URL is the server's URL for VMs.
	URL string
	// Authority is the Secret with the server's authority.
	Authority client.ObjectKey
	// Lifetime is the lifetime of tokens. It starts when the VM may be created.
	Lifetime time.Duration
}

// New returns a server with its authority.
func New(ctx context.Context, o Options) (*Server, error) {
	parsed, err := url.Parse(o.URL)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.RawQuery != "" ||
		parsed.Fragment != "" || parsed.User != nil {
		return nil, fmt.Errorf(
			"%q is not a URL at which VMs could fetch user data; write one such as https://10.20.30.4:9445",
			o.URL,
		)
	}

	authority, err := loadAuthority(ctx, o.Client, o.Authority, parsed.Hostname())
	if err != nil {
		return nil, err
	}

	return &Server{
		client:    o.Client,
		writer:    cmp.Or(o.Writer, o.Client),
		metadata:  o.Metadata,
		limits:    newLimits(),
		recorder:  o.Recorder,
		url:       parsed,
		lifetime:  o.Lifetime,
		authority: authority,
		now:       time.Now,
	}, nil
}

// NewRunnable returns a runnable that serves on a listener. It runs on every replica, because all replicas read the
// same Secrets.
func (s *Server) NewRunnable(listener net.Listener) manager.Runnable {
	mux := http.NewServeMux()
	below := strings.TrimSuffix(s.url.Path, "/")
	mux.Handle("GET "+below+"/v1/user-data/{namespace}/{name}", s)
	mux.HandleFunc("GET "+below+"/v1/configuration/{namespace}/{name}", s.serveConfiguration)
	mux.HandleFunc("GET "+below+"/v1/hosts/{namespace}/{name}", s.serveHosts)
	mux.HandleFunc("POST "+below+"/v1/hosts/{namespace}/{name}/{node}/{action}", s.serveHosts)

	return &manager.Server{
		Name: "user data",
		Listener: tls.NewListener(netutil.LimitListener(newFairListener(listener, maxFrom), maxConnections),
			&tls.Config{
				MinVersion:     tls.VersionTLS12,
				GetCertificate: s.authority.getCertificate,
				NextProtos:     []string{"http/1.1"},
			}),
		Server: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: headerTime,
			ReadTimeout:       headerTime,
			WriteTimeout:      answerTime,
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    1 << 14,
			ErrorLog:          quiet,
		},
	}
}

// OfferUserData stores the user data of a machine for its VM, and returns a pointer to it. Equal data gets the same
// pointer until its delivery.
func (s *Server) OfferUserData(
	ctx context.Context, machine *infrav1.OLVMMachine, data []byte,
) (bootstrap.Pointer, error) {
	key := secretKey(client.ObjectKeyFromObject(machine))
	var secret corev1.Secret
	err := s.client.Get(ctx, key, &secret)
	there := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return bootstrap.Pointer{}, fmt.Errorf("failed to get Secret %s: %w", key, err)
	}

	if there && !metav1.IsControlledBy(&secret, machine) {
		return bootstrap.Pointer{}, fmt.Errorf(
			"the Secret %s is not of this machine, and has the name of the one with its user data; remove it",
			key,
		)
	}

	token := string(secret.Data[tokenKey])
	if token == "" {
		token = rand.Text()
	}

	pointer := s.newPointer("user-data", machine, token)
	expires, err := time.Parse(time.RFC3339, secret.Annotations[expiresAnnotation])
	if err == nil && expires.Sub(s.now()) > s.lifetime/2 &&
		secret.Annotations[tokenHashAnnotation] == hashToken(token) && token == string(secret.Data[tokenKey]) &&
		bytes.Equal(secret.Data[dataKey], data) {
		return pointer, nil
	}

	secret.Namespace, secret.Name, secret.Type = key.Namespace, key.Name, secretType
	secret.Data = map[string][]byte{tokenKey: []byte(token), dataKey: data}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, tokenHashAnnotation, hashToken(token))
	s.extendExpiry(&secret)
	delete(secret.Annotations, deliveredAnnotation)
	if there {
		err = s.writer.Update(ctx, &secret)
	} else {
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: machine.Labels[clusterv1.ClusterNameLabel]}
		secret.OwnerReferences = newOwnerReferences(machine)
		err = s.writer.Create(ctx, &secret)
	}

	if err != nil {
		return bootstrap.Pointer{}, fmt.Errorf("failed to keep the user data in Secret %s: %w", key, err)
	}

	return pointer, nil
}

// RenewPointer extends the pointer of a machine to a whole lifetime from now. Runs call it just before they create the
// VM, because they may have waited for longer than a lifetime. It does not change a used pointer, and does nothing if
// there was no offer.
func (s *Server) RenewPointer(ctx context.Context, machine client.ObjectKey) error {
	key := secretKey(machine)

	err := attempt.OnConflict(func() error {
		var secret corev1.Secret
		if err := s.client.Get(ctx, key, &secret); err != nil {
			return client.IgnoreNotFound(err)
		}

		if secret.Type != secretType || len(secret.Data[tokenKey]) == 0 {
			return nil
		}

		s.extendExpiry(&secret)

		return s.writer.Update(ctx, &secret)
	})
	if err != nil {
		return fmt.Errorf("failed to renew the pointer in Secret %s: %w", key, err)
	}

	return nil
}

// extendExpiry sets the expiry of a pointer to one lifetime from now.
func (s *Server) extendExpiry(secret *corev1.Secret) {
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, expiresAnnotation,
		s.now().Add(s.lifetime).UTC().Format(time.RFC3339))
}

// newPointer returns a pointer for the VM of a machine.
func (s *Server) newPointer(what string, machine *infrav1.OLVMMachine, token string) bootstrap.Pointer {
	return bootstrap.Pointer{
		URL:   s.url.JoinPath("v1", what, machine.Namespace, machine.Name).String(),
		Token: token,
		CA:    s.authority.PEM,
	}
}

// errRefused is the error of every rejected request, for any reason.
var errRefused = errors.New("refused")

// ServeHTTP answers a VM's request for its user data.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	machine, token := parseAsker(r)
	s.serveRequest(w, r, question{
		what:   "user data",
		secret: secretKey(machine),
		hash:   tokenHashAnnotation,
		answer: func(log logr.Logger, _ *metav1.PartialObjectMetadata) error {
			err := s.deliverUserData(w, r, machine, token)
			if err == nil {
				log.Info("Delivered user data")
			}

			return err
		},
	})
}

// question describes a request.
type question struct {
	// what names the requested data for the log.
	what string
	// secret is the Secret with the required token. hash is the annotation with the hash of the token.
	secret client.ObjectKey
	hash   string
	// limited reports whether requests with this token are too frequent; nil means no limit.
	limited func(known *metav1.PartialObjectMetadata) bool
	// answer writes the response. The parameter known is the cached metadata of the Secret.
	answer func(log logr.Logger, known *metav1.PartialObjectMetadata) error
}

// serveRequest answers a request that has the right token, and rejects all others.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request, q question) {
	machine, token := parseAsker(r)
	known, err := s.checkKnownToken(r.Context(), q.secret, token, q.hash)

	// a VM with its token never waits behind strangers, even if it has their address
	if err != nil && !s.limits.strangers.allowClient(remoteOrigin(r), time.Now()) ||
		err == nil && q.limited != nil && q.limited(known) {
		requestsTotal.WithLabelValues("limited").Inc()
		http.Error(w, "unavailable", http.StatusServiceUnavailable) // Ignition and the other programs in VMs retry
		return
	}

	logger := ctrl.Log.WithName("user-data").
		WithValues("OLVMMachine", machine, "path", r.URL.Path, "remote", r.RemoteAddr)
	if err == nil {
		err = q.answer(logger, known)
	}

	var person *jumphost.RefusedError
	switch {
	case err == nil:
		requestsTotal.WithLabelValues("delivered").Inc()
	case errors.As(err, &person):
		requestsTotal.WithLabelValues("refused").Inc()
		logger.Info("Refused what a person asked for", "reason", person.Reason)
		http.Error(w, person.Reason, http.StatusConflict)
	case errors.Is(err, errRefused):
		requestsTotal.WithLabelValues("refused").Inc()
		logger.Info("Refused a request for "+q.what, "reason", err.Error())
		http.Error(w, "forbidden", http.StatusForbidden)
	default:
		requestsTotal.WithLabelValues("failed").Inc()
		logger.Error(err, "Failed to deliver "+q.what)
		http.Error(w, "unavailable", http.StatusServiceUnavailable)
	}
}

// hashToken returns the hash of a token in the annotation's form.
func hashToken(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// quiet is a logger that drops the TLS errors caused by strangers.
var quiet = log.New(io.Discard, "", 0)

// newRefusal returns errRefused with a reason for the log.
func newRefusal(why string) error { return fmt.Errorf("%w: %s", errRefused, why) }

// parseAsker returns the machine and the token in a request.
func parseAsker(r *http.Request) (machine client.ObjectKey, token string) {
	machine = client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	token, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")

	return machine, token
}

// checkKnownToken rejects a request unless an annotation of the Secret contains the hash of the request's token. It
// sends no request to the API server. It returns the cached metadata of the Secret.
func (s *Server) checkKnownToken(
	ctx context.Context, secret client.ObjectKey, token, annotation string,
) (*metav1.PartialObjectMetadata, error) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := s.metadata.Get(ctx, secret, metadata); apierrors.IsNotFound(err) {
		return nil, newRefusal("there is no user data for it")
	} else if err != nil {
		return nil, fmt.Errorf("failed to look for the user data: %w", err)
	}

	hash := metadata.Annotations[annotation]
	if hash == "" {
		return nil, newRefusal("it was delivered already")
	}

	if subtle.ConstantTimeCompare([]byte(hash), []byte(hashToken(token))) != 1 {
		return nil, newRefusal("the token is another")
	}

	return metadata, nil
}

// checkToken rejects a wrong, used or expired token.
func checkToken(secret *corev1.Secret, given string, now time.Time) error {
	token := secret.Data[tokenKey]
	if secret.Type != secretType || len(token) == 0 {
		return newRefusal("it was delivered already")
	}

	one, other := sha256.Sum256([]byte(given)), sha256.Sum256(token)
	if subtle.ConstantTimeCompare(one[:], other[:]) != 1 {
		return newRefusal("the token is another")
	}

	expires, err := time.Parse(time.RFC3339, secret.Annotations[expiresAnnotation])
	if err != nil || now.After(expires) {
		return newRefusal("the token has expired")
	}

	return nil
}

// deliverUserData removes the token before it responds, so only one of two holders of the token gets the data. If the
// transfer fails, the VM may use the token again.
func (s *Server) deliverUserData(w http.ResponseWriter, r *http.Request, machine client.ObjectKey, given string) error {
	ctx := r.Context() // does not wait for a disconnected VM
	var secret corev1.Secret
	if err := s.client.Get(ctx, secretKey(machine), &secret); apierrors.IsNotFound(err) {
		return newRefusal("there is no user data for it")
	} else if err != nil {
		return fmt.Errorf("failed to get the user data: %w", err)
	}

	token, data := secret.Data[tokenKey], secret.Data[dataKey]
	if err := checkToken(&secret, given, s.now()); err != nil {
		return err
	}

	// From here on, the token counts as used. The server records the result even if the VM disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime+recordTime)
	defer cancel()
	delete(secret.Data, tokenKey)
	delete(secret.Annotations, tokenHashAnnotation)
	if err := s.client.Update(ctx, &secret); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("the user data has just changed: %w", err)
	} else if err != nil {
		return fmt.Errorf("failed to take the token away: %w", err)
	}

	w.Header().Set("Content-Type", "application/vnd.coreos.ignition+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, err := w.Write(data)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}

	if err != nil {
		secret.Data[tokenKey] = token
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, tokenHashAnnotation, hashToken(string(token)))
		return errors.Join(fmt.Errorf("failed to send it: %w", err), s.client.Update(ctx, &secret))
	}

	delete(secret.Data, dataKey)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, deliveredAnnotation,
		time.Now().UTC().Format(time.RFC3339)+" "+r.RemoteAddr)
	if err := s.client.Update(ctx, &secret); err != nil {
		ctrl.Log.WithName("user-data").Error(err, "Failed to remove delivered user data", "OLVMMachine", machine)
	}

	var owner infrav1.OLVMMachine
	if err := s.client.Get(ctx, machine, &owner); err == nil {
		s.recorder.Eventf(&owner, nil, corev1.EventTypeNormal, "UserDataDelivered", "Deliver",
			"Delivered the user data to %s", r.RemoteAddr)
	}

	return nil
}
