// Package plain prevents Bubble Tea from asking the terminal for its background color when a program starts. Bubble Tea
// would write to the terminal, and would wait up to five seconds for an answer. The survey uses the terminal's own
// colors.
//
// This works because Go initializes packages without uninitialized imports in the order of their paths (Go
// specification, Package initialization). The path of this package comes before that of Bubble Tea.
package plain

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
