// Package plain keeps every program importing Bubble Tea from asking the terminal for its background colour at start.
// The question writes to the terminal, and waits up to five seconds for one without an answer. The survey's colours are
// the terminal's own.
//
// It works because packages without open imports are initialised in the order of their paths (Go specification, Package
// initialization), and this one stands before Bubble Tea.
package plain

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
