package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// confirmWord asks the user to type a word on the terminal, unless yes is set. An interrupt ends the question at once.
func confirmWord(ctx context.Context, s streams, yes bool, question, word string) error {
	if yes {
		return nil
	}

	input, ok := s.in.(*os.File)
	if !ok || !term.IsTerminal(int(input.Fd())) {
		_, _ = fmt.Fprintln(s.err, question)

		return errors.New("cannot ask for confirmation without a terminal; use --yes")
	}

	return askForWord(ctx, input, s.err, question, word)
}

// askForWord asks the user to type a word.
func askForWord(ctx context.Context, from io.Reader, to io.Writer, question, word string) error {
	if _, err := io.WriteString(to, question); err != nil {
		return err
	}

	type answer struct {
		text string
		err  error
	}

	answered := make(chan answer, 1)
	go func() { // may block until the process exits
		text, err := bufio.NewReader(from).ReadString('\n')
		answered <- answer{text, err}
	}()

	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(to)
		return progress.ErrInterrupted
	case got := <-answered:
		if got.err != nil && !errors.Is(got.err, io.EOF) {
			return fmt.Errorf("failed to read the answer: %w", got.err)
		}

		if strings.TrimSpace(got.text) != word {
			return fmt.Errorf("canceled: the answer is not %q", word)
		}

		return nil
	}
}
