package render

import (
	"fmt"
	"path"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/capolvm/cluster-api-provider-olvm/tfmodules"
)

const clusterModule = "cluster"

// Placement restricts the hosts that a VM can run on.
type Placement struct {
	// Affinity is migratable or pinned.
	Affinity string
	// HostIDs are the UUIDs of the hosts.
	HostIDs []string
}

// Cluster is the configuration that all machines of a cluster share in the engine.
type Cluster struct {
	Engine Engine
	Groups []AffinityGroup
}

// AffinityGroup keeps VMs apart, or together.
type AffinityGroup struct {
	// Key identifies the group in the configuration. It never changes.
	Key string
	// Name and Description are those of the group in the engine.
	Name, Description string
	// ClusterID is the UUID of the engine's cluster.
	ClusterID string
	Priority  int64
	// Positive reports whether the group keeps the VMs together.
	Positive bool
	// Enforcing prevents a VM from running if it would break the rule.
	Enforcing bool
	// Off removes the rule from the group.
	Off bool
}

// ClusterConfiguration renders the configuration that all machines of a cluster share.
func ClusterConfiguration(in Cluster) (Configuration, error) {
	groups := map[string]cty.Value{}
	var declared []Address

	for _, g := range in.Groups {
		if g.Key == "" || g.Name == "" || g.ClusterID == "" {
			return Configuration{}, fmt.Errorf("affinity group %q: key, name and cluster must be set", g.Name)
		}

		if _, twice := groups[g.Key]; twice {
			return Configuration{}, fmt.Errorf("affinity group %q is there twice", g.Key)
		}

		declared = append(declared, GroupAddress(g.Key))

		rule := cty.NullVal(cty.DynamicPseudoType)
		if !g.Off {
			affinity := "negative"
			if g.Positive {
				affinity = "positive"
			}

			rule = cty.ObjectVal(map[string]cty.Value{
				"affinity":  cty.StringVal(affinity),
				"enforcing": cty.BoolVal(g.Enforcing),
			})
		}

		groups[g.Key] = cty.ObjectVal(map[string]cty.Value{
			"name":        cty.StringVal(g.Name),
			"description": cty.StringVal(g.Description),
			"cluster_id":  cty.StringVal(g.ClusterID),
			"priority":    cty.NumberIntVal(g.Priority), "vms_rule": rule,
		})
	}

	file := hclwrite.NewEmptyFile()
	module := appendModule(file, clusterModule)
	module.SetAttributeValue("affinity_groups", cty.ObjectVal(groups))

	return buildModuleConfiguration(in.Engine, file, clusterModule, "affinity_group_ids", ClusterGroups, declared)
}

// appendModule begins the call of one of this project's modules.
func appendModule(file *hclwrite.File, name string) *hclwrite.Body {
	module := file.Body().AppendNewBlock("module", []string{name}).Body()
	module.SetAttributeValue("source", cty.StringVal("./"+path.Join(moduleDir, name)))
	module.AppendNewline()

	return module
}

// buildModuleConfiguration returns a configuration whose main file calls one module. It has one output, which comes
// from the module. Its resources are those of the module.
func buildModuleConfiguration(
	engine Engine, main *hclwrite.File, module, output string, kind Kind, resources []Address,
) (Configuration, error) {
	main.Body().AppendNewline()
	setTraversal(main.Body().AppendNewBlock("output", []string{output}).Body(), "value", "module", module, output)
	files := renderEngineFiles(engine, engineVariables)

	files[MainFile] = main.Bytes()
	for name, content := range tfmodules.ReadFiles(module) {
		files[path.Join(moduleDir, module, name)] = content
	}

	var err error
	files[SecretsFile], err = renderSecretsFile(engine, nil)

	return Configuration{Files: files, Resources: resources, Kind: kind, Engine: engine}, err
}
