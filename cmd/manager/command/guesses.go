package command

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// refusedSecret is the Secret, in the manager's namespace, that says which users of engines had their passwords
	// refused. An administrator who deletes it, and restarts the manager, allows the next login at once.
	refusedSecret = "capolvm-refused-logins" //nolint:gosec // its name
	refusedKey    = "users.json"
)

// keptGuesses keeps refused passwords in mind beyond a restart: not the passwords, but how many of a user.
type keptGuesses struct {
	client client.Client
	reader client.Reader
	key    client.ObjectKey
}

// Load reads what was saved.
func (k *keptGuesses) Load(ctx context.Context) ([]byte, error) {
	var secret corev1.Secret
	if err := k.reader.Get(ctx, k.key, &secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get Secret %s: %w", k.key, err)
	}

	return secret.Data[refusedKey], nil
}

// Save writes it.
func (k *keptGuesses) Save(ctx context.Context, content []byte) error {
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.key.Namespace, Name: k.key.Name},
		Data:       map[string][]byte{refusedKey: content},
	}

	err := k.client.Create(ctx, &secret)
	if apierrors.IsAlreadyExists(err) {
		err = k.client.Update(ctx, &secret)
	}

	if err != nil {
		return fmt.Errorf("failed to save Secret %s: %w", k.key, err)
	}

	return nil
}
