package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// hostNameVariable matches the spellings of the guest's host name in a jinja template. The engine puts its own line
// before the data, so cloud-init does not recognize the template.
var hostNameVariable = regexp.MustCompile(
	`\{\{-?\s*(ds\.meta_data\.(local_hostname|local-hostname|hostname)|v1\.local_hostname|local_hostname)\s*-?\}\}`,
)

// cloudConfig is a cloud-config document during the merge.
type cloudConfig struct {
	root *yaml.Node
	// before has the commands to run before all others.
	before []string
	// sources maps each added part, by its place, to its source.
	sources sources
	// files maps paths to their first entry in write_files.
	files map[string]*yaml.Node
}

// mergeCloudConfig merges the guest's configuration into a cloud-config. The result is a block mapping, because the
// engine appends it as text to its own mapping.
func mergeCloudConfig(data []byte, guest Guest) ([]byte, error) {
	if hostNameVariable.Match(data) {
		if guest.HostName == "" {
			return nil, errors.New("the cloud-config asks for the host name, and there is none")
		}

		data = hostNameVariable.ReplaceAllLiteral(data, []byte(guest.HostName))
	}

	root, err := parseCloudConfig(data, "bootstrap data")
	if err != nil {
		return nil, err
	}

	c := &cloudConfig{root: root, sources: sources{}, files: map[string]*yaml.Node{}}
	c.indexFiles()

	for _, extra := range guest.Extra {
		more, err := parseCloudConfig(extra.Data, extra.Source)
		if err != nil {
			return nil, err
		}

		if err := c.addConfig(more, extra.Source); err != nil {
			return nil, err
		}
	}

	superAdmin, err := c.addKubelet(guest)
	if err != nil {
		return nil, err
	}

	if err := c.addFiles(guest, superAdmin); err != nil {
		return nil, err
	}

	c.addKeys(guest.SSH)
	if err := c.addSecureDefaults(guest.SSH); err != nil {
		return nil, err
	}

	c.prependCommands()

	return c.encodeDocument(data)
}

// indexFiles records the files in the bootstrap data.
func (c *cloudConfig) indexFiles() {
	files := findValue(c.root, "write_files")
	if files == nil {
		return
	}

	for _, file := range files.Content {
		if path := findValue(file, "path"); path != nil && c.files[path.Value] == nil {
			c.files[path.Value] = file
		}
	}
}

// parseCloudConfig parses a cloud-config, which must be a single mapping.
func parseCloudConfig(data []byte, source string) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("%s is not a cloud-config: %w", source, err)
	}

	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 ||
		document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s is not a cloud-config: it is no mapping", source)
	}

	return document.Content[0], nil
}

// addConfig merges another cloud-config. It merges mappings by key, and appends lists.
func (c *cloudConfig) addConfig(more *yaml.Node, source string) error {
	if len(more.Content) == 0 {
		return nil
	}

	if files := findValue(more, "write_files"); files != nil {
		for _, file := range files.Content {
			if err := c.addFile(file, source); err != nil {
				return err
			}
		}
	}

	return c.mergeMapping(c.root, more, "", source)
}

// mergeMapping adds the keys of one mapping to another. At the root, it skips write_files, because addFile merges them.
func (c *cloudConfig) mergeMapping(into, from *yaml.Node, path, source string) error {
	known := indexValues(into)

	for i := 0; i+1 < len(from.Content); i += 2 {
		key, given := from.Content[i].Value, from.Content[i+1]
		at := strings.TrimPrefix(path+"."+key, ".")
		if at == "write_files" {
			continue
		}

		there := known[key]
		switch {
		case there == nil:
			into.Content = append(into.Content, newTextNode(key), given)
			known[key] = given
			c.sources[at] = source
		case there.Tag == "!!null":
			*there = *given
		case there.Kind == yaml.MappingNode && given.Kind == yaml.MappingNode:
			if err := c.mergeMapping(there, given, at, source); err != nil {
				return err
			}
		case there.Kind == yaml.SequenceNode && given.Kind == yaml.SequenceNode:
			there.Content = append(there.Content, given.Content...)
		case given.Tag == "!!null" ||
			there.Kind == yaml.ScalarNode && given.Kind == yaml.ScalarNode && there.Value == given.Value:
		default:
			return newConflictError(at+" of the cloud-config", c.sources.findSource(at), source)
		}
	}

	return nil
}

// addFile adds an entry to write_files, unless the same entry already exists. Two different entries may have the same
// path only if the later one appends.
func (c *cloudConfig) addFile(file *yaml.Node, source string) error {
	path := findValue(file, "path")
	if path == nil {
		return fmt.Errorf("%s: a file of write_files has no path", source)
	}

	files := ensureValue(c.root, "write_files", yaml.SequenceNode)
	appends := findValue(file, "append")
	if other := c.files[path.Value]; other != nil && (appends == nil || appends.Value != "true") {
		if isSameFile(other, file) {
			return nil
		}

		return newConflictError("the file "+path.Value, c.sources.findSource("write_files["+path.Value+"]"), source)
	}

	files.Content = append(files.Content, file)
	if c.files[path.Value] == nil {
		c.files[path.Value] = file
	}

	c.sources["write_files["+path.Value+"]"] = source

	return nil
}

// isSameFile reports whether two entries of write_files are equal.
func isSameFile(a, b *yaml.Node) bool {
	for _, key := range []string{"content", "encoding", "append"} {
		x, y := findValue(a, key), findValue(b, key)
		if (x == nil) != (y == nil) || x != nil && x.Value != y.Value {
			return false
		}
	}

	return true
}

// addFiles adds all files of the guest: its own files, its units, and the files for SLAAC and the proxy.
func (c *cloudConfig) addFiles(guest Guest, superAdmin bool) error {
	files := slices.Concat(guest.Files, guest.Services.buildFiles(superAdmin))

	units := slices.Concat(guest.Units, guest.Services.buildUnits())
	for _, unit := range units {
		if unit.Contents != "" {
			files = append(files, File{Path: "/etc/systemd/system/" + unit.Name, Content: unit.Contents, Mode: 0o644})
		}
	}

	profiles, networking := guest.buildSLAAC()
	c.before = append(c.before, networking...)

	proxied := guest.Proxy.buildFiles(guest.Services.pullingUnits())
	for _, file := range slices.Concat(files, profiles, proxied) {
		if err := c.addFile(file.toNode(), machineSource); err != nil {
			return err
		}
	}

	if len(proxied)+len(units) > 0 {
		c.before = append(c.before, "systemctl daemon-reload")
	}

	if len(proxied) > 0 {
		c.before = append(c.before, "systemctl try-restart "+strings.Join(proxiedServices, " "))
	}

	for _, unit := range units {
		c.before = append(c.before, "systemctl enable --now "+unit.Name)
	}

	return nil
}

// addKeys authorizes SSH keys.
func (c *cloudConfig) addKeys(ssh *SSH) {
	if ssh == nil || len(ssh.AuthorizedKeys) == 0 {
		return
	}

	at := c.root
	if ssh.User != "" {
		users := ensureValue(c.root, "users", yaml.SequenceNode)
		if len(users.Content) == 0 {
			users.Content = []*yaml.Node{
				newTextNode("default"),
			} // without it, cloud-init would not create the default user of the image
		}

		at = nil

		for _, user := range users.Content {
			if name := findValue(user, "name"); name != nil && name.Value == ssh.User {
				at = user
			}
		}

		if at == nil {
			at = newMapping("name", ssh.User)
			users.Content = append(users.Content, at)
		}
	}

	keys := ensureValue(at, "ssh_authorized_keys", yaml.SequenceNode)
	for _, key := range ssh.AuthorizedKeys {
		keys.Content = append(keys.Content, newTextNode(key))
	}
}

// laterBoots tells the guest which data sources to use at later boots. There is no drive then, and a guest that
// searches further would take itself for a new one. The engine has a command for this, but the commands in the data
// replace it.
var laterBoots = File{
	Path:    "/etc/cloud/cloud.cfg.d/99-capolvm.cfg",
	Content: "datasource_list: [NoCloud, ConfigDrive]\n",
	Mode:    0o644,
}

// addSecureDefaults reverts the engine's insecure defaults: logins with passwords, and logins as root. It also keeps
// later boots from using other data sources. It does not override settings in the data.
func (c *cloudConfig) addSecureDefaults(ssh *SSH) error {
	closed := map[string]string{"ssh_pwauth": "false", "disable_root": "true"}
	if ssh != nil && ssh.User == "root" {
		closed["disable_root"] = "false"
	}

	for _, key := range slices.Sorted(maps.Keys(closed)) {
		if findValue(c.root, key) == nil {
			c.root.Content = append(c.root.Content, newTextNode(key), &yaml.Node{
				Kind:  yaml.ScalarNode,
				Tag:   "!!bool",
				Value: closed[key],
			})
		}
	}

	if findValue(c.root, "datasource_list") != nil {
		return nil
	}

	if files := findValue(c.root, "write_files"); files != nil {
		for _, file := range files.Content {
			path, content := findValue(file, "path"), findValue(file, "content")
			if path != nil && content != nil && strings.HasPrefix(path.Value,
				"/etc/cloud/") && strings.Contains(content.Value, "datasource_list") {
				return nil
			}
		}
	}

	return c.addFile(laterBoots.toNode(), machineSource)
}

// toNode returns the file as an entry of write_files.
func (f File) toNode() *yaml.Node {
	node := newMapping("path", f.Path, "owner", "root:root", "permissions", fmt.Sprintf("%04o", f.Mode), "content",
		f.Content)
	node.Content[7].Style, node.Content[5].Style = yaml.LiteralStyle, yaml.SingleQuotedStyle

	return node
}

// addKubelet edits kubeadm's configuration, and reports whether kubeadm writes a super-admin.conf on the node.
func (c *cloudConfig) addKubelet(guest Guest) (superAdmin bool, err error) {
	files := findValue(c.root, "write_files")
	if files == nil {
		return false, nil
	}

	for _, file := range files.Content {
		path, content := findValue(file, "path"), findValue(file, "content")
		if path == nil || content == nil || !isKubeadmFile(path.Value) {
			continue
		}

		edit, err := editKubeadm(content.Value, guest)
		if err != nil {
			return false, fmt.Errorf("bootstrap data: %s: %w", path.Value, err)
		}

		superAdmin = superAdmin || edit.hasSuperAdmin()
		if edit.changed {
			content.Value, content.Style = edit.text, yaml.LiteralStyle
		}

		if edit.needsUUID {
			c.before = append(c.before, insertUUIDCommand(path.Value))
		}
	}

	return superAdmin, nil
}

// prependCommands adds the commands in before at the start of runcmd.
func (c *cloudConfig) prependCommands() {
	if len(c.before) == 0 {
		return
	}

	list := ensureValue(c.root, "runcmd", yaml.SequenceNode)

	var first []*yaml.Node
	for _, command := range c.before {
		first = append(first, newTextNode(command))
	}

	list.Content = append(first, list.Content...)
}

// encodeDocument writes the document after the leading comment lines of the data.
func (c *cloudConfig) encodeDocument(data []byte) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(findHeader(data))
	c.root.HeadComment, c.root.Style = "", 0
	if len(c.root.Content) > 0 { // the header already has these lines
		c.root.Content[0].HeadComment = ""
	}

	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(c.root); err != nil {
		return nil, fmt.Errorf("failed to encode the cloud-config: %w", err)
	}

	return out.Bytes(), nil
}

// findHeader returns the comment lines by which cloud-init recognizes the data.
func findHeader(data []byte) string {
	var lines strings.Builder

	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			break
		}

		lines.WriteString(line)
	}

	if lines.Len() == 0 {
		return "#cloud-config\n"
	}

	return lines.String()
}
