package manifest

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestABusyAPIServerIsAskedAgain applies an object to an API server with an error for the first request.
func TestABusyAPIServerIsAskedAgain(t *testing.T) {
	duration := overload.Duration
	overload.Duration = time.Millisecond
	t.Cleanup(func() { overload.Duration = duration })

	namespaces := schema.GroupResource{Resource: "namespaces"}
	for name, test := range map[string]struct {
		err      error
		requests int
	}{
		"a time-out is repeated":        {apierrors.NewTimeoutError("request did not complete", 0), 2},
		"a server time-out is repeated": {apierrors.NewServerTimeout(namespaces, "patch", 0), 2},
		"too many requests are repeated": {
			apierrors.NewTooManyRequests("the server is busy", 0), 2,
		},
		"a refusal is not repeated": {apierrors.NewForbidden(namespaces, "a", nil), 1},
		"a conflict is not repeated": {
			apierrors.NewConflict(namespaces, "a", nil), 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(
					context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption,
				) error {
					requests++
					if requests == 1 {
						return test.err
					}

					return nil
				},
			}).Build()

			objects, err := Read([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"))
			check.Error(t, err, "")

			err = Apply(t.Context(), c, objects, FieldOwner)
			check.Equal(t, "an error", err != nil, test.requests == 1)
			check.Equal(t, "requests", requests, test.requests)
		})
	}
}

// TestAnInterruptEndsTheWaitForABusyAPIServer ends the context while an API server is busy.
func TestAnInterruptEndsTheWaitForABusyAPIServer(t *testing.T) {
	duration := overload.Duration
	overload.Duration = time.Hour
	t.Cleanup(func() { overload.Duration = duration })

	ctx, interrupt := context.WithCancel(t.Context())
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			interrupt()
			return apierrors.NewTooManyRequests("the server is busy", 0)
		},
	}).Build()

	objects, err := Read([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"))
	check.Error(t, err, "")
	check.Error(t, Apply(ctx, c, objects, FieldOwner), context.Canceled.Error())
}
