package survey

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/huh"
	"golang.org/x/term"

	_ "github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile/survey/plain" // before Bubble Tea
)

// tall is the maximum number of choices shown at once.
const tall = 12

// Terminal is an Asker that asks a user at a terminal.
type Terminal struct {
	in, out *os.File
	// lines asks line by line, for screen readers and for terminals that cannot move the cursor.
	lines bool
	// introduced reports whether the user already knows how to go back.
	introduced bool
}

// goBack is the line that returns to the previous question.
const goBack = "<"

// NewTerminal returns a Terminal if both streams are terminals. Otherwise it returns nil. With the environment variable
// ACCESSIBLE or TERM=dumb, it asks line by line.
func NewTerminal(in io.Reader, out io.Writer) *Terminal {
	from, ok1 := in.(*os.File)
	to, ok2 := out.(*os.File)
	if !ok1 || !ok2 || !term.IsTerminal(int(from.Fd())) || !term.IsTerminal(int(to.Fd())) {
		return nil
	}

	return &Terminal{in: from, out: to, lines: os.Getenv("ACCESSIBLE") != "" || os.Getenv("TERM") == "dumb"}
}

// AskQuestion implements Asker.
func (t *Terminal) AskQuestion(ctx context.Context, q Question) (string, error) {
	switch {
	case q.Given != "":
		_, err := fmt.Fprintf(t.out, "%s: taken from %s\n", q.Title, q.From)
		return q.Given, err
	case q.isDecided():
		_, err := fmt.Fprintf(t.out, "%s: %s (the only choice)\n", q.Title, q.Choices[0])
		return q.Choices[0], err
	}

	if err := t.explainGoingBack(); err != nil {
		return "", err
	}

	var answer string
	if slices.Contains(q.Choices, q.Default) {
		answer = q.Default
	}

	title := q.Title
	if t.lines { // lines have neither help nor placeholders
		if _, err := fmt.Fprintln(t.out, q.Help); err != nil {
			return "", err
		}

		if q.Default != "" {
			title += " [" + q.Default + "]"
		}

		title += ":"
	}

	if err := t.showField(ctx, t.newField(q, title, &answer)); err != nil {
		return "", err
	}

	if answer == goBack {
		return "", ErrBack
	}

	answer, err := q.parseAnswer(answer)
	if err != nil {
		return "", fmt.Errorf("%s: %w", q.Key, err) // the answer was changed after it was accepted
	}

	if !t.lines { // the question is no longer on the screen
		shown := answer
		if q.Secret {
			shown = "(hidden)"
		}

		_, err = fmt.Fprintf(t.out, "%s: %s\n", q.Title, shown)
	}

	return answer, err
}

// explainGoingBack tells the user once how to go back.
func (t *Terminal) explainGoingBack() error {
	if t.introduced {
		return nil
	}

	t.introduced = true
	how := "Press Shift+Tab"
	if t.lines {
		how = "Enter " + goBack
	}

	_, err := fmt.Fprintln(t.out, how+" to return to the previous question, or press Ctrl-C to exit without "+
		"writing files.")

	return err
}

// newField returns the huh field for a question.
func (t *Terminal) newField(q Question, title string, answer *string) huh.Field {
	if len(q.Choices) > 0 {
		field := huh.NewSelect[string]().Title(title).Description(q.Help).Options(huh.NewOptions(q.Choices...)...).
			Value(answer)
		if len(q.Choices) > tall {
			field.Height(tall + 2)
		}

		return field
	}

	echo := huh.EchoModeNormal
	if q.Secret {
		echo = huh.EchoModePassword
	}

	return huh.NewInput().Title(title).Description(q.Help).Placeholder(q.Default).EchoMode(echo).
		Value(answer).Validate(func(text string) error {
		if text == goBack { // line by line; it answers no question
			return nil
		}

		_, err := q.parseAnswer(text)

		return err
	})
}

// showField shows a field until the user has answered it.
func (t *Terminal) showField(ctx context.Context, field huh.Field) error {
	if t.lines {
		return t.showLine(ctx, field)
	}

	// A signal ends ctx. Bubble Tea's own signal handler would wait for the program. The program has already ended with
	// ctx, and would wait for the handler.
	back := false
	leave := func(_ tea.Model, message tea.Msg) tea.Msg {
		if key, is := message.(tea.KeyMsg); is && key.Type == tea.KeyShiftTab {
			back = true
			return tea.Quit() // unlike Ctrl-C, which lets Bubble Tea read the input for the next question
		}

		return message
	}
	form := huh.NewForm(huh.NewGroup(field)).WithTheme(huh.ThemeBase16()).WithProgramOptions(tea.WithInput(t.in),
		tea.WithOutput(t.out), tea.WithoutSignalHandler(), tea.WithFilter(leave))

	err := form.RunWithContext(ctx)
	switch {
	case ctx.Err() == nil && back:
		return ErrBack
	case ctx.Err() != nil || errors.Is(err, huh.ErrUserAborted):
		return ErrInterrupted
	case err != nil:
		return fmt.Errorf("failed to read from the terminal: %w", err)
	}

	return nil
}

// ending detects two inputs that huh misreads. huh takes the end of the input for an empty answer, and the line for
// going back for an invalid choice.
type ending struct {
	*os.File // huh reads passwords from its descriptor

	ended, back bool
}

// Read reads at most one line, because a terminal returns lines.
func (e *ending) Read(p []byte) (int, error) {
	n, err := e.File.Read(p)
	e.ended = e.ended || err != nil

	if strings.TrimSpace(string(p[:n])) == goBack {
		e.back = true
		return 0, io.EOF
	}

	return n, err
}

// showLine asks the user to answer a field line by line. huh cannot be interrupted here. The reading goroutine stays
// behind, because the program ends soon.
func (t *Terminal) showLine(ctx context.Context, field huh.Field) error {
	state, err := term.GetState(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("failed to read from the terminal: %w", err)
	}

	in, done := &ending{File: t.in}, make(chan error, 1)
	go func() { done <- field.WithTheme(huh.ThemeBase()).RunAccessible(t.out, in) }()

	select {
	case <-ctx.Done():
		_ = term.Restore(int(t.in.Fd()), state) // password input had hidden the text
		return ErrInterrupted
	case err := <-done:
		if in.back {
			return ErrBack
		}

		if in.ended || errors.Is(err, io.EOF) {
			return ErrInterrupted
		}

		return err
	}
}

// ConfirmCA implements Asker.
func (t *Terminal) ConfirmCA(ctx context.Context, ca *x509.Certificate) error {
	subject, validity, fingerprint := describeCA(ca)
	_, err := fmt.Fprintf(
		t.out,
		`This system does not trust the CA that signed the engine's certificate. The engine presents this CA:
  subject  %s
  valid    %s
  SHA-256  %s
To get the fingerprint on the engine, run: openssl x509 -noout -sha256 -fingerprint -in /etc/pki/ovirt-engine/ca.pem
`,
		subject, validity, fingerprint,
	)
	if err != nil {
		return err
	}

	var is bool
	err = t.showField(
		ctx, huh.NewConfirm().Title("Do the fingerprints match?").Affirmative("Yes").Negative("No").Value(&is),
	)
	if err != nil {
		return err
	}

	if !is {
		return errors.New("the engine's CA is not confirmed; no files were written")
	}

	return nil
}

// RejectAnswer implements Asker.
func (t *Terminal) RejectAnswer(_ string, reason error) error {
	_, err := fmt.Fprintln(t.out, reason)
	return err
}
