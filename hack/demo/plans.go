package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

// This file plans changes without applying them.

// change is a possible change of the manifests.
type change struct {
	// what describes the change in words.
	what string
	make func(manifests string) (string, error)
}

// changes are possible changes to a sample's manifests: more workers, larger workers, and no change.
var changes = []change{
	{"another worker: replicas of demo-md-0 become 3", func(manifests string) (string, error) {
		return editDocument(manifests, "MachineDeployment", func(document string) string {
			return strings.Replace(document, "replicas: 2", "replicas: 3", 1)
		})
	}},
	{"larger workers: demo-md-0 gets a template with more memory", func(manifests string) (string, error) {
		larger, err := editDocument(manifests, "MachineDeployment", func(document string) string {
			return strings.Replace(document, "kind: OLVMMachineTemplate\n        name: demo-md-0",
				"kind: OLVMMachineTemplate\n        name: demo-md-0-large", 1)
		})
		if err != nil {
			return "", err
		}

		return editDocument(larger, "OLVMMachineTemplate\nmetadata:\n  name: demo-md-0", func(document string) string {
			return document + "\n---\n" + strings.NewReplacer("name: demo-md-0", "name: demo-md-0-large",
				"memory: 16GB", "memory: 24GB").Replace(document)
		})
	}},
	{"no workers: demo-md-0 is removed from the file", func(manifests string) (string, error) {
		return editDocument(manifests, "MachineDeployment", func(string) string { return "" })
	}},
}

// editDocument changes the document that begins with the given kind, and all text after it. An edit without an effect
// is an error.
func editDocument(manifests, kind string, edit func(document string) string) (string, error) {
	documents := strings.Split(manifests, "---\n")

	for i, document := range documents {
		if !strings.Contains(document, "\nkind: "+kind+"\n") && !strings.HasPrefix(document, "kind: "+kind+"\n") {
			continue
		}

		if documents[i] = edit(document); documents[i] != document {
			return strings.Join(documents, "---\n"), nil
		}
	}

	return "", fmt.Errorf("no %s of the sample can be changed", kind)
}

// showPlans shows the effects of changes like olvmctl plan, but without the plan of each new VM. It changes nothing.
func (d *demo) showPlans(ctx context.Context) error {
	manifests, err := os.ReadFile(d.manifestFile())
	if err != nil {
		return fmt.Errorf("failed to read the manifests: %w", err)
	}

	d.reportProgress("plans of three changes, none of which is made")

	for _, one := range changes {
		changed, err := one.make(string(manifests))
		if err != nil {
			return err
		}

		begin := time.Now()
		report, err := d.planChanges(ctx, changed)
		if err != nil {
			return fmt.Errorf("failed to plan %s: %w", one.what, err)
		}

		d.reportProgress("%s (%.1f s)\n%s", one.what, time.Since(begin).Seconds(), summarizeReport(report))
	}

	return nil
}

// planChanges compares manifests with the running cluster. It includes deletions, as a GitOps tool with pruning does.
func (d *demo) planChanges(ctx context.Context, manifests string) (planreport.Report, error) {
	input, err := planinput.Load([]string{"-"}, strings.NewReader(manifests))
	if err != nil {
		return planreport.Report{}, err
	}

	input.SetPruning(true)

	if err := input.AddManagementCluster(ctx, d.plane.Client, "", false); err != nil {
		return planreport.Report{}, err
	}

	return preview.NewManifests(input).ReportOn(ctx, preview.Request{Progress: io.Discard})
}

// summarizeReport summarizes a report without unchanged machines, and without the plan of each VM.
func summarizeReport(report planreport.Report) string {
	var lines []string

	for _, object := range report.Pruned {
		lines = append(lines, "deleted: "+object.String())
	}

	for _, owner := range report.Owners {
		lines = append(lines, owner.String())
		for _, difference := range owner.Differences {
			lines = append(lines, "    "+difference)
		}
	}

	for _, machine := range report.Machines {
		addresses := strings.Join(machine.Addresses, ", ")

		switch {
		case machine.Refused != "":
			lines = append(lines, "refused: "+machine.Refused)
		case machine.Destroyed != "":
			lines = append(lines, fmt.Sprintf("- %s, with its disks: %s", machine.Name,
				strings.Join(machine.Disks, ", ")))
		case machine.Replaces != "":
			lines = append(lines, fmt.Sprintf("+ %s, %s, in place of %s", machine.Name, addresses, machine.Replaces))
		case machine.Replaced == "" && len(machine.Changes) > 0:
			lines = append(lines, fmt.Sprintf("+ %s, %s: %s", machine.Name, addresses,
				english.Plural(len(machine.Changes), "resource", "")))
		}
	}

	lines = append(lines, report.Summary.String())

	return plaintext.Printable("        " + strings.Join(lines, "\n        "))
}
