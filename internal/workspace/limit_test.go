package workspace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAListIsCutAndCounted(t *testing.T) {
	for name, test := range map[string]struct {
		list []int
		kept []int
	}{
		"none":     {nil, nil},
		"few":      {[]int{1}, []int{1}},
		"enough":   {[]int{1, 2}, []int{1, 2}},
		"too many": {[]int{1, 2, 3}, []int{1, 2}},
	} {
		kept, total := LimitList(test.list, 2)
		check.Equal(t, name, kept, test.kept)
		check.Equal(t, name+": the count", int(total), len(test.list))
	}
}

// long is an item with a long name.
type long int

func (l long) String() string {
	return fmt.Sprintf("create ovirt_vm.%d%s", int(l), strings.Repeat("x", 300))
}

// TestWhatAStatusListsOfAPlanFits has a plan with hundreds of resources. Hostile users have chosen their names.
func TestWhatAStatusListsOfAPlanFits(t *testing.T) {
	things := make([]long, 300)
	for i := range things {
		things[i] = long(i)
	}

	out, count := formatListed(things)
	check.Length(t, "what is listed", out, 16)
	check.Equal(t, "the count", int(count), 300)
	check.Equal(t, "the length of the longest", len(out[15]), 256)
	check.Contains(t, "the mark of the cut", out[15], "xxx ...")
}
