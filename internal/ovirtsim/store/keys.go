package store

import (
	"fmt"
)

// This file has what lists of objects are ordered by.

// GroupKey orders them by name.
func GroupKey(g *AffinityGroup) string { return g.Name + g.ID }

// LabelKey orders them by name.
func LabelKey(l *AffinityLabel) string { return l.Name }

// ClusterKey orders them by name.
func ClusterKey(g *Cluster) string { return g.Name + g.ID }

// JobKey orders by time of start.
func JobKey(j *Job) string { return j.Started.UTC().Format("20060102150405.000000000") }

// EventKey orders them by number.
func EventKey(e *Event) string { return fmt.Sprintf("%012d", e.ID) }

// TagKey orders them by name.
func TagKey(t *Tag) string { return t.Name + t.ID }

// TemplateKey orders them by name and version.
func TemplateKey(t *Template) string { return fmt.Sprintf("%s %06d", t.Name, t.Version) }

// TransferKey orders them by ID.
func TransferKey(t *ImageTransfer) string { return t.ID }

// VMKey orders them by name.
func VMKey(v *VM) string { return v.Name + v.ID }
