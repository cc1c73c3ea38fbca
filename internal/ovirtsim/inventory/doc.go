// Package inventory defines the initial content of an engine: a YAML file, its parsing and validation, and its
// conversion to objects of a store.
package inventory
