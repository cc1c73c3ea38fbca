package kustomization

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
)

// maxFolders is the maximum number of folders in one build.
const maxFolders = 1000

// Find returns the path of the kustomization in a folder, or "" if it has none.
func Find(dir string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}

	return ""
}

// walker reads a kustomization and all its bases before kustomize does.
type walker struct {
	// bound is the folder that must contain all of them, or "" for none. It is the git repository, if there is one.
	bound string
	seen  []string
}

// Check rejects a build that would be unsafe with a stranger's kustomization: it fetches something, runs a program, or
// reads a file outside the folders of the kustomizations. It returns these folders, beginning with dir.
func Check(dir string) ([]string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("failed to read a kustomization: %w", err)
	}

	if real, err = filepath.Abs(real); err != nil {
		return nil, fmt.Errorf("failed to read a kustomization: %w", err)
	}

	w := walker{bound: FindRepository(real)}
	if err := w.walkFolder(real); err != nil {
		return nil, err
	}

	return w.seen, nil
}

// FindRepository returns the root of a folder's git repository, or "".
func FindRepository(dir string) string {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}

	return ""
}

// ExplainUnreadable explains why a file must not be read for the author of bound. The file may be a link to another
// user's file, a file of git with tokens, or a file without an end. It returns "" if the file is readable or missing.
func ExplainUnreadable(bound, file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}

	if real, err = filepath.Abs(real); err != nil {
		return ""
	}

	info, err := os.Stat(real)

	switch {
	case err != nil:
		return ""
	case !isWithin(bound, real):
		return "it is a link to a file outside " + bound + "; replace the link with a copy of the file"
	case slices.ContainsFunc(strings.Split(filepath.ToSlash(strings.TrimPrefix(real, bound)), "/"), isGits):
		return "it is an internal file of git; remove it"
	case !info.IsDir() && !info.Mode().IsRegular():
		return "it is neither a file nor a folder; remove it"
	}

	return ""
}

// isGits reports whether a name means the folder of git itself. It also knows file systems with short names, or without
// case.
func isGits(name string) bool {
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

func (w *walker) walkFolder(dir string) error {
	if slices.Contains(w.seen, dir) {
		return nil
	}

	if w.seen = append(w.seen, dir); len(w.seen) > maxFolders {
		return fmt.Errorf("%s: it uses more than %d folders", w.seen[0], maxFolders)
	}

	file := Find(dir)
	if file == "" {
		return fmt.Errorf("%s: no kustomization.yaml found", dir)
	}

	bound := cmp.Or(w.bound, dir)
	if problem := ExplainUnreadable(bound, file); problem != "" {
		return fmt.Errorf("%s: %s", file, problem)
	}

	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read a kustomization: %w", err)
	}

	read := &reader{file: file, dir: dir, bound: bound}
	if err := yaml.NewDecoder(bytes.NewReader(content)).Decode(&read.document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}

	var k types.Kustomization
	if err := k.Unmarshal(content); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}

	if err := read.checkFields(&k); err != nil {
		return err
	}

	for _, base := range slices.Concat(k.Resources, k.Bases, k.Components) { //nolint:staticcheck // still read
		if err := w.followBase(read, base); err != nil {
			return err
		}
	}

	return nil
}

// followBase follows an entry if the entry is a folder.
func (w *walker) followBase(read *reader, entry string) error {
	real, err := filepath.EvalSymlinks(filepath.Join(read.dir, entry))
	if err != nil {
		return read.refuseEntry(
			entry,
			"no such file or folder; olvmctl does not download bases: correct the path, or copy the base into the "+
				"repository",
		)
	}

	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // a file, whose place kustomize checks
	}

	if w.bound != "" && !isWithin(w.bound, real) {
		return read.refuseEntry(entry, "it is outside the repository "+w.bound)
	}

	return w.walkFolder(real)
}

func isWithin(dir, path string) bool {
	inside, err := filepath.Rel(dir, path)

	return err == nil && filepath.IsLocal(inside)
}

// reader checks one kustomization.
type reader struct {
	file, dir string
	// bound is the folder that must contain all readable files, and the targets of links.
	bound    string
	document yaml.Node
}

func (r *reader) checkFields(k *types.Kustomization) error {
	for _, field := range []struct {
		name string
		used bool
	}{
		{"helmCharts", len(k.HelmCharts) > 0}, {"helmGlobals", k.HelmGlobals != nil},
		{"helmChartInflationGenerator", len(k.HelmChartInflationGenerator) > 0},
	} {
		if field.used {
			return r.refuseEntry(field.name, "olvmctl does not run Helm; pipe the output of helm template to -f -")
		}
	}

	for _, field := range []struct {
		name string
		used bool
	}{
		{"generators", len(k.Generators) > 0}, {"transformers", len(k.Transformers) > 0},
		{"validators", len(k.Validators) > 0},
	} {
		if field.used {
			return r.refuseEntry(
				field.name,
				"olvmctl runs no plugins; build the folder with kustomize, and pipe its output to -f -",
			)
		}
	}

	for _, entry := range entriesOf(k) {
		if problem := notLocal(entry); problem != "" {
			return r.refuseEntry(entry, problem)
		}

		// kustomize itself checks the path of other files.
		path := filepath.Join(r.dir, entry)
		if problem := ExplainUnreadable(r.bound, path); problem != "" && (isLink(path) || isWithin(r.bound, path)) {
			return r.refuseEntry(entry, problem)
		}
	}

	return nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)

	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// entriesOf returns all paths in a kustomization.
func entriesOf(k *types.Kustomization) []string {
	out := slices.Concat(k.Resources, k.Bases, k.Components, k.Crds, k.Configurations) //nolint:staticcheck // read
	for _, patch := range slices.Concat(k.Patches, k.PatchesJson6902) {                //nolint:staticcheck // read
		out = append(out, patch.Path)
	}

	for _, patch := range k.PatchesStrategicMerge { //nolint:staticcheck // still read
		if text := string(patch); !strings.Contains(text, "\n") { // otherwise it is the patch itself
			out = append(out, text)
		}
	}

	for _, replacement := range k.Replacements {
		out = append(out, replacement.Path)
	}

	out = append(out, k.OpenAPI["path"])

	var sources []types.KvPairSources
	for _, from := range k.ConfigMapGenerator {
		sources = append(sources, from.KvPairSources)
	}

	for _, from := range k.SecretGenerator {
		sources = append(sources, from.KvPairSources)
	}

	for _, from := range sources {
		for _, file := range from.FileSources {
			if _, path, found := strings.Cut(file, "="); found {
				file = path
			}

			out = append(out, file)
		}

		out = append(append(out, from.EnvSources...), from.EnvSource)
	}

	return out
}

// notLocal explains why an entry is not a local file, or returns "" if it is. kustomize clones many entries with git,
// because it takes them for addresses of repositories. They have a colon, a query, or the name of GitHub, also after a
// user. It does this even if a folder with this name exists.
func notLocal(entry string) string {
	lower := strings.ToLower(entry)
	if user, rest, found := strings.Cut(lower, "@"); found && !strings.Contains(user, "/") {
		lower = rest
	}

	switch {
	case strings.ContainsAny(entry, ":?"), strings.HasPrefix(lower, "github.com"):
		return "olvmctl does not download files; copy it into the repository"
	case filepath.IsAbs(entry):
		return "absolute paths are not supported; use a path relative to the kustomization"
	}

	return ""
}

// refuseEntry returns an error about a key or an entry, with its line.
func (r *reader) refuseEntry(text, problem string) error {
	where := r.file
	if line := lineOf(&r.document, text); line > 0 {
		where = fmt.Sprintf("%s: line %d", r.file, line)
	}

	return errors.New(where + ": " + text + ": " + problem)
}

// lineOf returns the line of the first key or value containing a text.
func lineOf(node *yaml.Node, text string) int {
	if node.Kind == yaml.ScalarNode && strings.Contains(node.Value, text) {
		return node.Line
	}

	for _, child := range node.Content {
		if line := lineOf(child, text); line > 0 {
			return line
		}
	}

	return 0
}
