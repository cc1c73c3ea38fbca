package planreport

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Summary counts machines by what would become of them. A machine that a rollout replaces is one, although a new one is
// made and the old one is deleted.
type Summary struct {
	Create  int64 `json:"create"`
	Update  int64 `json:"update"`
	Replace int64 `json:"replace"`
	Destroy int64 `json:"destroy"`
	// Refused are those that cannot be made as they are asked for.
	Refused int64 `json:"refused"`
	// Objects are those of the management cluster that would be deleted, because the manifests do not have them.
	Objects int64 `json:"objects,omitempty"`
	// Unknown are those of which nothing is known, because neither an engine nor a management cluster was asked.
	Unknown int64 `json:"unknown,omitempty"`
}

// String is the line that every output has.
func (s Summary) String() string {
	text := fmt.Sprintf("Plan: %s to create, %s to update, %s to replace, %s to destroy", humanize.Comma(s.Create),
		humanize.Comma(s.Update), humanize.Comma(s.Replace), humanize.Comma(s.Destroy))
	if s.Unknown > 0 {
		text = fmt.Sprintf("Plan: what would become of %s machines is not known offline, %s to destroy",
			humanize.Comma(s.Unknown), humanize.Comma(s.Destroy))
	}

	if s.Objects > 0 {
		text += ", " + english.Plural(int(s.Objects), "object", "") + " to delete"
	}

	if s.Refused > 0 {
		text += fmt.Sprintf(", %s refused", humanize.Comma(s.Refused))
	}

	return text
}

// Changes is how many machines something would become of.
func (s Summary) Changes() int64 { return s.Create + s.Update + s.Replace + s.Destroy }

// summarize counts machines. Those of which Cluster API chooses some are counted with their owners.
func summarize(machines []*Result, owners []OwnerChange) Summary {
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
		out.Update -= countedTwice(machines, owner, unnamed)
	}

	return out
}

// countedTwice is how many machines of an owner count as updated, although they are among those of which some are
// destroyed, and at most the others can be updated.
func countedTwice(machines []*Result, owner OwnerChange, destroyed int64) int64 {
	updated, stay := int64(0), -destroyed

	for _, m := range machines {
		if m.Namespace != owner.Namespace || !slices.Contains(owner.Candidates, m.Name) {
			continue
		}

		switch m.verdict() {
		case toUpdate:
			updated, stay = updated+1, stay+1
		case isRefused: // it is counted already
		default:
			stay++
		}
	}

	return max(0, updated-max(0, stay))
}

// verdict is what would become of a machine.
type verdict string

const (
	stays     verdict = ""
	toCreate  verdict = "create"
	toUpdate  verdict = "update"
	toReplace verdict = "replace"
	toDestroy verdict = "destroy"
	isRefused verdict = "refused"
)

// verdict says what would become of the machine. One that takes the place of another is counted with that one.
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

// Gone is the text for a machine whose VM somebody has deleted: the controllers make none in its place.
const Gone = "its VM does not exist in the engine any more, and is not made again: nothing is created. Delete the " +
	"Machine, or let a MachineHealthCheck replace it"

// LostDisks says which disks go with the VM of a machine that is deleted.
func (r *Result) LostDisks() string {
	if len(r.Disks) == 0 {
		return ""
	}

	return ", with its disks " + strings.Join(r.Disks, ", ")
}
