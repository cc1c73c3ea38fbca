// Package tfstate stores Terraform states in Secrets, in the format of Terraform's kubernetes backend. An administrator
// can inspect them with plain Terraform. The package also extracts the facts controllers need from a state.
//
// A write never replaces a state of another lineage, a state with a higher serial, or an unreadable state.
package tfstate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unique"

	corev1 "k8s.io/api/core/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

const (
	// Finalizer keeps a state Secret until the resources are destroyed, even if the garbage collector deletes the
	// Secret earlier.
	Finalizer = "terraform.infrastructure.cluster.x-k8s.io/state"

	// DigestAnnotation holds the digest of the last applied configuration.
	DigestAnnotation = "infrastructure.cluster.x-k8s.io/olvm-applied-digest"

	// ChangingFromAnnotation holds the digest of the last fully applied configuration while a change is incomplete. The
	// engine may then have any part of the change.
	ChangingFromAnnotation = "infrastructure.cluster.x-k8s.io/olvm-changing-from-digest"

	// ChangeAddsAnnotation is set together with ChangingFromAnnotation. It lists additions the incomplete change may
	// have made.
	ChangeAddsAnnotation = "infrastructure.cluster.x-k8s.io/olvm-change-adds"

	// stateLabel marks state Secrets. Terraform's backend and this project select them by it.
	stateLabel = "tfstate"

	// moveLabel makes clusterctl move the Secret with its owner.
	moveLabel = clusterctlv1.ClusterctlMoveLabel

	// SecretType is the type of state Secrets.
	SecretType corev1.SecretType = "infrastructure.cluster.x-k8s.io/terraform-state"

	dataKey    = "tfstate"
	namePrefix = "tfstate-default-"
	// maxUnpacked limits the size of a decompressed state. The state of one machine takes a few KiB, plus its user
	// data.
	maxUnpacked = 32 << 20
	// maxPacked limits the data of a Secret in bytes. The API server counts all data.
	maxPacked = corev1.MaxSecretSize
)

// Labels are the labels of every state Secret.
var Labels = map[string]string{stateLabel: "true"}

// InvalidError reports that a stored state is unusable. Nothing overwrites such a state, and an administrator must
// check it.
type InvalidError struct {
	// Secret is the Secret with the state. Reason explains why the state is unusable.
	Secret, Reason string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("Terraform state in Secret %s cannot be used: %s", e.Secret, e.Reason)
}

// ConflictError reports that a state must not replace the stored one.
type ConflictError struct{ Secret, Reason string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("Terraform state in Secret %s was not overwritten: %s", e.Secret, e.Reason)
}

// TooLargeError reports that a state does not fit into a Secret. The stored state stays.
type TooLargeError struct {
	Secret string
	// Size is the size of the packed state in bytes.
	Size int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf(
		"Terraform state is too large for Secret %s: %d KiB packed, and a Secret holds %d; most of it is user data, "+
			"which can be made smaller",
		e.Secret,
		e.Size>>10,
		maxPacked>>10,
	)
}

// State has the parts of a Terraform state that decisions need.
type State struct {
	// Raw is the whole state.
	Raw []byte
	// Serial grows with each change. Lineage is set when the state is created.
	Serial  uint64
	Lineage string
	// AppliedDigest is the digest of the last fully applied configuration. It is empty before the first apply succeeds,
	// and while a change is incomplete.
	AppliedDigest string
	// ChangingFrom is the digest of the last fully applied configuration while a later change is incomplete. Otherwise,
	// it is empty.
	ChangingFrom string
	// ChangeAdds lists additions the incomplete change may have made, in the caller's format.
	ChangeAdds string

	resources []resource
}

type resource struct {
	Module    string `json:"module"`
	Mode      string `json:"mode"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Instances []struct {
		IndexKey any `json:"index_key"`
		// These are the attributes that decisions need. The others, such as user data, may be large.
		Attributes struct {
			ID              text `json:"id"`
			AffinityGroupID text `json:"affinity_group_id"`
			Enforcing       any  `json:"enforcing"`
		} `json:"attributes"`
	} `json:"instances"`
}

// text is a string attribute. It is empty if the attribute has another type.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}

	return json.Unmarshal(raw, (*string)(t))
}

// internStrings shares equal strings between states, to save memory with ten thousand machines.
func (r *resource) internStrings() {
	for _, word := range []*string{&r.Module, &r.Mode, &r.Type, &r.Name} {
		*word = unique.Make(*word).Value()
	}
}

// Empty reports whether the state holds no resources.
func (s *State) Empty() bool {
	if s == nil {
		return true
	}

	for _, r := range s.resources {
		if r.Mode == "managed" && len(r.Instances) > 0 {
			return false
		}
	}

	return true
}

// WasApplied reports whether any configuration was ever completely applied, regardless of later changes.
func (s *State) WasApplied() bool { return s != nil && (s.AppliedDigest != "" || s.ChangingFrom != "") }

// IsRevertedBy reports whether the configuration with this digest reverts an incomplete change. If it does, the change
// created every resource missing from that configuration.
func (s *State) IsRevertedBy(digest string) bool {
	return s != nil && s.AppliedDigest == "" && s.ChangingFrom == digest
}

// IsComplete reports whether the last run with changes succeeded and the state has a VM. If it reports false, an
// interrupted run may have created resources without recording them.
func (s *State) IsComplete() bool {
	return s != nil && s.AppliedDigest != "" && s.VMID() != ""
}

// VMID returns the UUID of the created or adopted VM, or "".
func (s *State) VMID() string {
	return cmp.Or(s.ResourceID("ovirt_vm"), s.ResourceID("ovirt_adopted_vm"))
}

// ResourceID returns the ID of the first instance of a resource of this type, or "".
func (s *State) ResourceID(resourceType string) string {
	if s == nil {
		return ""
	}

	for _, r := range s.resources {
		if r.Mode == "managed" && r.Type == resourceType && len(r.Instances) > 0 {
			return string(r.Instances[0].Attributes.ID)
		}
	}

	return ""
}

// Instance is one instance of a resource, with the attributes that decisions need.
type Instance struct {
	// Key is the key of for_each, or "".
	Key string
	// ID and AffinityGroupID are empty if the instance does not have them.
	ID, AffinityGroupID string
	Enforcing           bool
}

// Instances returns the instances of all resources of this type, in the order of the state.
func (s *State) Instances(resourceType string) []Instance {
	if s == nil {
		return nil
	}

	var out []Instance

	for _, r := range s.resources {
		if r.Mode != "managed" || r.Type != resourceType {
			continue
		}

		for _, instance := range r.Instances {
			key, _ := instance.IndexKey.(string)
			enforcing, _ := instance.Attributes.Enforcing.(bool)
			out = append(out, Instance{
				Key:             key,
				ID:              string(instance.Attributes.ID),
				AffinityGroupID: string(instance.Attributes.AffinityGroupID),
				Enforcing:       enforcing,
			})
		}
	}

	return out
}

// Bytes returns the whole state, or nil if there is none.
func (s *State) Bytes() []byte {
	if s == nil {
		return nil
	}

	return s.Raw
}

// Parse reads a state. The error explains why the state is unusable.
func Parse(raw []byte) (*State, error) {
	var document struct {
		Version   int        `json:"version"`
		Serial    uint64     `json:"serial"`
		Lineage   string     `json:"lineage"`
		Resources []resource `json:"resources"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}

	if document.Version != 4 {
		return nil, fmt.Errorf("its format has version %d and this controller knows 4", document.Version)
	}

	if document.Lineage == "" {
		return nil, errors.New("it has no lineage")
	}

	for i := range document.Resources {
		document.Resources[i].internStrings()
	}

	return &State{Raw: raw, Serial: document.Serial, Lineage: document.Lineage, resources: document.Resources}, nil
}

// DecodeSecret returns the state in a Secret of a store. If the state is unusable, it returns an *InvalidError.
func DecodeSecret(secret *corev1.Secret) (*State, error) {
	invalid := func(reason string) error {
		return &InvalidError{Secret: secret.Namespace + "/" + secret.Name, Reason: reason}
	}
	packed := secret.Data[dataKey]
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, invalid("it is not gzip: " + err.Error())
	}

	raw, err := io.ReadAll(io.LimitReader(reader, maxUnpacked+1))
	if err != nil {
		return nil, invalid("it is truncated: " + err.Error())
	}

	if len(raw) > maxUnpacked {
		return nil, invalid("it is larger than any state of a machine")
	}

	state, err := Parse(raw)
	if err != nil {
		return nil, invalid(err.Error())
	}

	state.readMarks(secret.Annotations)

	return state, nil
}

// readMarks sets the digests and the additions from the annotations of a Secret.
func (s *State) readMarks(annotations map[string]string) {
	s.AppliedDigest, s.ChangingFrom = annotations[DigestAnnotation], annotations[ChangingFromAnnotation]
	s.ChangeAdds = annotations[ChangeAddsAnnotation]
}
