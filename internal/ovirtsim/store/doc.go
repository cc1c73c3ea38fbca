// Package store holds the objects of a simulated engine in tables. With a state folder, a journal keeps them across
// restarts. The package defines the objects; package api implements their behavior.
package store
