// Package inventory has what an engine begins with: a YAML file, how it is read and checked, and how it becomes objects
// of a store.
package inventory
