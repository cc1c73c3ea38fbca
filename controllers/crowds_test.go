package controllers

import (
	"testing"
	"time"
)

// TestWhileOthersLeaveAPassWaits has three passes one after another, the last of which waits for longer than it would for an
// engine that does not answer.
func TestWhileOthersLeaveAPassWaits(t *testing.T) {
	c := &crowds{limit: 1}
	const each = crowdWait * 2 / 3
	results := make(chan bool, 3)
	for range 3 {
		go func() {
			leave, ok := c.enter(t.Context(), "busy")
			if ok {
				time.Sleep(each)
				leave()
			}
			results <- ok
		}()
	}
	for range 3 {
		if !<-results {
			t.Error("a pass was refused although others left")
		}
	}
}

func TestACrowdAtOneEngineKeepsNobodyFromAnother(t *testing.T) {
	c := &crowds{limit: 2}
	var leave []func()
	for range 2 {
		done, ok := c.enter(t.Context(), "slow")
		if !ok {
			t.Fatal("there was no place at an idle engine")
		}
		leave = append(leave, done)
	}
	for range 100 { // only the first one waits
		if _, ok := c.enter(t.Context(), "slow"); ok {
			t.Fatal("a third pass is at the engine")
		}
	}
	if _, ok := c.enter(t.Context(), "swift"); !ok {
		t.Error("there was no place at the other engine")
	}
	leave[0]()
	if _, ok := c.enter(t.Context(), "slow"); !ok {
		t.Error("a place that was left is not given")
	}
}
