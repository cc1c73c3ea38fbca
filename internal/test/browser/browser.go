// Package browser opens pages in a real browser: headless Chromium, if the machine has it.
package browser

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// Faint is a JavaScript expression. It returns the texts whose contrast with the background is below WCAG AA.
const Faint = `(() => {
	const parse = c => {
		const m = c.match(/[\d.]+/g).map(Number)
		return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3)
	}
	const light = rgb => {
		const [r, g, b] = rgb.map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
		return .2126 * r + .7152 * g + .0722 * b
	}
	const out = new Set()
	for (const node of document.querySelectorAll('body *')) {
		const written = [...node.childNodes].some(c => c.nodeType === 3 && c.data.trim())
		if (!written || !node.checkVisibility() || ['SCRIPT', 'NOSCRIPT'].includes(node.tagName)) continue
		let behind = node, back
		while (!(back = parse(getComputedStyle(behind).backgroundColor))) behind = behind.parentElement
		const [a, b] = [light(parse(getComputedStyle(node).color)), light(back)].sort((x, y) => y - x)
		const contrast = (a + .05) / (b + .05)
		if (contrast < 4.5) out.add(node.tagName + '.' + node.className + ' ' + contrast.toFixed(2))
	}
	return [...out].join('; ')
})()`

// Operable is a JavaScript expression. It returns the elements that the keyboard can reach, in order.
const Operable = `[...document.querySelectorAll('a[href], summary, input, button, [tabindex="0"]')]` +
	`.filter(n => n.checkVisibility())`

// banned are the JavaScript calls that interpret user input as HTML.
var banned = []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("}

// elsewhere matches a reference to another site. Browsers do not fetch the URLs in names of XML namespaces.
var elsewhere = regexp.MustCompile(`(?:https?:)?//[A-Za-z0-9][^\s"']*\.[^\s"')]+`)

// FindUnsafe returns the forbidden content in a file of a page. It looks for resources of other sites, and for calls
// that interpret names as HTML.
func FindUnsafe(content string) []string {
	var out []string

	for _, found := range elsewhere.FindAllString(content, -1) {
		if !strings.Contains(found, "www.w3.org/2000/svg") {
			out = append(out, found)
		}
	}

	for _, word := range banned {
		if strings.Contains(content, word) {
			out = append(out, word)
		}
	}

	return out
}

// View is a page in a browser.
type View struct {
	t        *testing.T
	ctx      context.Context
	mu       sync.Mutex
	messages []string
}

// OpenPage opens a page in a window of the given size, and waits until the page is live. Without a browser, it skips
// the test.
func OpenPage(t *testing.T, url string, width, height int64) *View {
	t.Helper()
	v := &View{t: t, ctx: startChromium(t)}
	// The browser lives as long as the context of the first call. Therefore, this context has no time limit.
	if err := chromedp.Do(v.ctx); err != nil {
		t.Fatal(err)
	}

	console := chromedp.Console(v.ctx)
	go func() {
		for message, err := range console {
			if err != nil {
				return
			}

			v.mu.Lock()
			v.messages = append(v.messages, message.String())
			v.mu.Unlock()
		}
	}()

	v.RunSteps(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
	v.WaitUntil(`document.querySelector('#connection').dataset.kind === 'ok' && current`)

	return v
}

// startChromium starts headless Chromium. Without Chromium, it skips the test.
func startChromium(t *testing.T) context.Context {
	t.Helper()

	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}

	if path == "" {
		t.Skip("there is no Chromium to look at the page with: apt-get install chromium")
	}

	options := append(
		slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(wait.Limit),
		chromedp.DisableGPU,
		// Without these flags, Chromium waits for hosts that are unreachable in a closed network.
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("no-proxy-server", true),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // with its sandbox, Chromium does not run as root
	}

	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)

	return ctx
}

// withLimit returns the context of one call, with a time limit, because no call may hang.
func (v *View) withLimit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.ctx, wait.Limit)
}

// RunSteps runs steps in the page one after another.
func (v *View) RunSteps(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()

	ctx, cancel := v.withLimit()
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		v.t.Fatal(err)
	}
}

// RunScript runs a statement in the page.
func (v *View) RunScript(statement string) {
	v.t.Helper()
	v.RunSteps(chromedp.Evaluate[chromedp.Void](statement + "; undefined"))
}

// TypeInto replaces the text in the element that matches a selector.
func (v *View) TypeInto(selector, words string) {
	v.t.Helper()
	v.RunScript(
		fmt.Sprintf(`document.querySelector(%q).value = ''; document.querySelector(%[1]q).oninput?.()`, selector),
	)

	if words != "" {
		v.RunSteps(chromedp.SendKeys(chromedp.CSS(selector), words))
	}
}

// ListComplaints returns errors and policy violations from the console of the page.
func (v *View) ListComplaints() []string {
	v.mu.Lock()
	defer v.mu.Unlock()

	return slices.Clone(v.messages)
}

// Eval returns the value of a JavaScript expression in the page.
func Eval[T any](v *View, expression string, options ...chromedp.EvaluateOption) T {
	v.t.Helper()

	ctx, cancel := v.withLimit()
	defer cancel()

	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		v.t.Fatalf("%s: %v", expression, err)
	}

	return out
}

// untilLimit is shorter than the limit of the call around it, so that a failure can show the page.
const untilLimit = wait.Limit - 30*time.Second

// WaitUntil waits until a condition holds in the page. The page's policy forbids the method of the library, because
// that method creates functions from text.
func (v *View) WaitUntil(condition string) {
	v.t.Helper()

	ok := Eval[bool](v, fmt.Sprintf(`new Promise(done => {
		const end = performance.now() + %d
		const look = () => {
			let met = false
			try { met = %s } catch { }
			met || performance.now() > end ? done(Boolean(met)) : setTimeout(look, 20)
		}
		look()
	})`, untilLimit.Milliseconds(), condition), chromedp.EvalAwaitPromise)
	if !ok {
		v.t.Fatalf("waited in vain for %s; the page:\n%s", condition, Eval[string](v, `document.body.innerText`))
	}
}

// SetColors switches the page to light or dark colors, without animations.
func (v *View) SetColors(scheme string) {
	v.t.Helper()
	ctx, cancel := v.withLimit()
	defer cancel()

	_, err := chromedp.Run(ctx, func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(
			ctx,
			emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}},
		)

		return chromedp.Void{}, err
	})
	if err != nil {
		v.t.Fatal(err)
	}
}

// CheckReadable verifies that the page fits on screens of all widths, and that its texts have enough contrast in light
// and dark colors.
func (v *View) CheckReadable() {
	v.t.Helper()

	for _, width := range []int64{320, 360, 768, 1100, 1600} {
		v.RunSteps(chromedp.EmulateViewport(width, 740))
		if wide := Eval[int64](v, `document.documentElement.scrollWidth`); wide > width {
			v.t.Errorf("on a screen of %d the page is %d wide", width, wide)
		}
	}

	for _, scheme := range []string{"light", "dark"} {
		v.SetColors(scheme)
		if found := Eval[string](v, Faint); found != "" {
			v.t.Errorf("too little contrast in %s colours: %s", scheme, found)
		}
	}
}

// TakeScreenshot writes a picture of the page into a folder.
func (v *View) TakeScreenshot(folder, name string, width, height int64) {
	v.t.Helper()
	v.RunSteps(chromedp.EmulateViewport(width, height))

	ctx, cancel := v.withLimit()
	defer cancel()

	taken, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		v.t.Fatal(err)
	}

	decoded, err := png.Decode(bytes.NewReader(taken))
	if err != nil {
		v.t.Fatal(err)
	}

	picture := fewColors(decoded)

	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, picture); err != nil {
		v.t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(folder, name), small.Bytes(), 0o644); err != nil {
		v.t.Fatal(err)
	}
}

// fewColors reduces a picture to at most 256 colors, because a repository should contain only small files. It divides
// red, green and blue into 32 steps each, and uses the most frequent of the resulting colors. It replaces every other
// color by the nearest of them.
func fewColors(full image.Image) *image.Paletted {
	rough := image.NewRGBA(full.Bounds())
	draw.Draw(rough, rough.Bounds(), full, image.Point{}, draw.Src)

	counts := map[color.RGBA]int{}

	for i, c := range rough.Pix {
		rough.Pix[i] = uint8((int(c)*31 + 127) / 255 * 255 / 31)
		if i%4 == 3 {
			counts[color.RGBA{rough.Pix[i-3], rough.Pix[i-2], rough.Pix[i-1], 255}]++
		}
	}

	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})

	var palette color.Palette
	for _, c := range all[:min(len(all), 256)] {
		palette = append(palette, c)
	}

	out := image.NewPaletted(full.Bounds(), palette)
	draw.Draw(out, out.Bounds(), rough, image.Point{}, draw.Src)

	return out
}
