package main

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/browser"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestThePictureOfAComment writes the picture of a plan comment to the folder $OLVMCTL_SCREENSHOTS. The comment shows
// an upgrade with larger workers, an additional worker, and a MachineDeployment removed from git.
func TestThePictureOfAComment(t *testing.T) {
	folder := os.Getenv("OLVMCTL_SCREENSHOTS")
	if folder == "" {
		t.Skip("OLVMCTL_SCREENSHOTS names no folder")
	}

	s := newSite(t)
	manifests := strings.NewReplacer("v1.36.1", "v1.36.2", "replicas: 2", "replicas: 3", "name: demo-md-0\n  namespace: default\nspec:\n"+
		"  template:\n    spec:\n      olvm", "name: demo-md-0-large\n  namespace: default\nspec:\n  template:\n    spec:\n      olvm",
		"kind: OLVMMachineTemplate\n        name: demo-md-0", "kind: OLVMMachineTemplate\n        name: demo-md-0-large",
		"memory: 16GB", "memory: 32GB").
		Replace(s.manifests)

	input, err := planinput.Load([]string{"-"}, strings.NewReader(manifests))
	check.Error(t, err, "")
	check.Error(t, input.AddLive(t.Context(), withBatch(t, fixture.NewManagement(t)), ""), "")
	check.Error(t, input.CheckServed(t.Context(), nil), "")

	report, err := preview.NewManifests(input).
		ReportOn(t.Context(), preview.Request{Progress: t.Output(), Credentials: preview.Credentials{
			Username: s.sim.Username(), Password: s.sim.Password(), ServerURLs: []string{s.sim.URL()}, CA: s.sim.CA()}})
	check.Error(t, err, "")

	var comment strings.Builder
	check.Error(t, report.WriteMarkdown(&comment, ""), "")
	t.Log(comment.String())

	shown := strings.ReplaceAll(comment.String(), strings.Split(s.sim.URL(), "/")[2], "engine.example.com")

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, commentPage, asHTML(shown))
	}))
	defer server.Close()

	v := browser.OpenPage(t, server.URL, 1000, 800)
	v.SetColors("light")
	v.RunScript(`document.querySelectorAll('details')[0].open = true`)
	v.TakeScreenshot(
		folder, "plan-comment.png", 1000,
		browser.Eval[int64](v, `Math.min(1000, document.documentElement.scrollHeight)`),
	)
}

// withBatch adds a MachineDeployment with one machine to a management cluster. Flux manages this cluster.
func withBatch(t *testing.T, c client.Client) client.Client {
	t.Helper()

	for _, kind := range planinput.LiveKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		check.Error(t, c.List(t.Context(), list), "")

		for i := range list.Items {
			object := &list.Items[i]
			isMachine := strings.HasSuffix(kind.Kind, "Machine")

			if !isMachine {
				object.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "clusters",
					"kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
				check.Error(t, c.Update(t.Context(), object), "")
			}

			if name := object.GetName(); name != "demo-md-0" && name != "demo-md-0-a" {
				continue
			}

			encoded, err := object.MarshalJSON()
			check.Error(t, err, "")

			batch := &unstructured.Unstructured{}
			check.Error(
				t, batch.UnmarshalJSON([]byte(strings.ReplaceAll(string(encoded), "demo-md-0", "demo-batch"))), "",
			)
			batch.SetResourceVersion("")
			check.Error(t, c.Create(t.Context(), batch), "")
		}
	}

	return c
}

// asHTML renders a comment as a forge does. It supports only the Markdown used in plan comments.
func asHTML(markdown string) string {
	var out strings.Builder

	fence, table, header := "", false, false

	for _, line := range strings.Split(markdown, "\n") {
		text := regexp.MustCompile(`\*\*(.+?)\*\*`).ReplaceAllString(line, "<strong>$1</strong>")
		isRow := strings.HasPrefix(line, "|")

		if table && !isRow {
			out.WriteString("</table>")
		}

		header, table = isRow && !table, isRow

		switch {
		case fence != "" && line == fence:
			out.WriteString("</pre>")

			fence = ""
		case fence != "":
			out.WriteString(html.EscapeString(line) + "\n")
		case strings.HasPrefix(line, "```"):
			out.WriteString("<pre>")

			fence = line
		case strings.HasPrefix(line, "### "):
			out.WriteString("<h3>" + text[4:] + "</h3>")
		case line == "> [!CAUTION]":
			out.WriteString("<p class=caution>Caution</p>")
		case strings.HasPrefix(line, "> "):
			out.WriteString("<p class=caution-text>" + text[2:] + "</p>")
		case strings.HasPrefix(line, "  - "):
			out.WriteString("<li class=inner>" + text[4:] + "</li>")
		case strings.HasPrefix(line, "- "):
			out.WriteString("<li>" + text[2:] + "</li>")
		case strings.HasPrefix(line, "|---"):
		case isRow:
			cell := "td"
			if header {
				cell = "th"

				out.WriteString("<table>")
			}

			cells := strings.Split(strings.Trim(text, "| "), " | ")
			out.WriteString(
				"<tr><" + cell + ">" + strings.Join(cells, "</"+cell+"><"+cell+">") + "</" + cell + "></tr>",
			)
		case strings.HasPrefix(line, "<"):
			out.WriteString(text)
		case line != "":
			out.WriteString("<p>" + text + "</p>")
		}
	}

	return out.String()
}

// commentPage looks like a comment on GitHub in the light theme. It tells browser.Open when it is ready.
const commentPage = `<!doctype html><meta charset=utf-8><title>A comment</title><style>
* { box-sizing: border-box }
body { margin: 0; padding: 16px; background: #fff; color: #1f2328; font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, "DejaVu Sans", sans-serif }
.box { border: 1px solid #d1d9e0; border-radius: 6px }
.head { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; border-radius: 6px 6px 0 0; padding: 8px 16px; color: #59636e }
.head b { color: #1f2328 }
.head i { border: 1px solid #d1d9e0; border-radius: 2em; padding: 0 7px; font-style: normal; font-size: 12px; margin-left: 4px }
.body { padding: 16px }
h3 { font-size: 1.25em; line-height: 1.25; margin: 0 0 16px }
p { margin: 0 0 10px }
.caution, .caution-text { margin: 0; padding: 4px 16px; border-left: 4px solid #cf222e }
.caution { color: #d1242f; font-weight: 500 }
.caution-text { margin-bottom: 16px }
li { margin: 0 0 4px 24px }
li.inner { margin-left: 48px; list-style: circle }
table { border-collapse: collapse; margin: 16px 0; width: 100%% }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; text-align: left; vertical-align: top }
th { font-weight: 600 }
tr:nth-child(2n+3) { background: #f6f8fa }
pre { background: #f6f8fa; border-radius: 6px; padding: 16px; margin: 8px 0 16px; font: 85%%/1.45 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; overflow: hidden }
details { margin-bottom: 10px }
</style><p id=connection data-kind=ok hidden></p><script>var current = true</script><div class=box><div class=head><b>github-actions</b><i>bot</i> commented</div><div class=body>%s</div></div>`
