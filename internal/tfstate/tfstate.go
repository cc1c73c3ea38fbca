// Package tfstate keeps Terraform state in Secrets, in the format of
// Terraform's kubernetes backend, so that a person can inspect it with plain
// Terraform. It reads what controllers need to know from a state.
//
// A state is never overwritten by one of another lineage or an older serial,
// and one that cannot be read is never overwritten at all.
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
	// Finalizer keeps a state until what it describes is destroyed, also when the garbage collector comes first.
	Finalizer = "terraform.infrastructure.cluster.x-k8s.io/state"

	// DigestAnnotation holds the digest of the configuration that was applied last.
	DigestAnnotation = "infrastructure.cluster.x-k8s.io/olvm-applied-digest"

	// ChangingFromAnnotation holds that digest from the moment when a change is about to be applied until one has been
	// applied in full. The engine may have any part of the change meanwhile.
	ChangingFromAnnotation = "infrastructure.cluster.x-k8s.io/olvm-changing-from-digest"

	// ChangeAddsAnnotation holds, as long as that one is there, what such changes may have added.
	ChangeAddsAnnotation = "infrastructure.cluster.x-k8s.io/olvm-change-adds"

	// stateLabel tells Terraform's backend, and us, which Secrets are states.
	stateLabel = "tfstate"

	// moveLabel makes clusterctl move the Secret with its owner.
	moveLabel = clusterctlv1.ClusterctlMoveLabel

	// SecretType tells these Secrets apart.
	SecretType corev1.SecretType = "infrastructure.cluster.x-k8s.io/terraform-state"

	dataKey    = "tfstate"
	namePrefix = "tfstate-default-"
	// maxUnpacked bounds a state: one machine has a few KiB of it and its user data.
	maxUnpacked = 32 << 20
	// maxPacked is what a Secret holds: the API server counts all of its data.
	maxPacked = corev1.MaxSecretSize
)

// Labels are on every state.
var Labels = map[string]string{stateLabel: "true"}

// InvalidError reports that a stored state cannot be used. A person must look; nothing overwrites it.
type InvalidError struct {
	// Secret in which it is, and why it cannot be used.
	Secret, Reason string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("Terraform state in Secret %s cannot be used: %s", e.Secret, e.Reason)
}

// ConflictError reports that a state must not be written over the one that is stored.
type ConflictError struct{ Secret, Reason string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("Terraform state in Secret %s was not overwritten: %s", e.Secret, e.Reason)
}

// TooLargeError reports that a state does not fit into a Secret. The stored one stays.
type TooLargeError struct {
	Secret string
	// Size in bytes, packed.
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

// State is the part of a Terraform state that decisions depend on.
type State struct {
	// Raw is the whole state.
	Raw []byte
	// Serial grows with each change; Lineage is given when the state is made.
	Serial  uint64
	Lineage string
	// AppliedDigest is the digest of the configuration that the engine has in full; empty if it has none, and while a
	// change has not been applied to its end.
	AppliedDigest string
	// ChangingFrom is the digest of the last configuration that was applied in full, if such a change was begun since.
	ChangingFrom string
	// ChangeAdds is what these changes may have added, in the words of who asked for them.
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
		// Attributes by which decisions are made. The others may be large, as user data is.
		Attributes struct {
			ID              text `json:"id"`
			AffinityGroupID text `json:"affinity_group_id"`
			Enforcing       any  `json:"enforcing"`
		} `json:"attributes"`
	} `json:"instances"`
}

// text is an attribute that is a text; empty where it is none.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}

	return json.Unmarshal(raw, (*string)(t))
}

// intern shares what is the same in the states of ten thousand machines.
func (r *resource) intern() {
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

// WasApplied reports whether a configuration has ever been applied in full, whatever became of changes since.
func (s *State) WasApplied() bool { return s != nil && (s.AppliedDigest != "" || s.ChangingFrom != "") }

// Undoes reports whether the configuration of a digest takes back a change that was not applied to its end. What the
// state has beside that configuration was made by the change.
func (s *State) Undoes(digest string) bool {
	return s != nil && s.AppliedDigest == "" && s.ChangingFrom == digest
}

// Complete reports whether the last run that changed anything has ended well and left a VM. Until then an earlier run
// may have made things that it did not live to record.
func (s *State) Complete() bool {
	return s != nil && s.AppliedDigest != "" && s.VMID() != ""
}

// VMID is the UUID of the VM that was made or taken over; empty where there is none.
func (s *State) VMID() string {
	return cmp.Or(s.ResourceID("ovirt_vm"), s.ResourceID("ovirt_adopted_vm"))
}

// ResourceID is the id of the first instance of a resource of that type; empty where there is none.
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

// Instance is one instance of a resource, with the attributes by which decisions are made.
type Instance struct {
	// Key of for_each; empty where there is none.
	Key string
	// ID and AffinityGroupID are empty where there are none.
	ID, AffinityGroupID string
	Enforcing           bool
}

// Instances are those of all resources of that type, in their order in the state.
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

// Bytes is the whole state; nil where there is none.
func (s *State) Bytes() []byte {
	if s == nil {
		return nil
	}

	return s.Raw
}

// Parse reads a state; the error says why it cannot be used.
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
		document.Resources[i].intern()
	}

	return &State{Raw: raw, Serial: document.Serial, Lineage: document.Lineage, resources: document.Resources}, nil
}

// Decode returns the state that a Secret of a store holds. An *InvalidError says what is wrong with it.
func Decode(secret *corev1.Secret) (*State, error) {
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

// readMarks sets the digests that the annotations of a Secret have.
func (s *State) readMarks(annotations map[string]string) {
	s.AppliedDigest, s.ChangingFrom = annotations[DigestAnnotation], annotations[ChangingFromAnnotation]
	s.ChangeAdds = annotations[ChangeAddsAnnotation]
}
