// Package inventory defines the initial content of an engine. It parses and validates a YAML file, and converts its
// content to objects of a store.
package inventory
