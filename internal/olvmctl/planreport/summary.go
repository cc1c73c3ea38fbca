package planreport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Summary has the numbers of machines by their fate. A rollout creates a new machine and deletes the old one, but this
// counts as one replacement.
type Summary struct {
	Create  int64 `json:"create"`
	Update  int64 `json:"update"`
	Replace int64 `json:"replace"`
	Destroy int64 `json:"destroy"`
	// Refused is the number of machines that cannot be created as requested.
	Refused int64 `json:"refused"`
	// Objects is the number of objects to delete in the management cluster, because the manifests do not contain them.
	Objects int64 `json:"objects,omitempty"`
	// Unknown is the number of machines whose fate is unknown, because neither an engine nor a management cluster was
	// asked.
	Unknown int64 `json:"unknown,omitempty"`
}

// String returns the summary line used in all outputs.
func (s Summary) String() string {
	text := fmt.Sprintf("Plan: %s to create, %s to update, %s to replace, %s to destroy", humanize.Comma(s.Create),
		humanize.Comma(s.Update), humanize.Comma(s.Replace), humanize.Comma(s.Destroy))
	if s.Unknown > 0 {
		text = fmt.Sprintf("Plan: what would become of %s %s is not known offline, %s to destroy",
			humanize.Comma(s.Unknown), english.PluralWord(int(s.Unknown), "machine", ""), humanize.Comma(s.Destroy))
	}

	if s.Objects > 0 {
		text += ", " + english.Plural(int(s.Objects), "object", "") + " to delete"
	}

	if s.Refused > 0 {
		text += fmt.Sprintf(", %s refused", humanize.Comma(s.Refused))
	}

	return text
}

// CountChanges returns the number of machines that change.
func (s Summary) CountChanges() int64 { return s.Create + s.Update + s.Replace + s.Destroy }

// countMachines counts the machines by their fate. Candidates for deletion count with their owner.
func countMachines(machines []*Result, owners []OwnerChange) Summary {
	var out Summary

	for _, m := range machines {
		switch m.verdict() {
		case toCreate:
			out.Create++
		case toUpdate:
			out.Update++
		case toReplace:
			out.Replace++
		case toDestroy:
			out.Destroy++
		case isRefused:
			out.Refused++
		}
	}

	for _, owner := range owners {
		unnamed := owner.Deleted - int64(len(owner.Destroyed))
		out.Destroy += unnamed
		out.Update -= countOverlap(machines, owner, unnamed)
	}

	return out
}

// countOverlap returns the number of an owner's machines that count as both updated and destroyed. Cluster API destroys
// some of the candidates, so only the others can be updated.
func countOverlap(machines []*Result, owner OwnerChange, destroyed int64) int64 {
	updated, stay := int64(0), -destroyed

	for _, m := range machines {
		if m.Namespace != owner.Namespace || !slices.Contains(owner.Candidates, m.Name) {
			continue
		}

		switch m.verdict() {
		case toUpdate:
			updated, stay = updated+1, stay+1
		case isRefused: // already counted
		default:
			stay++
		}
	}

	return max(0, updated-max(0, stay))
}

// verdict is the fate of a machine.
type verdict string

const (
	stays     verdict = ""
	toCreate  verdict = "create"
	toUpdate  verdict = "update"
	toReplace verdict = "replace"
	toDestroy verdict = "destroy"
	isRefused verdict = "refused"
)

// verdict returns what happens to the machine. A replacement counts at the replaced machine.
func (r *Result) verdict() verdict {
	switch {
	case r.Refused != "":
		return isRefused
	case r.Destroyed != "":
		return toDestroy
	case r.Replaced != "":
		return toReplace
	case r.Replaces != "":
		return stays
	case r.AddsVM(), r.IsNew && (r.VM != "" && len(r.Changes) > 0 || r.Plan == nil && r.Compared):
		return toCreate
	case len(r.Changes) > 0:
		return toUpdate
	}

	return stays
}

// Gone is the text for a machine whose VM was deleted in the engine. The controllers create no new VM.
const Gone = "its VM no longer exists in the engine, and is not created again; delete the Machine, or let a " +
	"MachineHealthCheck replace it"

// LostDisks returns a text with the disks deleted together with the machine's VM.
func (r *Result) LostDisks() string {
	if len(r.Disks) == 0 {
		return ""
	}

	return ", with its disks " + strings.Join(r.Disks, ", ")
}
