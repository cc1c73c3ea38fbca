package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// confirm asks for a word on a terminal; yes answers.
func confirm(s streams, yes bool, question, word string) error {
	if yes {
		return nil
	}

	input, ok := s.in.(*os.File)
	if !ok || !term.IsTerminal(int(input.Fd())) {
		return errors.New("there is no terminal to ask on; give --yes")
	}

	if _, err := io.WriteString(s.err, question); err != nil {
		return err
	}

	answer, err := bufio.NewReader(input).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("failed to read the answer: %w", err)
	}

	if strings.TrimSpace(answer) != word {
		return errors.New("it stays as it is")
	}

	return nil
}
