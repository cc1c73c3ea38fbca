package blocker_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestNoFieldOfASpecTakesWhatXMLCannotCarry covers each text in the specs of users, at any depth.
func TestNoFieldOfASpecTakesWhatXMLCannotCarry(t *testing.T) {
	for name, spec := range map[string]any{
		"OLVMCluster":   &infrav1.OLVMClusterSpec{},
		"OLVMInventory": &infrav1alpha1.OLVMInventorySpec{},
		"OLVMMachine":   &infrav1.OLVMMachineSpec{},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			walk(reflect.ValueOf(spec).Elem(), "", func(text reflect.Value, field string) {
				text.SetString("a\x1b")
				defer text.SetString("")

				seen++

				var refused *blocker.Error
				if err := blocker.CheckTexts("Reason", "spec", spec); !errors.As(err, &refused) {
					t.Fatalf("%s takes what XML cannot carry", field)
				}

				check.Contains(t, field, refused.Message, "character 2 of line 1 is U+001B (escape)")
				check.Equal(t, field, strings.HasPrefix(refused.Field, "spec."), true)
				check.Contains(t, field, refused.Field, field)
			})
			check.Equal(t, "it has texts", seen > 8, true)
		})
	}
}

// walk calls visit with each text below a value and the name of its field. It creates missing parts.
func walk(value reflect.Value, field string, visit func(reflect.Value, string)) {
	switch value.Kind() {
	case reflect.String:
		visit(value, field)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		walk(value.Elem(), field, visit)
		value.SetZero()
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		walk(value.Index(0), field, visit)
		value.SetZero()
	case reflect.Struct:
		for i := range value.NumField() {
			below := value.Type().Field(i)
			if !below.IsExported() {
				continue
			}

			name, _, _ := strings.Cut(below.Tag.Get("json"), ",")
			if name == "" {
				name = field
			}

			walk(value.Field(i), name, visit)
		}
	}
}
