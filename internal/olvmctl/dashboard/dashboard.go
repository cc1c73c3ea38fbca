package dashboard

import (
	"context"
	"crypto/rand"
	"embed"
	"io/fs"
	"net/http"

	"github.com/capolvm/cluster-api-provider-olvm/internal/localpage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

//go:embed page
var page embed.FS

// Options configure the page.
type Options struct {
	// In is the management cluster.
	In *mgmtcluster.Cluster
	// Namespace is the namespace of the clusters. If empty, the page shows all namespaces.
	Namespace string
	// Address is the HOST:PORT of the page. HOST must be loopback.
	Address string
	// Engines makes the page query the engines of the clusters, with the credentials of the clusters.
	Engines bool
	// Access selects the management cluster in the commands shown on the page.
	Access mgmtcluster.ShellAccess
}

// source provides the content of the page.
type source interface {
	// buildState returns the content about all clusters.
	buildState(ctx context.Context) State
	// findDetails returns the content about one object.
	findDetails(ctx context.Context, of Ref) Details
	// changes returns the signal for open pages to fetch new content.
	changes() *localpage.Changes
}

// Serve serves the page about a management cluster until the context ends. It returns as soon as a browser can open the
// page.
func Serve(ctx context.Context, o Options) (*localpage.Server, error) {
	watched, err := startWatcher(ctx, o)
	if err != nil {
		return nil, err
	}

	return servePage(ctx, o.Address, watched)
}

// servePage serves the page of a source. Its URL has a random token.
func servePage(ctx context.Context, address string, from source) (*localpage.Server, error) {
	files, err := fs.Sub(page, "page")
	if err != nil {
		return nil, err
	}

	stream := func(what func(*http.Request) any) http.Handler {
		return &localpage.Stream{State: what, Changes: from.changes(), Done: ctx.Done()}
	}

	return localpage.Serve(localpage.Options{
		Address: address,
		Token:   rand.Text(),
		Page:    files,
		Routes: map[string]http.Handler{
			"events": stream(func(r *http.Request) any { return from.buildState(r.Context()) }),
			"details": stream(func(r *http.Request) any {
				query := r.URL.Query()
				of := Ref{Kind: query.Get("kind"), Namespace: query.Get("namespace"), Name: query.Get("name")}

				return from.findDetails(r.Context(), of)
			}),
		},
	})
}
