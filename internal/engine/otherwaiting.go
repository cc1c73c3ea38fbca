package engine

import (
	"encoding/xml"
	"reflect"
	"slices"
	"strings"
)

// element is an XML element of a VM. This package does not interpret it, but only sends it back to the engine.
type element struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Kids    []element  `xml:",any"`
}

// otherSettings lists elements without a field in VM. If a running VM gets a change to one of them, the engine applies
// it at the next start. The engine's source has them in VmBase, as fields editable only while the VM is down. If an
// entry names parts, only these parts are settings. No recording of an engine shows a pending one.
var otherSettings = map[string][]string{
	pinningPolicy:                      nil,
	"cpu_shares":                       nil,
	"custom_compatibility_version":     nil,
	"custom_cpu_model":                 nil,
	"custom_emulated_machine":          nil,
	"display":                          {"monitors", "smartcard_enabled", "type", "video_type"},
	"io":                               nil,
	"multi_queues_enabled":             nil,
	"sso":                              nil,
	"stateless":                        nil,
	"time_zone":                        nil,
	"usb":                              nil,
	"virtio_scsi_multi_queues":         nil,
	"virtio_scsi_multi_queues_enabled": nil,
}

// pinningPolicy is an element that auto_pinning_policy also sets.
const pinningPolicy = "cpu_pinning_policy"

// wholeVM is a VM with its otherSettings, in an answer or a request.
type wholeVM struct {
	VM

	Others []element `xml:",any"`
}

// toVM returns the VM of an answer, including its otherSettings.
func (w *wholeVM) toVM() *VM {
	for _, other := range w.Others {
		if parts, isSetting := otherSettings[other.XMLName.Local]; isSetting {
			w.others = append(w.others, other.selectParts(parts))
		}
	}

	return w.dropOVF()
}

// selectParts returns the named parts of an element without the line breaks between them, or all of the element if
// parts is nil.
func (e element) selectParts(parts []string) element {
	out := element{XMLName: e.XMLName, Attrs: e.Attrs, Text: strings.TrimSpace(e.Text)}

	for _, kid := range e.Kids {
		if parts == nil || slices.Contains(parts, kid.XMLName.Local) {
			out.Kids = append(out.Kids, kid.selectParts(nil))
		}
	}

	return out
}

// findElement returns the element with this name, or an empty one.
func findElement(all []element, name string) element {
	at := slices.IndexFunc(all, func(e element) bool { return e.XMLName.Local == name })
	if at < 0 {
		return element{}
	}

	return all[at]
}

// keepOtherPending adds the pending otherSettings to again, the request that repeats them, and adds their names to
// names. If otherSettings names parts of an element, it adds only the pending parts.
func keepOtherPending(names *[]string, now, next []element, again *VM) {
	for _, waits := range next {
		name := waits.XMLName.Local
		before := findElement(now, name)

		if otherSettings[name] != nil {
			waits.Kids = slices.DeleteFunc(slices.Clone(waits.Kids), func(kid element) bool {
				return reflect.DeepEqual(kid, findElement(before.Kids, kid.XMLName.Local))
			})
			if len(waits.Kids) == 0 {
				continue
			}
		} else if reflect.DeepEqual(before, waits) {
			continue
		}

		again.others = append(again.others, waits)
		*names = append(*names, strings.ReplaceAll(name, "_", " "))
	}
}

// fillOtherPending adds the pending otherSettings to a request, except those that the request itself changes.
func (v *VM) fillOtherPending(again []element) {
	for _, waits := range again {
		if waits.XMLName.Local != pinningPolicy || v.AutoPinning == "" {
			v.others = append(v.others, waits)
		}
	}
}
