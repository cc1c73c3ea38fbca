package userdataserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/servingcert"
)

// authority signs the certificates of the server. Its own certificate and key are in a Secret, so all replicas share
// them. Guests get the authority's certificate with their pointer.
type authority struct {
	*servingcert.Authority

	host string

	mu      sync.Mutex
	serving *tls.Certificate
}

// loadAuthority loads the authority, or creates it if it is missing.
func loadAuthority(ctx context.Context, c client.Client, secret client.ObjectKey, host string) (*authority, error) {
	for {
		var found corev1.Secret
		err := c.Get(ctx, secret, &found)
		if err == nil {
			return parseAuthority(&found, host)
		}

		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("failed to get Secret %s: %w", secret, err)
		}

		made, err := newAuthority(secret)
		if err != nil {
			return nil, err
		}

		if err := c.Create(ctx, made); err == nil {
			return parseAuthority(made, host)
		} else if !apierrors.IsAlreadyExists(err) { // otherwise, another replica was faster
			return nil, fmt.Errorf("failed to create Secret %s: %w", secret, err)
		}
	}
}

func newAuthority(secret client.ObjectKey) (*corev1.Secret, error) {
	certPEM, keyPEM, err := servingcert.NewAuthority("capolvm user data")
	if err != nil {
		return nil, err
	}

	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
	}, nil
}

func parseAuthority(secret *corev1.Secret, host string) (*authority, error) {
	parsed, err := servingcert.ParseAuthority(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("no usable authority in Secret %s/%s, delete it to have a new one: %w", secret.Namespace,
			secret.Name, err)
	}

	return &authority{Authority: parsed, host: host}, nil
}

// getCertificate returns the server's certificate. Only this process uses this certificate.
func (a *authority) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serving != nil && !servingcert.IsRenewalDue(a.serving.Leaf) {
		return a.serving, nil
	}

	made, err := a.Sign(a.host)
	if err == nil {
		a.serving = made
	}

	return made, err
}
