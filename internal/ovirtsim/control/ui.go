package control

import (
	"embed"
	"io/fs"
	"net/http"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/localpage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

//go:embed page
var page embed.FS

// ServeUI serves the page at an address. It returns nil for an empty address.
func (s *Control) ServeUI(address string) (*localpage.Server, error) {
	if address == "" {
		return nil, nil
	}

	files, err := fs.Sub(page, "page")
	if err != nil {
		return nil, err
	}

	return localpage.Serve(localpage.Options{
		Address: address,
		Page:    files,
		Routes: map[string]http.Handler{
			"state": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				wire.AnswerJSON(w, http.StatusOK, s.DescribeSite())
			}),
			"events": &localpage.Stream{State: s.stateWithoutTime, Changes: &s.changes, Done: s.engine.Done()},
		},
	})
}

// stateWithoutTime returns the state without its time, so the state is constant while nothing changes.
func (s *Control) stateWithoutTime(*http.Request) any {
	state := s.DescribeSite()
	state.Time = time.Time{}

	return state
}
