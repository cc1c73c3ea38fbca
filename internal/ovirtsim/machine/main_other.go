//go:build !linux

package machine

import "errors"

// Main does nothing, because Check reports that this host cannot run machines.
func Main() {}

// deviceNumber is a device number of the kernel.
type deviceNumber struct{ major, minor uint32 }

func (d Disk) number() (deviceNumber, error) { return deviceNumber{}, errors.ErrUnsupported }
