package store

import (
	"fmt"
)

// This file contains the sort keys of objects.

// GroupKey sorts affinity groups by name.
func GroupKey(g *AffinityGroup) string { return g.Name + g.ID }

// LabelKey sorts affinity labels by name.
func LabelKey(l *AffinityLabel) string { return l.Name }

// ClusterKey sorts clusters by name.
func ClusterKey(g *Cluster) string { return g.Name + g.ID }

// JobKey sorts jobs by start time.
func JobKey(j *Job) string { return j.Started.UTC().Format("20060102150405.000000000") }

// EventKey sorts events by number.
func EventKey(e *Event) string { return fmt.Sprintf("%012d", e.ID) }

// TagKey sorts tags by name.
func TagKey(t *Tag) string { return t.Name + t.ID }

// TemplateKey sorts templates by name and version.
func TemplateKey(t *Template) string { return fmt.Sprintf("%s %06d", t.Name, t.Version) }

// TransferKey sorts transfers by ID.
func TransferKey(t *ImageTransfer) string { return t.ID }

// VMKey sorts VMs by name.
func VMKey(v *VM) string { return v.Name + v.ID }
