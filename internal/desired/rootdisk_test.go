package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// TestRootDisk compares the requests for a template's disk: D5, D6, D7, M8. A linked disk is always cow and sparse, so
// any other disk needs a copy. A request for a copy always has both its format and its allocation.
func TestRootDisk(t *testing.T) {
	cow := engine.Disk{ID: "d", Format: engine.FormatCow, Sparse: ptr.To(true)}
	raw := engine.Disk{ID: "d", Format: engine.FormatRaw, Sparse: ptr.To(false)}

	tests := map[string]struct {
		origin engine.Disk
		want   infrav1.RootDisk
		// format and allocation are the values sent to the engine, or "" without an override.
		format, allocation string
		clone              *bool
	}{
		"nothing asked for": {cow, infrav1.RootDisk{}, "", "", nil},
		"a copy as it is":   {raw, infrav1.RootDisk{Clone: ptr.To(true)}, "", "", ptr.To(true)},
		"cow of a cow disk": {cow, infrav1.RootDisk{Format: "cow"}, "cow", "sparse", nil},
		"raw of a cow disk": {cow, infrav1.RootDisk{Format: "raw"}, "raw", "non-sparse", ptr.To(true)},
		"raw and sparse": {cow, infrav1.RootDisk{
			Format: "raw",
			Sparse: ptr.To(true),
		}, "raw", "sparse", ptr.To(true)},
		"sparse of a raw disk, linked": {raw, infrav1.RootDisk{Sparse: ptr.To(true)}, "cow", "sparse", nil},
		"sparse of a raw disk, copied": {raw, infrav1.RootDisk{
			Sparse: ptr.To(true),
			Clone:  ptr.To(true),
		}, "raw", "sparse", ptr.To(true)},
		"preallocated of a raw disk": {raw, infrav1.RootDisk{
			Sparse: ptr.To(false),
		}, "raw", "non-sparse", ptr.To(true)},
		"cow of a raw disk, copied": {raw, infrav1.RootDisk{
			Format: "cow",
			Clone:  ptr.To(true),
		}, "cow", "sparse", ptr.To(true)},
		"cow of a raw disk, linked":      {raw, infrav1.RootDisk{Format: "cow"}, "cow", "sparse", nil},
		"a larger one of a raw template": {raw, infrav1.RootDisk{Size: "20GB"}, "", "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out render.Machine
			err := resolveRootDisk(t.Context(), nil, nil, &engine.Hardware{RootDisk: &test.origin}, test.want, &out)
			if err != nil {
				t.Fatal(err)
			}

			var want []render.TemplateDisk
			if test.format != "" {
				want = []render.TemplateDisk{{ID: "d", Format: test.format, Provisioning: test.allocation}}
			}

			if diff := cmp.Diff(want, out.TemplateDisks); diff != "" {
				t.Error(diff)
			}

			if diff := cmp.Diff(test.clone, out.Clone); diff != "" {
				t.Error(diff)
			}
		})
	}
}
