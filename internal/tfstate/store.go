package tfstate

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
)

// Store keeps Terraform states in Secrets.
type Store struct {
	// Client writes the Secrets.
	Client client.Client
	// Reader reads without the cache, because a decision based on an old state would create a VM twice.
	Reader client.Reader
	// Prefix comes before the names of the owners. It separates kinds of owners that may have equal names.
	Prefix string
	// Metadata is an optional cache of the metadata of Secrets. With it, LoadAndRepair reads a state again only after
	// its Secret has changed.
	Metadata client.Reader

	mu   sync.Mutex
	held map[client.ObjectKey]held
	// lists holds the listed states by namespace.
	lists map[string]*stateList
	// latest maps owners with a run to their Secret, as this store last read or wrote it. The value is nil if there was
	// no Secret.
	latest map[client.ObjectKey]*corev1.Secret
	// begun maps the same owners to the starting points of their runs. Unlike latest, it stays after a failed save.
	begun map[client.ObjectKey]begun
}

// begun is the starting point of a run.
type begun struct {
	// secret is the Secret as this store last read or wrote it, or nil if there was none.
	secret *corev1.Secret
	// tried has the packed states of all saves since then. The API server may have stored a state even if the save
	// failed.
	tried [][]byte
}

// SecretName returns the name of the Secret with the owner's state. Terraform's backend derives the name from a suffix.
// The suffix is also the value of a label, so it has at most 63 characters.
func SecretName(owner client.Object) string { return namePrefix + shortenSuffix(owner.GetName()) }

// numbered matches a suffix that Terraform's kubernetes backend takes for one part of a larger state.
var numbered = regexp.MustCompile(`(^|-)[0-9]+$`)

// BackendSuffix returns the secret_suffix of an owner's state for Terraform's kubernetes backend. ok is false if the
// backend rejects the suffix.
func BackendSuffix(owner string) (_ string, ok bool) {
	return shortenSuffix(owner), !numbered.MatchString(shortenSuffix(owner))
}

// secretKey returns the namespace and name of the owner's Secret.
func (s *Store) secretKey(owner client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: owner.GetNamespace(), Name: s.SecretName(owner)}
}

func (s *Store) secretSuffix(owner client.Object) string {
	return shortenSuffix(s.Prefix + owner.GetName())
}

func (s *Store) fetchSecret(ctx context.Context, owner client.Object) (*corev1.Secret, error) {
	var secret corev1.Secret
	key := s.secretKey(owner)
	if err := s.Reader.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get the state Secret %s: %w", key, err)
	}

	return &secret, nil
}

// Load returns the owner's state, or nil if there is none.
func (s *Store) Load(ctx context.Context, owner client.Object) (*State, error) {
	secret, err := s.fetchSecret(ctx, owner)
	if err != nil {
		return nil, err
	}

	s.noteSecret(owner, secret)
	if secret == nil {
		s.rememberNone(owner)
		return nil, nil
	}

	return DecodeSecret(secret)
}

// noteSecret keeps a Secret, so that the next save need not read it. The resource version reveals writes by others.
func (s *Store) noteSecret(owner client.Object, secret *corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		s.latest = map[client.ObjectKey]*corev1.Secret{}
		s.begun = map[client.ObjectKey]begun{}
	}

	s.latest[s.secretKey(owner)] = secret
	s.begun[s.secretKey(owner)] = begun{secret: secret.DeepCopy()}
}

// takeNoted returns the Secret that noteSecret has kept, and forgets it.
func (s *Store) takeNoted(owner client.Object) (*corev1.Secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, ok := s.latest[s.secretKey(owner)]
	delete(s.latest, s.secretKey(owner))

	return secret, ok
}

// EndJob drops the data kept for further saves of a finished job.
func (s *Store) EndJob(owner client.Object) {
	s.takeNoted(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.begun, s.secretKey(owner))
}

// updateBegun changes the starting point of the owner's run if there is a run.
func (s *Store) updateBegun(owner client.Object, change func(*begun)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if run, ok := s.begun[s.secretKey(owner)]; ok {
		change(&run)
		s.begun[s.secretKey(owner)] = run
	}
}

// checkBegun refuses to overwrite a state that another process has written since the run began. The serial does not
// reveal such a write, because a halted leader and its successor may both continue from the same state.
func (s *Store) checkBegun(owner client.Object, current *corev1.Secret) error {
	s.mu.Lock()
	run, ok := s.begun[s.secretKey(owner)]
	s.mu.Unlock()

	// A run that began without a Secret has started its own lineage.
	if !ok || run.secret == nil || current == nil || isSameState(run.secret, current) {
		return nil
	}

	if slices.ContainsFunc(run.tried, func(tried []byte) bool { return bytes.Equal(tried, current.Data[dataKey]) }) {
		return nil
	}

	return &ConflictError{Secret: s.secretKey(owner).String(), Reason: "another process has changed it meanwhile"}
}

// LoadAndRepair is Load for an owner that is not being deleted. It also restores the Secret's owner, finalizer and
// labels, for example after a restore from a backup without them. It does not write the state itself. The returned
// state is only for decisions, because it may lack its text and all attributes except IDs.
func (s *Store) LoadAndRepair(ctx context.Context, owner client.Object, clusterName string) (*State, error) {
	if known, ok := s.getRemembered(ctx, owner); ok {
		return known, nil
	}

	if known, ok := s.findListed(ctx, owner, clusterName); ok {
		return known, nil
	}

	secret, err := s.fetchSecret(ctx, owner)
	if err != nil {
		return nil, err
	}

	if secret == nil {
		s.rememberNone(owner)
		return nil, nil
	}

	state, err := DecodeSecret(secret)
	if err != nil || !secret.DeletionTimestamp.IsZero() {
		return state, err // an administrator must act, or has deleted it
	}

	before := secret.DeepCopy()
	if err := s.markOwned(secret, owner, clusterName); err != nil {
		return nil, err
	}

	if equality.Semantic.DeepEqual(before, secret) {
		s.rememberState(owner, secret, state)
		return state, nil
	}

	// The other writer may be a run that saves its state. The next call repairs the Secret soon enough.
	if err := s.Client.Update(ctx, secret); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("failed to give the state Secret %s/%s back to its owner: %w", secret.Namespace,
			secret.Name, err)
	}

	return state, nil
}

// markOwned sets the owner and the finalizer of the Secret, and the labels of Terraform's backend and of Cluster API.
func (s *Store) markOwned(secret *corev1.Secret, owner client.Object, clusterName string) error {
	setValue(&secret.Labels, stateLabel, "true")
	setValue(&secret.Labels, "tfstateSecretSuffix", s.secretSuffix(owner))
	setValue(&secret.Labels, "tfstateWorkspace", "default")
	setValue(&secret.Labels, "app.kubernetes.io/managed-by", "terraform")
	setValue(&secret.Labels, moveLabel, "")
	if clusterName != "" {
		setValue(&secret.Labels, clusterv1.ClusterNameLabel, clusterName)
	}

	setValue(&secret.Annotations, "encoding", "gzip")
	controllerutil.AddFinalizer(secret, Finalizer)
	err := controllerutil.SetControllerReference(owner, secret, s.Client.Scheme(),
		controllerutil.WithBlockOwnerDeletion(false))
	if err != nil {
		return fmt.Errorf("failed to set the owner of the state Secret: %w", err)
	}

	return nil
}

// Save stores a state.
func (s *Store) Save(ctx context.Context, owner client.Object, clusterName string, raw []byte) error {
	return s.SaveApplied(ctx, owner, clusterName, raw, "")
}

// SaveApplied stores a state and marks it as applied. If digest is empty, it only stores the state.
func (s *Store) SaveApplied(
	ctx context.Context, owner client.Object, clusterName string, raw []byte, digest string,
) error {
	next, err := Parse(raw)
	if err != nil {
		return fmt.Errorf("the executor wrote a state that cannot be read: %w", err)
	}

	// Others may also write or delete the Secret. Retry, because the created resources must be recorded.
	again := func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
	}

	return attempt.OnError(attempt.DefaultBackoff, again, func() error {
		return s.saveState(ctx, owner, clusterName, next, digest)
	})
}

func (s *Store) saveState(
	ctx context.Context, owner client.Object, clusterName string, next *State, digest string,
) error {
	secret, err := s.findReplaced(ctx, owner)
	if err != nil {
		return err
	}

	packed, err := packState(next.Raw)
	if err != nil {
		return err
	}

	if len(packed) > maxPacked {
		return &TooLargeError{Secret: s.secretKey(owner).String(), Size: len(packed)}
	}

	create := secret == nil
	if create {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: s.SecretName(owner)},
			Type:       SecretType,
		}
	} else if err := checkSuccessor(secret, next); err != nil {
		return err
	}

	if digest != "" {
		setValue(&secret.Annotations, DigestAnnotation, digest)
		delete(secret.Annotations, ChangingFromAnnotation)
		delete(secret.Annotations, ChangeAddsAnnotation)
	}

	s.updateBegun(owner, func(run *begun) { run.tried = append(run.tried, packed) })
	secret.Data = map[string][]byte{dataKey: packed}
	if err := s.markOwned(secret, owner, clusterName); err != nil {
		return err
	}

	if create {
		err = s.Client.Create(ctx, secret)
	} else {
		err = s.Client.Update(ctx, secret)
	}

	if err != nil {
		s.dropHeld(owner) // the API server may have stored the state all the same

		return fmt.Errorf("failed to write the state Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}

	if digest == "" { // the run continues
		s.noteSecret(owner, secret)
	} else {
		s.EndJob(owner)
	}

	stored := *next
	stored.readMarks(secret.Annotations)
	s.rememberState(owner, secret, &stored)

	return nil
}

// findReplaced returns the Secret to overwrite, or nil if there is none.
func (s *Store) findReplaced(ctx context.Context, owner client.Object) (*corev1.Secret, error) {
	if secret, known := s.takeNoted(owner); known {
		return secret, nil
	}

	secret, err := s.fetchSecret(ctx, owner)
	if err != nil {
		return nil, err
	}

	return secret, s.checkBegun(owner, secret)
}

// ForgetUserData removes the user data of VMs from a state. No run may use the state at the same time. If another
// process writes the state, ForgetUserData fails and keeps that version.
func (s *Store) ForgetUserData(ctx context.Context, owner client.Object, clusterName string) error {
	state, err := s.Load(ctx, owner)
	defer s.EndJob(owner) // no run follows

	if err != nil || state == nil {
		return err
	}

	raw, err := removeUserData(state.Bytes())
	if err != nil || raw == nil {
		return err
	}

	next, err := Parse(raw)
	if err != nil {
		return fmt.Errorf("failed to read the state without its user data: %w", err)
	}

	return s.saveState(ctx, owner, clusterName, next, "")
}

// packState compresses a state for its Secret.
func packState(raw []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(raw); err != nil {
		return nil, fmt.Errorf("failed to pack the state: %w", err)
	}

	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("failed to pack the state: %w", err)
	}

	return packed.Bytes(), nil
}

// checkSuccessor refuses to overwrite a newer state, or a state of another lineage.
func checkSuccessor(secret *corev1.Secret, next *State) error {
	current, err := DecodeSecret(secret)
	if err != nil {
		return err
	}

	name := secret.Namespace + "/" + secret.Name

	switch {
	case current.Lineage != next.Lineage && !current.Empty():
		return &ConflictError{Secret: name, Reason: "the new state has another lineage"}
	case current.Lineage == next.Lineage && current.Serial > next.Serial:
		return &ConflictError{Secret: name, Reason: fmt.Sprintf("the new state has serial %d and the stored one %d",
			next.Serial, current.Serial)}
	}

	return nil
}

func setValue(values *map[string]string, key, value string) {
	if *values == nil {
		*values = map[string]string{}
	}

	(*values)[key] = value
}

// MarkApplied records that the stored state matches the configuration with this digest.
func (s *Store) MarkApplied(ctx context.Context, owner client.Object, digest string) error {
	return s.setMarks(ctx, owner, map[string]any{
		DigestAnnotation: digest, ChangingFromAnnotation: nil, ChangeAddsAnnotation: nil,
	})
}

// MarkChanging records that a change from the configuration with digest from begins, and the additions that it may
// make. Until the change is completely applied, the engine may have more resources than the stored state.
func (s *Store) MarkChanging(ctx context.Context, owner client.Object, from, adds string) error {
	return s.setMarks(ctx, owner, map[string]any{
		DigestAnnotation: nil, ChangingFromAnnotation: from, ChangeAddsAnnotation: adds,
	})
}

// setMarks writes annotations of the Secret. A nil value removes an annotation. It ignores a missing Secret.
func (s *Store) setMarks(ctx context.Context, owner client.Object, marks map[string]any) error {
	saved, err := s.findMarkable(ctx, owner)
	s.mu.Lock()
	known, ok := s.held[s.secretKey(owner)]
	s.mu.Unlock()
	s.dropHeld(owner)

	if err != nil || saved == nil {
		return err
	}

	secret, err := s.markSame(ctx, owner, saved, marks)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("failed to mark the state Secret %s: %w", s.secretKey(owner), err)
	}

	s.updateBegun(owner, func(run *begun) {
		if run.secret != nil {
			run.secret.Annotations, run.secret.ResourceVersion = secret.Annotations, secret.ResourceVersion
		}
	})

	// The Secret has the result of this run, because only one run exists at a time. The remembered state stays valid
	// only if no other process has written the Secret since.
	if ok && known.uid == saved.UID && known.version == saved.ResourceVersion {
		marked := *known.state
		marked.readMarks(secret.Annotations)
		s.rememberState(owner, secret, &marked)
	}

	return nil
}

// findMarkable returns the Secret that the run has saved last, or its starting point. It returns nil if there is no
// Secret. Without a run, it reads the current Secret.
func (s *Store) findMarkable(ctx context.Context, owner client.Object) (*corev1.Secret, error) {
	if saved, _ := s.takeNoted(owner); saved != nil {
		return saved, nil
	}

	s.mu.Lock()
	run, began := s.begun[s.secretKey(owner)]
	s.mu.Unlock()

	if run.secret != nil {
		return run.secret.DeepCopy(), nil
	}

	current, err := s.fetchSecret(ctx, owner)
	if err == nil && current != nil && began {
		return nil, &ConflictError{Secret: s.secretKey(owner).String(), Reason: "another process has made it meanwhile"}
	}

	return current, err
}

// markSame writes annotations of the Secret if its state and its marks still equal those of saved. If others have
// changed the rest of the Secret, it copies their version into saved.
func (s *Store) markSame(
	ctx context.Context, owner client.Object, saved *corev1.Secret, marks map[string]any,
) (*metav1.PartialObjectMetadata, error) {
	var marked *metav1.PartialObjectMetadata

	err := attempt.OnConflict(func() error {
		marked = &metav1.PartialObjectMetadata{}
		marked.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		marked.Namespace, marked.Name = owner.GetNamespace(), s.SecretName(owner)

		conflict := s.patchMetadata(ctx, marked, map[string]any{
			"annotations": marks, "resourceVersion": saved.ResourceVersion,
		})
		if !apierrors.IsConflict(conflict) {
			return conflict
		}

		current, err := s.fetchSecret(ctx, owner)

		switch {
		case err != nil:
			return err
		case current == nil:
			return apierrors.NewNotFound(corev1.Resource("secrets"), marked.Name)
		case !isSameState(saved, current):
			return &ConflictError{
				Secret: s.secretKey(owner).String(),
				Reason: "another process has changed it meanwhile",
			}
		}

		current.DeepCopyInto(saved)

		return conflict
	})

	return marked, err
}

// isSameState reports whether two versions of a Secret have the same state and marks. If they differ, another process
// has begun a run. Others may write the rest of the Secret.
func isSameState(a, b *corev1.Secret) bool {
	same := equality.Semantic.DeepEqual(a.Data, b.Data)
	for _, name := range []string{DigestAnnotation, ChangingFromAnnotation, ChangeAddsAnnotation} {
		same = same && a.Annotations[name] == b.Annotations[name]
	}

	return same
}

func (s *Store) patchMetadata(
	ctx context.Context, secret *metav1.PartialObjectMetadata, metadata map[string]any,
) error {
	content, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("failed to encode the digest: %w", err)
	}

	return s.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, content))
}

// ReleaseGivenUp reports whether a user has deleted the Secret of an unusable state. In this case, it also removes the
// finalizer. Call it only for owners that are being deleted.
func (s *Store) ReleaseGivenUp(ctx context.Context, owner client.Object) (bool, error) {
	secret, err := s.fetchSecret(ctx, owner)
	if err != nil || secret == nil {
		return secret == nil, err
	}

	if secret.DeletionTimestamp.IsZero() {
		return false, nil
	}

	controllerutil.RemoveFinalizer(secret, Finalizer)
	if err := s.Client.Update(ctx, secret); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("failed to release the state Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}

	return true, nil
}

// Delete removes the owner's state. It fails if the state still describes resources.
func (s *Store) Delete(ctx context.Context, owner client.Object) error {
	defer s.dropHeld(owner)
	s.EndJob(owner)
	secret, err := s.fetchSecret(ctx, owner)
	if err != nil || secret == nil {
		return err
	}

	state, err := DecodeSecret(secret)
	if err != nil {
		return err
	}

	if !state.Empty() {
		return &ConflictError{Secret: secret.Namespace + "/" + secret.Name, Reason: "it still describes resources"}
	}

	if controllerutil.RemoveFinalizer(secret, Finalizer) {
		if err := s.Client.Update(ctx, secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to release the state Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
	}

	err = s.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to delete the state Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}

	return nil
}

// SecretName returns the name of the Secret with the owner's state in this store.
func (s *Store) SecretName(owner client.Object) string { return namePrefix + s.secretSuffix(owner) }

func shortenSuffix(name string) string {
	const longest = 63
	if len(name) <= longest {
		return name
	}

	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:8]

	return name[:longest-len(hash)-1] + "-" + hash
}
