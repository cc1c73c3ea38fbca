package survey

import (
	"context"
	"crypto/x509"
	"errors"
)

// ErrBack is the answer of an Asker whose user wants the question before.
var ErrBack = errors.New("back to the question before")

// memory is an Asker that remembers the answers, so that a survey can begin anew and come to the question before
// without a person who answers all of it again.
type memory struct {
	Asker
	// given are the answers in their order, and at is the number of those that the survey has had since it began.
	given []given
	at    int
	// last are the answers of before a person went back, by their keys. They are the defaults of the questions.
	last map[string]earlier
	// confirmed are the fingerprints of the CAs that were confirmed.
	confirmed map[string]bool
}

// earlier is an answer of before a person went back, and the default and the help with which it was asked for.
type earlier struct{ text, offered, help string }

// given is an answer. asked reports that a person gave it, who may want to give another one.
type given struct {
	key, text string
	asked     bool
}

func newMemory(asker Asker) *memory {
	return &memory{Asker: asker, last: map[string]earlier{}, confirmed: map[string]bool{}}
}

// rewind has the survey begin anew, with the answers that are left.
func (m *memory) rewind() { m.at = 0 }

// Ask implements Asker.
func (m *memory) Ask(ctx context.Context, q Question) (string, error) {
	if text, known := m.replay(q); known {
		return text, nil
	}

	now := earlier{offered: q.Default, help: q.Help}

	// Where another default follows from other answers before, it is better than what was answered then.
	last, known := m.last[q.Key]
	if known && !q.Secret && last.offered == now.offered && last.help == now.help {
		if _, err := q.accept(last.text); err == nil {
			q.Default = last.text
		}
	}

	for {
		text, err := m.Asker.Ask(ctx, q)
		if errors.Is(err, ErrBack) {
			if m.back() {
				return "", ErrBack
			}

			continue // there is no question before
		}

		if err != nil {
			return "", err
		}

		m.given = append(m.given, given{key: q.Key, text: text, asked: !q.decided()})
		m.at = len(m.given)
		now.text = text
		m.last[q.Key] = now

		return text, nil
	}
}

// replay is the answer that was given to a question. Those after a question that has another place, or another answer,
// are forgotten.
func (m *memory) replay(q Question) (string, bool) {
	if m.at < len(m.given) && m.given[m.at].key == q.Key {
		if text, err := q.accept(m.given[m.at].text); err == nil {
			m.at++
			return text, true
		}
	}

	m.given = m.given[:m.at]

	return "", false
}

// back forgets the answers from the last one on that a person has given. It reports false where there is none.
func (m *memory) back() bool {
	for i := len(m.given) - 1; i >= 0; i-- {
		if m.given[i].asked {
			m.given = m.given[:i]
			return true
		}
	}

	return false
}

// Confirm implements Asker.
func (m *memory) Confirm(ctx context.Context, ca *x509.Certificate) error {
	fingerprint := Fingerprint(ca)
	if m.confirmed[fingerprint] {
		return nil
	}

	err := m.Asker.Confirm(ctx, ca)
	if err == nil {
		m.confirmed[fingerprint] = true
	}

	if errors.Is(err, ErrBack) {
		m.back()
	}

	return err
}

// Again implements Asker: the answer is forgotten.
func (m *memory) Again(key string, reason error) error {
	for i := len(m.given) - 1; i >= 0; i-- {
		if m.given[i].key == key {
			m.given = m.given[:i]
			m.at = i

			break
		}
	}

	return m.Asker.Again(key, reason)
}
