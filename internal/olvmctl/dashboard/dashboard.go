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

// Options say what is shown, and where.
type Options struct {
	// In is the management cluster.
	In *mgmtcluster.Cluster
	// Namespace of the clusters; empty means all.
	Namespace string
	// Address of the page, HOST:PORT of loopback.
	Address string
	// Engines asks the engines of the clusters, with the credentials that the clusters have.
	Engines bool
	// Access are the flags of olvmctl and kubectl that say which management cluster, for commands that the page shows.
	Access []string
}

// source is what the page asks for.
type source interface {
	// state is what the page shows of all clusters.
	state(ctx context.Context) State
	// details are what it shows of one object.
	details(ctx context.Context, of Ref) Details
	// changes wake those who show something.
	changes() *localpage.Changes
}

// Serve shows a management cluster until the context ends. It returns when the page can be opened.
func Serve(ctx context.Context, o Options) (*localpage.Server, error) {
	watched, err := watch(ctx, o)
	if err != nil {
		return nil, err
	}

	return serve(ctx, o.Address, watched)
}

// serve serves the page of a source, with a token that nobody guesses.
func serve(ctx context.Context, address string, from source) (*localpage.Server, error) {
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
			"events": stream(func(r *http.Request) any { return from.state(r.Context()) }),
			"details": stream(func(r *http.Request) any {
				query := r.URL.Query()
				of := Ref{Kind: query.Get("kind"), Namespace: query.Get("namespace"), Name: query.Get("name")}

				return from.details(r.Context(), of)
			}),
		},
	})
}
