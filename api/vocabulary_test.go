package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// namedField is a field of spec or status of a kind.
type namedField struct {
	// path begins with the kind; lists are [] in it: OLVMCluster.spec.standby[].role.
	path string
	// name is the last element of path.
	name   string
	schema apiextensionsv1.JSONSchemaProps
}

// shape returns the type of a field, including the type of a list's items.
func (f namedField) shape() string {
	if f.schema.Items != nil && f.schema.Items.Schema != nil {
		return "[]" + f.schema.Items.Schema.Type
	}

	return f.schema.Type
}

// namedFields returns the fields of all kinds.
func namedFields(t *testing.T) []namedField {
	var out []namedField

	for _, crd := range readCRDs(t) {
		for _, version := range crd.Spec.Versions {
			for _, part := range []string{"spec", "status"} {
				schema := version.Schema.OpenAPIV3Schema.Properties[part]
				out = append(out, within(crd.Spec.Names.Kind+"."+part, schema)...)
			}
		}
	}

	return out
}

// within returns the fields below a schema.
func within(path string, schema apiextensionsv1.JSONSchemaProps) []namedField {
	if schema.Items != nil && schema.Items.Schema != nil {
		path, schema = path+"[]", *schema.Items.Schema
	}

	var out []namedField

	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		next := namedField{path + "." + name, name, schema.Properties[name]}
		out = append(append(out, next), within(next.path, next.schema)...)
	}

	return out
}

// TestANameHasOneShape requires fields with the same name to have the same type in all kinds.
func TestANameHasOneShape(t *testing.T) {
	excepted := map[string]string{
		"id":              "events of the engine have numbers, other things have texts",
		"failureDomains":  "support VMs name those of the cluster",
		"supportServices": "an object of each kind is asked for; the status lists all",
	}
	shapes := map[string]map[string]string{}

	for _, f := range namedFields(t) {
		if shapes[f.name] == nil {
			shapes[f.name] = map[string]string{}
		}

		shapes[f.name][f.shape()] = f.path
	}

	for name, found := range shapes {
		if len(found) > 1 && excepted[name] == "" {
			t.Errorf("%s is several things: %v", name, found)
		}
	}
}

// TestTheEndOfANameSaysWhatAFieldIs requires, for example, every virtual IP to be an address.
func TestTheEndOfANameSaysWhatAFieldIs(t *testing.T) {
	const address = 45

	keys := func(s apiextensionsv1.JSONSchemaProps) []string { return slices.Sorted(maps.Keys(s.Properties)) }
	text := func(f namedField) bool { return f.shape() == "string" }
	rules := []struct {
		end, is string
		holds   func(f namedField) bool
	}{
		{"VirtualIP", "an address", func(f namedField) bool {
			return text(f) && f.schema.Enum == nil && f.schema.MaxLength != nil && *f.schema.MaxLength == address
		}},
		{"Provider", "one of a few programs", func(f namedField) bool { return text(f) && len(f.schema.Enum) > 1 }},
		{"SecretName", "the name of a Secret of the same namespace", text},
		{"Secret", "a name with a namespace", func(f namedField) bool {
			return slices.Equal(keys(f.schema), []string{"name", "namespace"})
		}},
		{"ConfigMap", "a name with a namespace", func(f namedField) bool {
			return slices.Equal(keys(f.schema), []string{"name", "namespace"})
		}},
		{"KeyRef", "a name with a key", func(f namedField) bool {
			return slices.Equal(keys(f.schema), []string{"key", "name"})
		}},
		{"Name", "a name", text},
		{"Names", "names", func(f namedField) bool { return f.shape() == "[]string" }},
		{"Count", "a number", func(f namedField) bool { return f.shape() == "integer" }},
		{"Seconds", "a number", func(f namedField) bool { return f.shape() == "integer" }},
		{"Port", "a number", func(f namedField) bool { return f.shape() == "integer" }},
		{"Time", "a time", func(f namedField) bool { return text(f) && f.schema.Format == "date-time" }},
		{"URL", "a URL", text},
		{"URLs", "URLs", func(f namedField) bool { return f.shape() == "[]string" }},
		{"Provisioned", "whether something is provisioned", func(f namedField) bool { return f.shape() == "boolean" }},
	}
	seen := map[string]bool{}

	for _, f := range namedFields(t) {
		for _, rule := range rules {
			if !strings.HasSuffix(strings.ToUpper(f.name[:1])+f.name[1:], rule.end) {
				continue
			}

			seen[rule.end] = true
			if !rule.holds(f) {
				t.Errorf("%s is not %s: %s of %d keys, enum %v", f.path, rule.is, f.shape(), len(f.schema.Properties),
					f.schema.Enum)
			}
		}
	}

	for _, rule := range rules {
		if !seen[rule.end] {
			t.Errorf("no field ends in %s", rule.end)
		}
	}
}

// TestAWordMeansOneThing checks words with several possible meanings, such as cluster, host, network and pool.
func TestAWordMeansOneThing(t *testing.T) {
	words := []struct {
		name, means string
		at          string
	}{
		{"clusterName", "the Cluster of Cluster API; in what Oracle has, the engine's cluster",
			`^(OLVMSupportServices\.spec|OLVMMachine\.status\.olvm|OLVMInventory\.status\.unschedulable\[\]|` +
				`OLVMInventoryVM\.spec\.claimRef)\.`},
		{"clusterID", "the engine's cluster, in what Oracle has", `^OLVMMachine\.status\.olvm\.`},
		{"host", "the host of a URL", `\.controlPlaneEndpoint\.`},
		{"network", "the network configuration of a guest, as Oracle has it", `\.virtualMachine\.`},
		{"template", "what a kind of template holds", `^OLVM(Machine|Cluster|Remediation)Template\.spec\.`},
		{"interface", "the guest's name of a network interface, as Oracle has it", `\.(network|guest)\.`},
		{"loadBalancers", "VMs that are load balancers", `^OLVMSupportServices\.`},
		{"enforcing", "how a rule is to be enforced", `\.spec\.`},
		{"labels", "labels as Kubernetes has them", `\.metadata\.`},
		{"inventory", "no field: references end in Name", `^$`},
		{"loadBalancer", "no field: loadBalancerProvider is the program", `^$`},
		{"secret", "no field: secretKeyRef names a key", `^$`},
		{"configMap", "no field: configMapKeyRef names a key", `^$`},
		{"power", "no field: vmStatus is what the engine says", `^$`},
	}

	for _, f := range namedFields(t) {
		for _, word := range words {
			if f.name == word.name && !regexp.MustCompile(word.at).MatchString(f.path) {
				t.Errorf("%s: %s is %s", f.path, f.name, word.means)
			}
		}

		// Pools are IPAM providers'; the addresses available to machines are ranges.
		if strings.Contains(strings.ToLower(f.name), "pool") && f.name != "addressesFromPools" {
			t.Errorf("%s: a pool is one of an IPAM provider", f.path)
		}
	}
}

// TestAColumnShowsOneField requires columns with the same name to show fields with the same name.
func TestAColumnShowsOneField(t *testing.T) {
	shown := map[string]string{}
	// Oracle has two names for one thing.
	oracles := map[string]string{"olvmDatacenterName": "dataCenterName", "status": "vmStatus"}
	// Cluster API's Cluster is in a label of the objects belonging to it, and in the claim of a VM.
	label := regexp.MustCompile(`^\.metadata\.labels\['cluster\\\.x-k8s\\\.io/cluster-name'\]$`)

	for _, crd := range readCRDs(t) {
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			at := label.ReplaceAllString(column.JSONPath, ".clusterName")
			at = at[strings.LastIndex(at, ".")+1:]

			if other := oracles[at]; other != "" {
				at = other
			}

			if before, ok := shown[column.Name]; ok && before != at {
				t.Errorf("%s: column %s shows %s, and %s elsewhere", crd.Name, column.Name, at, before)
			}

			shown[column.Name] = at
		}
	}
}

// TestReasonsAndAnnotationsHaveTheWordsOfTheFields checks the names shared by the engine and Cluster API.
func TestReasonsAndAnnotationsHaveTheWordsOfTheFields(t *testing.T) {
	refused := map[string]*regexp.Regexp{
		"a pool is one of an IPAM provider":             regexp.MustCompile(`(?i)pool`),
		"a template is a VM template or a kind's":       regexp.MustCompile(`(^|[^Me])Template`),
		"a cluster that is not found is the engine's":   regexp.MustCompile(`^ClusterNotFound`),
		"groups that are asked for are affinity groups": regexp.MustCompile(`(^|/olvm-)groups`),
	}
	checked := 0

	for name, value := range constants(t) {
		if !strings.HasSuffix(name, "Reason") && !strings.HasSuffix(name, "Annotation") &&
			!strings.HasPrefix(name, "LabelFrom") {
			continue
		}

		checked++

		for why, words := range refused {
			if words.MatchString(path.Base(value)) || words.MatchString(value) {
				t.Errorf("%s = %q: %s", name, value, why)
			}
		}
	}

	if checked < 100 {
		t.Errorf("only %d constants", checked)
	}
}

// constants returns the exported texts of the API's packages, by name.
func constants(t *testing.T) map[string]string {
	files, err := filepath.Glob("v1*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}

	out := map[string]string{}

	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}

		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}

			for i, name := range spec.Names {
				if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					out[name.Name], _ = strconv.Unquote(literal.Value)
				}
			}

			return true
		})
	}

	return out
}
