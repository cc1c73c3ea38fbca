package survey

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// script is an Asker that answers from a list, and records the defaults offered to it.
type script struct {
	answers  []string
	defaults []string
}

func (s *script) AskQuestion(_ context.Context, q Question) (string, error) {
	next := s.answers[0]
	s.answers = s.answers[1:]
	s.defaults = append(s.defaults, q.Default)

	switch next {
	case "<":
		return "", ErrBack
	case "":
		return q.Default, nil
	}

	return next, nil
}

func (s *script) ConfirmCA(context.Context, *x509.Certificate) error { return nil }
func (s *script) RejectAnswer(string, error) error                   { return nil }

// TestGoingBackOffersEarlierAnswers answers a template, its version and a name. It then goes back twice, and answers
// with another template.
func TestGoingBackOffersEarlierAnswers(t *testing.T) {
	person := &script{answers: []string{"ol9-v1.31", "", "prod", "<", "<", "<", "ol9-v1.32", "", ""}}
	m := newMemory(person)

	survey := func() (answers []string, err error) {
		m.rewindAnswers()

		for _, key := range []string{"template", "kubernetesVersion", "name", "subnet"} {
			q := Question{Key: key, Optional: true}
			if key == "kubernetesVersion" {
				q.Default = versionIn(answers[0])
			}

			answer, err := m.AskQuestion(t.Context(), q)
			if err != nil {
				return nil, err
			}

			if answers = append(answers, answer); key == "name" && len(person.answers) == 0 {
				return answers, nil
			}
		}

		return answers, nil
	}

	answers, err := survey()
	for errors.Is(err, ErrBack) {
		answers, err = survey()
	}

	check.Error(t, err, "")
	check.Equal(t, "the answers", answers, []string{"ol9-v1.32", "1.32", "prod"})
	check.Equal(t, "what was offered", person.defaults,
		[]string{"", "1.31", "", "", "prod", "1.31", "ol9-v1.31", "1.32", "prod"})
}
