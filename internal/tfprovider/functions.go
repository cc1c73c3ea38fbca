package tfprovider

import (
	"context"
	"math"
	"regexp"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/function"
)

// Functions implements provider.ProviderWithFunctions.
func (p *ovirtProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{
		func() function.Function { return bytesFunction{} },
		func() function.Function { return sizeFunction{} },
	}
}

// units are the units of sizes, each 1024 times the previous one.
var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

var sizePattern = regexp.MustCompile(`^([0-9]{1,18}) ?(B|KiB|MiB|GiB|TiB|PiB)$`)

// parseSize converts a size such as 40GiB to bytes. It returns false if the text is not a size, or if the number
// exceeds 64 bits.
func parseSize(text string) (int64, bool) {
	found := sizePattern.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}

	bytes, err := strconv.ParseInt(found[1], 10, 64)
	for _, unit := range units {
		if unit == found[2] {
			return bytes, err == nil
		}

		if bytes > math.MaxInt64/1024 {
			return 0, false
		}

		bytes *= 1024
	}

	return 0, false
}

// formatSize formats a number of bytes in the largest unit that needs no fraction.
func formatSize(bytes int64) string {
	unit := 0
	for ; bytes != 0 && bytes%1024 == 0 && unit < len(units)-1; unit++ {
		bytes /= 1024
	}

	return strconv.FormatInt(bytes, 10) + units[unit]
}

// bytesFunction converts a size to bytes.
type bytesFunction struct{}

// Metadata implements function.Function.
func (bytesFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "bytes"
}

// Definition implements function.Function.
func (bytesFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Convert a size to bytes",
		MarkdownDescription: "Converts a size such as `40GiB` to bytes, the unit of all memory and disk attributes. " +
			"Supports the units B, KiB, MiB, GiB, TiB and PiB.",
		Parameters: []function.Parameter{function.StringParameter{
			Name: "size", MarkdownDescription: "A whole number and a unit, optionally separated by a space.",
		}},
		Return: function.Int64Return{},
	}
}

// Run implements function.Function.
func (bytesFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	if resp.Error = req.Arguments.Get(ctx, &text); resp.Error != nil {
		return
	}

	bytes, ok := parseSize(text)
	if !ok {
		resp.Error = function.NewArgumentFuncError(0, strconv.Quote(text)+
			" is no size: write a whole number and one of B, KiB, MiB, GiB, TiB and PiB, below 8192PiB.")
		return
	}

	resp.Error = resp.Result.Set(ctx, bytes)
}

// sizeFunction converts bytes to a size.
type sizeFunction struct{}

// Metadata implements function.Function.
func (sizeFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "size"
}

// Definition implements function.Function.
func (sizeFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Convert bytes to a size",
		MarkdownDescription: "Converts a number of bytes to a size such as `40GiB`, in the largest unit that needs " +
			"no fraction. This is the inverse of `bytes`.",
		Parameters: []function.Parameter{function.Int64Parameter{
			Name: "bytes", MarkdownDescription: "Number of bytes, 0 or more.",
		}},
		Return: function.StringReturn{},
	}
}

// Run implements function.Function.
func (sizeFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var bytes int64
	if resp.Error = req.Arguments.Get(ctx, &bytes); resp.Error != nil {
		return
	}

	if bytes < 0 {
		resp.Error = function.NewArgumentFuncError(0, strconv.FormatInt(bytes, 10)+" is no size: write 0 or more.")
		return
	}

	resp.Error = resp.Result.Set(ctx, formatSize(bytes))
}
