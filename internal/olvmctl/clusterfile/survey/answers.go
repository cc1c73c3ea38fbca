package survey

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
)

// File is an Asker that reads its answers from a file.
type File struct {
	path   string
	values map[string]*yaml.Node
}

// ReadFile reads a file with answers. An unknown key is an error.
func ReadFile(path string) (*File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--answers: %w", err)
	}

	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	f := &File{path: path, values: map[string]*yaml.Node{}}
	if len(document.Content) == 0 {
		return f, nil
	}

	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: not a YAML mapping", path)
	}

	var wrong []error
	for _, p := range clusterfile.UnknownKeys[Answers](path, root) {
		wrong = append(wrong, p)
	}

	var answers Answers
	if err := root.Decode(&answers); err != nil { // finds duplicate keys, and values other than text
		wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
	}

	for i := 0; i+1 < len(root.Content); i += 2 {
		if value := root.Content[i+1]; value.Tag != "!!null" && value.Value != "" {
			f.values[root.Content[i].Value] = value
		}
	}

	return f, errors.Join(wrong...)
}

// answerProblem returns a problem with an answer.
func (f *File) answerProblem(key, format string, args ...any) error {
	p := clusterfile.Problem{File: f.path, Path: key, Message: fmt.Sprintf(format, args...)}
	if value := f.values[key]; value != nil {
		p.Line = value.Line
	}

	return p
}

// givenAnswer returns the answer in the file to a question, and reports whether there is one.
func (f *File) givenAnswer(key string) (string, bool) {
	if value := f.values[key]; value != nil {
		return value.Value, true
	}

	return "", false
}

// AskQuestion implements Asker.
func (f *File) AskQuestion(_ context.Context, q Question) (string, error) {
	text, given := f.givenAnswer(q.Key)
	switch {
	case given || q.Default != "" || q.Optional:
	case q.Given != "":
		text = q.Given
	case q.Sole && len(q.Choices) == 1:
		text = q.Choices[0]
	case len(q.Choices) > 0:
		return "", f.answerProblem(q.Key, "required; use one of %s", strings.Join(q.Choices, ", "))
	case q.Secret:
		return "", f.answerProblem(q.Key, "required; set it here, or in %s", q.From)
	default:
		return "", f.answerProblem(q.Key, "required. %s", q.Help)
	}

	text, err := q.parseAnswer(text)
	if err != nil {
		return "", f.answerProblem(q.Key, "%v", err)
	}

	return text, nil
}

// ConfirmCA implements Asker. The file must have the fingerprint of the CA.
func (f *File) ConfirmCA(_ context.Context, ca *x509.Certificate) error {
	const key = "caFingerprint"
	subject, validity, fingerprint := describeCA(ca)
	text, given := f.givenAnswer(key)

	plain := func(text string) string { return strings.ToUpper(strings.NewReplacer(":", "", " ", "").Replace(text)) }
	switch {
	case !given:
		return f.answerProblem(
			key,
			"required, because this system does not trust the engine's CA: %s, valid %s, SHA-256 %s. Compare the "+
				"fingerprint with the one on the engine, and set it here",
			subject, validity, fingerprint,
		)
	case plain(text) != plain(fingerprint):
		return f.answerProblem(key,
			"the engine's CA has the SHA-256 fingerprint %s, not %s; this may be another server",
			fingerprint, text)
	}

	return nil
}

// RejectAnswer implements Asker. It returns the reason as an error, because a file has only one answer.
func (f *File) RejectAnswer(key string, reason error) error {
	return f.answerProblem(key, "%v", reason)
}
