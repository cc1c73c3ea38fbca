package survey

import (
	"context"
	"crypto/x509"
	"errors"
)

// ErrBack is returned by an Asker if its user wants to return to the previous question.
var ErrBack = errors.New("back to the previous question")

// memory is an Asker that remembers the answers. A survey can therefore restart, and return to the previous question.
// The user does not have to answer all questions again.
type memory struct {
	Asker
	// given are the answers in the order of the questions. at is the number of answers used again since the restart.
	given []given
	at    int
	// last has the answers given before the user went back, by key. They become the defaults of the questions.
	last map[string]earlier
	// confirmed has the fingerprints of confirmed CAs.
	confirmed map[string]bool
}

// earlier is an answer given before the user went back. It also has the default and the help of the question.
type earlier struct{ text, offered, help string }

// given is an answer to a question. asked reports whether the user has typed the answer, and so may want to change it.
type given struct {
	key, text string
	asked     bool
}

func newMemory(asker Asker) *memory {
	return &memory{Asker: asker, last: map[string]earlier{}, confirmed: map[string]bool{}}
}

// rewindAnswers restarts the survey with the remembered answers.
func (m *memory) rewindAnswers() { m.at = 0 }

// AskQuestion implements Asker.
func (m *memory) AskQuestion(ctx context.Context, q Question) (string, error) {
	if text, known := m.replayAnswer(q); known {
		return text, nil
	}

	now := earlier{offered: q.Default, help: q.Help}

	// If the default has changed, other earlier answers have changed it. The new default is then better than the old
	// answer.
	last, known := m.last[q.Key]
	if known && !q.Secret && last.offered == now.offered && last.help == now.help {
		if _, err := q.parseAnswer(last.text); err == nil {
			q.Default = last.text
		}
	}

	for {
		text, err := m.Asker.AskQuestion(ctx, q)
		if errors.Is(err, ErrBack) {
			if m.dropLastAnswer() {
				return "", ErrBack
			}

			continue // there is no previous question
		}

		if err != nil {
			return "", err
		}

		m.given = append(m.given, given{key: q.Key, text: text, asked: !q.isDecided()})
		m.at = len(m.given)
		now.text = text
		m.last[q.Key] = now

		return text, nil
	}
}

// replayAnswer returns the remembered answer to a question. If the order of questions has changed, or the answer is no
// longer valid, replayAnswer forgets this answer and all later ones.
func (m *memory) replayAnswer(q Question) (string, bool) {
	if m.at < len(m.given) && m.given[m.at].key == q.Key {
		if text, err := q.parseAnswer(m.given[m.at].text); err == nil {
			m.at++
			return text, true
		}
	}

	m.given = m.given[:m.at]

	return "", false
}

// dropLastAnswer forgets the last answer typed by the user, and all later answers. It returns false if the user has
// typed none.
func (m *memory) dropLastAnswer() bool {
	for i := len(m.given) - 1; i >= 0; i-- {
		if m.given[i].asked {
			m.given = m.given[:i]
			return true
		}
	}

	return false
}

// ConfirmCA implements Asker.
func (m *memory) ConfirmCA(ctx context.Context, ca *x509.Certificate) error {
	fingerprint := Fingerprint(ca)
	if m.confirmed[fingerprint] {
		return nil
	}

	err := m.Asker.ConfirmCA(ctx, ca)
	if err == nil {
		m.confirmed[fingerprint] = true
	}

	if errors.Is(err, ErrBack) {
		m.dropLastAnswer()
	}

	return err
}

// RejectAnswer implements Asker. It forgets the answer.
func (m *memory) RejectAnswer(key string, reason error) error {
	for i := len(m.given) - 1; i >= 0; i-- {
		if m.given[i].key == key {
			m.given = m.given[:i]
			m.at = i

			break
		}
	}

	return m.Asker.RejectAnswer(key, reason)
}
