package userdataserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// configurationType is the type of Secrets with the configuration of support VMs. The tokens in these Secrets do not
// expire.
const configurationType corev1.SecretType = "infrastructure.cluster.x-k8s.io/support-configuration"

const (
	// configurationKey is the data key of the configuration. The key dataKey holds the user data of the first boot.
	configurationKey = "configuration"
	// publishedAnnotation is the SHA-256 of the configuration in hexadecimal digits, and publishedAtAnnotation is the
	// time of its publication. appliedAnnotation is the hash of the VM's present configuration. problemAnnotation is
	// the reason why the VM rejected another configuration. managerAnnotation is the hash of the URL and the authority
	// in the VM's user data.
	publishedAnnotation     = "infrastructure.cluster.x-k8s.io/support-configuration-sha256"
	hostTokenHashAnnotation = "infrastructure.cluster.x-k8s.io/support-host-token-sha256"
	managerAnnotation       = "infrastructure.cluster.x-k8s.io/support-manager-sha256"
	publishedAtAnnotation   = "infrastructure.cluster.x-k8s.io/support-configuration-published"
	appliedAnnotation       = "infrastructure.cluster.x-k8s.io/support-applied-sha256"
	problemAnnotation       = "infrastructure.cluster.x-k8s.io/support-problem"
	// problemHeader is the header with the reason why a VM rejected a configuration, in base64.
	problemHeader = "Capolvm-Problem"
	// maxProblem is the maximum size of this reason in bytes.
	maxProblem = 600
)

// Report is the state of a VM's configuration.
type Report struct {
	// Current reports that the VM uses the latest published configuration. Ever reports that the VM has used any
	// configuration.
	Current, Ever bool
	// Age is the time since the publication of the configuration.
	Age time.Duration
	// Problem is the reason why the VM rejected a configuration; "" means no problem.
	Problem string
	// Stranded reports that the VM sends its requests to another manager. A manager with another URL or authority set
	// it up.
	Stranded bool
}

// parseReport returns the report in the annotations of a Secret.
func parseReport(secret metav1.Object) Report {
	published, applied := secret.GetAnnotations()[publishedAnnotation], secret.GetAnnotations()[appliedAnnotation]

	at, err := time.Parse(time.RFC3339, secret.GetAnnotations()[publishedAtAnnotation])
	age := time.Duration(0)
	if err == nil {
		age = time.Since(at)
	}

	return Report{
		Age:     age,
		Current: applied != "" && applied == published,
		Ever:    applied != "",
		Problem: secret.GetAnnotations()[problemAnnotation],
	}
}

// PublishConfiguration stores the configuration of a support machine for its VM, together with the user data with which
// the VM fetches it. The VM requests the configuration periodically. PublishConfiguration returns the VM's latest
// report.
func (s *Server) PublishConfiguration(
	ctx context.Context,
	machine *infrav1.OLVMMachine,
	configuration []byte,
	userData func(bootstrap.Pointer) ([]byte, error),
) (Report, error) {
	secret, before, err := s.readSecret(ctx, machine)
	if err != nil {
		return Report{}, err
	}

	token := cmp.Or(string(secret.Data[tokenKey]), rand.Text())
	at := s.newPointer("configuration", machine, token)
	where := hashToken(at.URL + string(at.CA))
	first, err := userData(at)
	if err != nil {
		return Report{}, err
	}

	// A VM may already have read its user data. Then its user data does not change, so the VM never learns of another
	// manager.
	stranded := addressing.CanHaveVM(machine) && secret.Annotations[managerAnnotation] != where
	if had := secret.Data[dataKey]; had != nil && addressing.CanHaveVM(machine) {
		first = had
	}

	if len(configuration)+len(first) > bootstrap.MaxDeliveredData {
		return Report{}, blocker.New(infrav1.InfraServiceFailureReason, "OLVMMachine "+machine.Name,
			"its configuration has %d bytes, and can have %d; the Secrets that its service names are too large",
			len(configuration), bootstrap.MaxDeliveredData-len(first))
	}

	if !stranded {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, managerAnnotation, where)
	}

	hash := hashToken(string(configuration))
	if secret.Annotations[publishedAnnotation] != hash || !bytes.Equal(secret.Data[dataKey], first) ||
		before.Annotations[managerAnnotation] != secret.Annotations[managerAnnotation] {
		secret.Type = configurationType
		secret.Data = map[string][]byte{
			tokenKey:         []byte(token),
			dataKey:          first,
			"format":         []byte(bootstrap.CloudConfig),
			configurationKey: configuration,
		}
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, tokenHashAnnotation, hashToken(token))
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hostTokenHashAnnotation, hashToken(HostToken(token)))
		err = s.writeSecret(ctx, secret, before, machine, hash)
	}

	report := parseReport(secret)
	report.Stranded = stranded

	return report, err
}

// readSecret returns the Secret of a machine, and the same Secret as it was read. It drops the data of an earlier
// machine with the same name.
func (s *Server) readSecret(
	ctx context.Context, machine *infrav1.OLVMMachine,
) (secret, before *corev1.Secret, err error) {
	key := configurationSecret(client.ObjectKeyFromObject(machine))
	secret = &corev1.Secret{}
	err = s.client.Get(ctx, key, secret)
	there := err == nil

	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return nil, nil, fmt.Errorf("failed to get Secret %s: %w", key, err)
	case there && secret.Type != configurationType:
		return nil, nil, blocker.New(infrav1.InfraServiceFailureReason, "Secret "+key.Name,
			"it has the name of the one with the configuration of OLVMMachine %s, and is another; remove it",
			machine.Name)
	}

	before = secret.DeepCopy()
	if there && !metav1.IsControlledBy(secret, machine) {
		secret.Data, secret.Annotations = nil, nil
		secret.OwnerReferences = newOwnerReferences(machine)
	}

	return secret, before, nil
}

// writeSecret writes the Secret of a machine, with the hash of its configuration. The parameter before is the Secret as
// it was read. If it has no resource version, the Secret did not exist.
func (s *Server) writeSecret(
	ctx context.Context, secret, before *corev1.Secret, machine *infrav1.OLVMMachine, hash string,
) error {
	if secret.Annotations[publishedAnnotation] != hash {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, publishedAnnotation, hash)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, publishedAtAnnotation, time.Now().UTC().Format(time.RFC3339))
	}

	var err error
	if before.ResourceVersion != "" {
		err = s.writer.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	} else {
		secret.Namespace, secret.Name = machine.Namespace, support.SecretName(machine.Name)
		secret.Labels = map[string]string{
			clusterv1.ClusterNameLabel:        machine.Labels[clusterv1.ClusterNameLabel],
			infrav1alpha1.SupportServiceLabel: support.GetServiceName(machine),
		}
		secret.OwnerReferences = newOwnerReferences(machine)
		err = s.writer.Create(ctx, secret)
	}

	if err != nil {
		return fmt.Errorf("failed to keep the configuration of OLVMMachine %s: %w", machine.Name, err)
	}

	return nil
}

// newOwnerReferences returns owner references with which an object is deleted together with a machine.
func newOwnerReferences(machine *infrav1.OLVMMachine) []metav1.OwnerReference {
	return []metav1.OwnerReference{
		*metav1.NewControllerRef(machine, infrav1.GroupVersion.WithKind("OLVMMachine")),
	}
}

// HostToken returns the token for the command host of a jump host. It is derived from the VM's token, but does not
// reveal it.
func HostToken(token string) string { return hashToken("hosts:" + token) }

// serveConfiguration answers a support VM. If the VM already has the configuration, the answer needs no request to the
// API server.
func (s *Server) serveConfiguration(w http.ResponseWriter, r *http.Request) {
	machine, _ := parseAsker(r)
	key := configurationSecret(machine)
	s.serveRequest(w, r, question{
		what:   "a configuration",
		secret: key,
		hash:   tokenHashAnnotation,
		limited: func(known *metav1.PartialObjectMetadata) bool {
			return !isCurrent(r, known) && !s.limits.vms.allowClient(key, time.Now())
		},
		answer: func(_ logr.Logger, known *metav1.PartialObjectMetadata) error { return s.answerVM(w, r, known) },
	})
}

// configurationSecret returns the key of the Secret with the configuration of a machine's VM.
func configurationSecret(machine client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: machine.Namespace, Name: support.SecretName(machine.Name)}
}

// isCurrent reports whether a VM already has the published configuration.
func isCurrent(r *http.Request, known *metav1.PartialObjectMetadata) bool {
	has := strings.Trim(r.Header.Get("If-None-Match"), `"`)

	return has != "" && has == known.Annotations[publishedAnnotation]
}

// answerVM records the VM's report, and sends the configuration if the VM does not have it yet.
func (s *Server) answerVM(w http.ResponseWriter, r *http.Request, known *metav1.PartialObjectMetadata) error {
	has := strings.Trim(r.Header.Get("If-None-Match"), `"`)
	if err := s.recordReport(r, known, has); err != nil {
		return err
	}

	if isCurrent(r, known) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}

	var secret corev1.Secret
	if err := s.client.Get(r.Context(), client.ObjectKeyFromObject(known), &secret); apierrors.IsNotFound(err) {
		return newRefusal("there is no configuration for it")
	} else if err != nil {
		return fmt.Errorf("failed to get the configuration: %w", err)
	}

	_, token := parseAsker(r)
	if secret.Type != configurationType || len(secret.Data[tokenKey]) == 0 ||
		hashToken(token) != hashToken(string(secret.Data[tokenKey])) {
		return newRefusal("the token is another")
	}

	data := secret.Data[configurationKey]
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("failed to send it: %w", err)
	}

	return nil
}

// recordReport records the VM's present configuration, and the reason why it rejected another one. It writes only
// changes.
func (s *Server) recordReport(r *http.Request, known *metav1.PartialObjectMetadata, has string) error {
	problem, err := base64.StdEncoding.DecodeString(r.Header.Get(problemHeader))
	if err != nil || len(problem) > maxProblem {
		problem = []byte("the VM has refused the configuration, and its report cannot be read")
	}

	text := strings.ToValidUTF8(strings.Join(strings.Fields(string(problem)), " "), "?")
	if len(has) > sha256.Size*2 {
		return newRefusal("it asks for what is no hash")
	}

	if known.Annotations[appliedAnnotation] == has && known.Annotations[problemAnnotation] == text ||
		!s.limits.reports.allowClient(client.ObjectKeyFromObject(known), time.Now()) {
		return nil
	}

	after := known.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, appliedAnnotation, has)
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, problemAnnotation, text)

	// If the Secret has changed since it was read, it may belong to a later machine with the same name. The VM will
	// report again.
	lock := client.MergeFromWithOptions(known, client.MergeFromWithOptimisticLock{})
	err = s.client.Patch(r.Context(), after, lock)

	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to record the report: %w", err)
	}

	return nil
}
