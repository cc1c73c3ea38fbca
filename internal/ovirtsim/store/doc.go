// Package store has the objects of a simulated engine, in tables, with a journal where a folder keeps them over
// restarts. It knows what objects are, not what happens to them: that is in api.
package store
