// Package pass implements one reconcile of an object. A pass reads the object, changes it in memory, and writes it. It
// writes at most twice, because the API server stores an object and its status by separate requests. Its own writes
// cause no other pass. A pass never starts with an object older than the one that an earlier pass wrote.
//
// All controllers with a status use Controller and Frame. Each pass therefore has the same guards in the same order.
package pass
