//go:build !linux

package machine

import "errors"

// Main has nothing to do: Check says that there are no machines here.
func Main() {}

// deviceNumber is that of a device of the kernel.
type deviceNumber struct{ major, minor uint32 }

func (d Disk) number() (deviceNumber, error) { return deviceNumber{}, errors.ErrUnsupported }
