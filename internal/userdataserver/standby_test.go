package userdataserver

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// refusing is the client of a process that is not the leader, so the fence rejects its writes.
type refusing struct{ client.Client }

var errNotLeading = errors.New("another process leads")

func (refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errNotLeading
}
func (refusing) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errNotLeading
}
func (refusing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errNotLeading
}

// TestAReplicaThatDoesNotLeadAnswersVMsAndOffersNothing lets the leader offer data. A standby delivers this data once.
func TestAReplicaThatDoesNotLeadAnswersVMsAndOffersNothing(t *testing.T) {
	s := newSite(t)
	pointer := s.offer("data")

	s.writer = refusing{s.client}

	code, body := s.fetch(pointer)
	check.Equal(t, "the answer", code, http.StatusOK)
	check.Equal(t, "the data", body, "data")

	code, _ = s.fetch(pointer)
	check.Equal(t, "the second answer", code, http.StatusForbidden)

	_, err := s.OfferUserData(t.Context(), s.machine, []byte("other"))
	check.Error(t, err, errNotLeading.Error())
}

// TestAReplicaStartsBeforeThereIsALeader creates the authority while the fence rejects all writes.
func TestAReplicaStartsBeforeThereIsALeader(t *testing.T) {
	s := newSite(t)
	_, err := New(t.Context(), Options{
		Client: s.client, Writer: refusing{s.client}, URL: "https://10.0.0.1",
		Authority: client.ObjectKey{Namespace: "ns", Name: "another"},
	})
	check.Error(t, err, "")
}
