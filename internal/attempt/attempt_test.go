package attempt

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTheLastErrorIsReturned ends attempts in several ways. An ended context must not look like a success.
func TestTheLastErrorIsReturned(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "s", errors.New("changed"))
	timeout := fmt.Errorf("failed to write Secret s: %w", context.DeadlineExceeded)

	for name, test := range map[string]struct {
		errs  []error
		calls int
		want  error
	}{
		"success":                         {errs: []error{nil}, calls: 1},
		"success after a conflict":        {errs: []error{conflict, nil}, calls: 2},
		"another error":                   {errs: []error{errors.ErrUnsupported}, calls: 1, want: errors.ErrUnsupported},
		"an ended context":                {errs: []error{timeout}, calls: 1, want: timeout},
		"a cancelled context":             {errs: []error{context.Canceled}, calls: 1, want: context.Canceled},
		"an ended context after conflict": {errs: []error{conflict, timeout}, calls: 2, want: timeout},
		"conflicts alone": {
			errs: []error{conflict, conflict, conflict, conflict}, calls: DefaultBackoff.Steps, want: conflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := OnConflict(func() error {
				calls++
				return test.errs[calls-1]
			})

			check.Equal(t, "calls", calls, test.calls)
			check.Equal(t, "the error", errors.Is(err, test.want), true)
		})
	}
}
