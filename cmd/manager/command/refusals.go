package command

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// refusedSecret is the Secret with the engine users whose passwords were rejected, in the manager's namespace. If
	// an administrator deletes it and restarts the manager, the next login is allowed at once.
	refusedSecret = "capolvm-refused-logins" //nolint:gosec // its name
	refusedKey    = "users.json"
)

// refusalSecret stores in a Secret how many passwords of each user the engine has rejected, so the counts survive a
// restart. It stores no passwords, but only a hash of the last accepted password.
type refusalSecret struct {
	client client.Client
	reader client.Reader
	key    client.ObjectKey
}

// Load reads the stored content.
func (s *refusalSecret) Load(ctx context.Context) ([]byte, error) {
	var secret corev1.Secret
	if err := s.reader.Get(ctx, s.key, &secret); client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "Failed to read how many passwords were refused", "secret", s.key)

		return nil, fmt.Errorf("failed to get Secret %s: %w", s.key, err)
	}

	return secret.Data[refusedKey], nil
}

// Save stores the content.
func (s *refusalSecret) Save(ctx context.Context, content []byte) error {
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name},
		Data:       map[string][]byte{refusedKey: content},
	}

	err := s.client.Create(ctx, &secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.client.Update(ctx, &secret)
	}

	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to store how many passwords were refused", "secret", s.key)

		return fmt.Errorf("failed to save Secret %s: %w", s.key, err)
	}

	return nil
}
