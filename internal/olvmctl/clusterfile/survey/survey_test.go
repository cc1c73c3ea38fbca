package survey

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTheReferenceHasEveryKeyInTheirOrder(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "user", "init.md"))
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(content), "| key |")

	answers := reflect.TypeFor[Answers]()
	for i := range answers.NumField() {
		key := answers.Field(i).Tag.Get("yaml")
		_, after, found := strings.Cut(rest, "`"+key+"`")
		if !found {
			t.Fatalf("docs/user/init.md says nothing of %s, or not in its order", key)
		}

		rest = after
	}
}

// files writes files to a folder, and returns the folder.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()

	dir := t.TempDir()
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

func TestAllFilesAreWrittenOrNone(t *testing.T) {
	for name, force := range map[string]bool{"that are new": false, "that overwrite": true} {
		t.Run(name, func(t *testing.T) {
			before := map[string]string{}
			if force {
				before = map[string]string{"a": "old a", "b": "old b"}
			}

			dir, staging := files(t, before), files(t, map[string]string{"a": "new a", "b": "new b"})
			s := &survey{Options: Options{Output: filepath.Join(dir, "a"), Force: force}}
			err := s.publishFiles(staging, []output{{name: "a"}, {name: "b"}, {name: "lost"}})
			if !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}

			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != len(before) {
				t.Errorf("%v, %v", entries, err)
			}

			for name, want := range before {
				if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != want {
					t.Errorf("%s is %q, %v", name, content, err)
				}
			}
		})
	}
}

func TestAFileThatCameMeanwhileIsKept(t *testing.T) {
	dir, staging := files(t, map[string]string{"b": "theirs"}), files(t, map[string]string{"a": "a", "b": "b"})
	s := &survey{Options: Options{Output: filepath.Join(dir, "a")}}
	err := s.publishFiles(staging, []output{{name: "a"}, {name: "b"}})
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("%v", err)
	}

	if content, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(content) != "theirs" {
		t.Errorf("%q, %v", content, err)
	}

	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other one is there: %v", err)
	}
}

// ends is an Asker whose user leaves at the first question.
type ends struct{ cancel context.CancelFunc }

func (e ends) AskQuestion(ctx context.Context, _ Question) (string, error) {
	e.cancel()
	return "", ctx.Err()
}
func (ends) ConfirmCA(context.Context, *x509.Certificate) error { return nil }
func (ends) RejectAnswer(_ string, reason error) error          { return reason }

func TestASurveyThatEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, ends{cancel}, Options{Output: filepath.Join(t.TempDir(), "cluster.yaml")})
	if !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
}

func TestACADoesNotSteerTheTerminal(t *testing.T) {
	ca := &x509.Certificate{Raw: []byte("a certificate")}
	ca.Subject.CommonName = "an engine\x1b[2J\rof mine"
	if subject, _, fingerprint := describeCA(ca); subject != "CN=an engine?[2J?of mine" || len(fingerprint) != 32*3-1 {
		t.Errorf("%q, %s", subject, fingerprint)
	}
}
