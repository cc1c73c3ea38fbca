package nodes

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
)

// ignitionOutput returns the engine's output for Ignition: the custom script, parsed and encoded again. If the
// initialization has a host name and the script has no /etc/hostname, the engine adds this file in the form of Ignition
// 2. An unreadable script stays unchanged.
func ignitionOutput(script, hostName string) string {
	if script == "" {
		script = "{}"
	}

	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(script)); err != nil {
		return script
	}

	if hostName == "" || hasHostName(script) {
		return compact.String()
	}

	file, _ := json.Marshal(struct {
		FileSystem string            `json:"filesystem"`
		Path       string            `json:"path"`
		Mode       int               `json:"mode"`
		Contents   map[string]string `json:"contents"`
	}{"root", hostNamePath, 0o644, map[string]string{"source": "data:," + url.PathEscape(hostName)}})

	config := parseMembers(compact.Bytes())
	storage := parseMembers(config.findMember("storage"))
	files := bytes.TrimSuffix(storage.findMember("files"), []byte("]"))

	// An engine drops all other members of a storage section without files.
	switch {
	case files == nil:
		storage = rawObject{{"files", slices.Concat([]byte("["), file, []byte("]"))}}
	case len(files) > 1:
		storage.setMember("files", slices.Concat(files, []byte(","), file, []byte("]")))
	default:
		storage.setMember("files", slices.Concat(files, file, []byte("]")))
	}

	config.setMember("storage", storage.encodeObject())

	return string(config.encodeObject())
}

const hostNamePath = "/etc/hostname"

// hasHostName reports whether the script contains the file with the host name.
func hasHostName(script string) bool {
	var config struct {
		Storage struct{ Files []struct{ Path string } }
	}

	_ = json.Unmarshal([]byte(script), &config)

	return slices.ContainsFunc(config.Storage.Files, func(file struct{ Path string }) bool {
		return file.Path == hostNamePath
	})
}

// rawObject is a JSON object on one line, with ordered members.
type rawObject []rawMember

type rawMember struct {
	name  string
	value json.RawMessage
}

// parseMembers returns the members of an object, or nil for other values.
func parseMembers(text []byte) rawObject {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil
	}

	var out rawObject

	for decoder.More() {
		name, _ := decoder.Token()
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil
		}

		text, _ := name.(string)
		out = append(out, rawMember{text, value})
	}

	return out
}

// findMember returns the value of a member, or nil.
func (o rawObject) findMember(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}

	return nil
}

// setMember changes a member, or adds it.
func (o *rawObject) setMember(name string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}

	*o = append(*o, rawMember{name, value})
}

func (o rawObject) encodeObject() json.RawMessage {
	out := []byte("{")

	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}

		name, _ := json.Marshal(m.name)
		out = append(append(append(out, name...), ':'), m.value...)
	}

	return append(out, '}')
}
