package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// deviceNumber is a device number of the kernel.
type deviceNumber struct{ major, minor uint32 }

func (d Disk) number() (deviceNumber, error) {
	var info unix.Stat_t
	if err := unix.Stat(d.Loop, &info); err != nil {
		return deviceNumber{}, fmt.Errorf("%s: %w", d.Loop, err)
	}

	return deviceNumber{unix.Major(info.Rdev), unix.Minor(info.Rdev)}, nil
}

// createDisks creates the machine's initial block devices.
func (m *mounts) createDisks() error {
	if len(m.config.Disks) == 0 {
		return nil
	}

	if err := os.MkdirAll(m.hostPath(diskIDs), 0o755); err != nil {
		return err
	}

	for _, d := range m.config.Disks {
		number, err := d.number()
		if err != nil {
			return err
		}

		device := int(unix.Mkdev(number.major, number.minor))
		if err := unix.Mknod(m.hostPath("/dev/"+d.Name), unix.S_IFBLK|0o660, device); err != nil {
			return fmt.Errorf("failed to make /dev/%s: %w", d.Name, err)
		}

		if err := os.Symlink("../../"+d.Name, m.hostPath(diskIDs+"/"+d.ID)); err != nil {
			return err
		}
	}

	return nil
}
