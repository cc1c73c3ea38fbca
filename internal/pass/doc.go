// Package pass is how a controller looks at an object once: it reads it, changes it in memory, and writes it. A pass
// writes at most twice, because the API server takes an object and its status apart, and what it writes begins no other
// pass. A pass never begins with an object that is older than what an earlier pass wrote.
//
// Controller and Frame are the frame of all controllers with a status: each pass has the same guards in the same order.
package pass
