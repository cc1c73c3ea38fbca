package tfprovider

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"

	"github.com/capolvm/cluster-api-provider-olvm/internal/tfchange"
)

// completeSchema adds the facts of package tfchange to a schema. Every attribute gets a sentence about the effect of
// its change. If a change replaces the object, the attribute also gets a plan modifier, unless conditional names it.
// Conditional attributes decide about the replacement themselves. completeSchema also adds the timeouts of the
// operations.
func (b *base) completeSchema(s schema.Schema, conditional ...string) schema.Schema {
	for name, attribute := range s.Attributes {
		if change, known := tfchange.FindChange(b.typeName, name); known {
			replaces := change.Effect == tfchange.Replacement && !slices.Contains(conditional, name)
			s.Attributes[name] = annotateAttribute(attribute, describeChange(change), replaces)
		}
	}

	for name, block := range s.Blocks {
		if change, known := tfchange.FindChange(b.typeName, name); known {
			s.Blocks[name] = annotateBlock(block, describeChange(change))
		}
	}

	if s.Blocks == nil {
		s.Blocks = map[string]schema.Block{}
	}

	s.Blocks[timeoutsBlock] = buildTimeoutsBlock()

	return s
}

// describeChange returns the sentence about the effect of a change. It follows the description of the attribute.
func describeChange(change tfchange.Change) string {
	switch {
	case change.Effect == tfchange.NextStart:
		return " Changes to a running VM take effect at its next start."
	case change.Effect == tfchange.WhileDown:
		return " Changing this fails while the VM is running."
	case change.Effect == tfchange.Replacement && change.Loses != "":
		return " Changing this forces a new resource and destroys " + change.Loses + "."
	case change.Effect == tfchange.Replacement:
		return " Changing this forces a new resource."
	default:
		return ""
	}
}

// annotateAttribute adds the sentence to an attribute. It adds the plan modifier if a change replaces the object.
func annotateAttribute(attribute schema.Attribute, sentence string, replaces bool) schema.Attribute {
	switch a := attribute.(type) {
	case schema.StringAttribute:
		a.MarkdownDescription += sentence
		if replaces {
			a.PlanModifiers = append(a.PlanModifiers, stringplanmodifier.RequiresReplace())
		}

		return a
	case schema.Int64Attribute:
		a.MarkdownDescription += sentence
		if replaces {
			a.PlanModifiers = append(a.PlanModifiers, int64planmodifier.RequiresReplace())
		}

		return a
	case schema.BoolAttribute:
		a.MarkdownDescription += sentence
		if replaces {
			a.PlanModifiers = append(a.PlanModifiers, boolplanmodifier.RequiresReplace())
		}

		return a
	case schema.ListAttribute:
		a.MarkdownDescription += sentence
		return a
	case schema.SetAttribute:
		a.MarkdownDescription += sentence
		return a
	case schema.MapAttribute:
		a.MarkdownDescription += sentence
		return a
	default:
		return attribute
	}
}

// annotateBlock adds the sentence to a block.
func annotateBlock(block schema.Block, sentence string) schema.Block {
	switch b := block.(type) {
	case schema.ListNestedBlock:
		b.MarkdownDescription += sentence
		return b
	case schema.SetNestedBlock:
		b.MarkdownDescription += sentence
		return b
	default:
		return block
	}
}
