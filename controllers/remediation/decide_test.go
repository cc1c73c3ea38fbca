package remediation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestARebootHasItsStepsInOrder(t *testing.T) {
	now := time.Now()
	vm := func(status engine.VMStatus) *engine.VM { return &engine.VM{Status: status} }

	for name, c := range map[string]struct {
		step     infrav1alpha1.RemediationStep
		attempts int32
		age      time.Duration
		// asked is the time since the engine agreed to power the VM off; 0 means not yet.
		asked time.Duration
		vm    *engine.VM
		want  action
	}{
		"a reboot is recorded before the VM is touched": {vm: vm(engine.VMUp), want: begin},
		"a machine without a VM is replaced":            {want: giveUp},
		"a VM that runs is powered off":                 {"PoweringOff", 1, 0, 0, vm(engine.VMUp), powerOff},
		"a paused VM is powered off":                    {"PoweringOff", 1, 0, 0, vm(engine.VMPaused), powerOff},
		"a VM whose guest hangs is powered off":         {"PoweringOff", 1, 0, 0, vm(engine.VMNotResponding), powerOff},
		"an outage of the engine costs no machine":      {"PoweringOff", 1, time.Hour, 0, vm(engine.VMUp), powerOff},
		"a VM that goes down is waited for":             {"PoweringOff", 1, 0, 0, vm(engine.VMPoweringDown), wait},
		"a VM that stays locked is given up": {
			"PoweringOff", 1, time.Hour, 0, vm(engine.VMImageLocked), giveUp,
		},
		"a VM that was asked is not asked again": {"PoweringOff", 1, 0, time.Second, vm(engine.VMUp), wait},
		"a VM that somebody starts is left running": {
			"PoweringOff", 1, 0, time.Second, vm(engine.VMPoweringUp), recordStart,
		},
		"a VM that somebody has started is left running": {
			"PoweringOff", 1, 0, time.Minute, vm(engine.VMUp), recordStart,
		},
		"a VM that is down is started by a later pass": {"PoweringOff", 1, 0, 0, vm(engine.VMDown), recordOff},
		"a VM that is down is started, however late": {
			"PoweringOff", 1, time.Hour, time.Hour, vm(engine.VMDown), recordOff,
		},
		"a VM that is down is started":              {"Starting", 1, 0, 0, vm(engine.VMDown), start},
		"a VM is started however long it takes":     {"Starting", 1, time.Hour, 0, vm(engine.VMDown), start},
		"a VM that starts is not started twice":     {"Starting", 1, 0, 0, vm(engine.VMWaitForLaunch), recordStart},
		"a VM that is up has started":               {"Starting", 1, 0, 0, vm(engine.VMUp), recordStart},
		"a VM that hangs at its start is on a host": {"Starting", 1, 0, 0, vm(engine.VMPaused), recordStart},
		"a VM whose host is lost was on a host":     {"Starting", 1, 0, 0, vm(engine.VMUnknown), recordStart},
		"a VM that takes its time to go down": {
			"PoweringOff", 1, time.Minute, time.Minute, vm(engine.VMPoweringDown), wait,
		},
		"a VM that hangs after it was asked": {
			"PoweringOff", 1, time.Minute, time.Minute, vm(engine.VMNotResponding), wait,
		},
		"a VM that another locks is waited for":    {"Starting", 1, 0, 0, vm(engine.VMImageLocked), wait},
		"a node has its time":                      {"Waiting", 1, 599 * time.Second, 0, vm(engine.VMUp), wait},
		"a VM that goes down again is not started": {"Waiting", 1, 0, 0, vm(engine.VMDown), wait},
		"a second reboot begins if the first was in vain": {
			"Waiting", 1, 600 * time.Second, 0, vm(engine.VMUp), begin,
		},
		"the last reboot was in vain":              {"Waiting", 2, 600 * time.Second, 0, vm(engine.VMUp), giveUp},
		"a VM that an administrator deletes":       {"Waiting", 1, 0, 0, nil, giveUp},
		"what was given up is not taken up again":  {"GivenUp", 1, 0, 0, vm(engine.VMUp), giveUp},
		"a clock that goes back begins no reboots": {"Waiting", 1, -time.Hour, 0, vm(engine.VMUp), wait},
	} {
		t.Run(name, func(t *testing.T) {
			r := &infrav1alpha1.OLVMRemediation{}
			r.Spec.Strategy = infrav1alpha1.OLVMRemediationStrategy{RetryLimit: 2, TimeoutSeconds: 600}
			r.Status = infrav1alpha1.OLVMRemediationStatus{
				Step: c.step, Attempts: c.attempts, StepTime: metav1.NewTime(now.Add(-c.age)),
			}
			if c.asked != 0 {
				r.Status.PowerOffTime = metav1.NewTime(now.Add(-c.asked))
			}

			check.Equal(t, "action", decideAction(r, c.vm, now), c.want)
		})
	}
}
