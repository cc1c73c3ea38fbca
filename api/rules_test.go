package api_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/refused"
)

// rulesFrom is the version of the oldest supported API server, minus one: for a rollback of the server, a new rule may
// use only features of the previous version.
var rulesFrom = version.MajorMinor(1, 30)

// ofChanges matches the beginning of a rule's message about changing an existing object.
// TestTheAPIServerRefusesWhatMustNotChange and similar tests cover those.
var ofChanges = regexp.MustCompile(`\b(is|are) immutable\b`)

// TestEveryRuleHasAValueThatItRefuses compares the rules with the test values for API servers and olvmctl.
func TestEveryRuleHasAValueThatItRefuses(t *testing.T) {
	for name, crd := range internalCRDs(t) {
		checkRefused(t, name, schemaOf(t, crd))
	}
}

func checkRefused(t *testing.T, path string, schema *apiextensions.JSONSchemaProps) {
	for _, rule := range schema.XValidations {
		if !ofChanges.MatchString(rule.Message) && !slices.ContainsFunc(refused.Values, func(v refused.Value) bool {
			return v.Message != "" && strings.Contains(rule.Message, v.Message)
		}) {
			t.Errorf("%s: no value is refused because %s", path, rule.Message)
		}
	}

	for name, property := range schema.Properties {
		checkRefused(t, path+"."+name, &property)
	}

	if schema.Items != nil {
		checkRefused(t, path+"[]", schema.Items.Schema)
	}
}

// share is the inverse of the rules' allowed part of an API server limit. The rest is for future fields: a CRD above
// the limit is refused as a whole.
const share = 2

// internalCRDs returns the CRDs of this release by name, in the form validated by the API server.
func internalCRDs(t *testing.T) map[string]*apiextensions.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	check.Error(t, apiextensionsv1.AddToScheme(scheme), "")
	check.Error(t, apiextensions.AddToScheme(scheme), "")

	out := map[string]*apiextensions.CustomResourceDefinition{}

	for _, crd := range readCRDs(t) {
		scheme.Default(&crd)

		internal := &apiextensions.CustomResourceDefinition{}
		check.Error(t, scheme.Convert(&crd, internal, nil), "")

		internal.Status.StoredVersions = []string{internal.Spec.Versions[0].Name}
		out[crd.Name] = internal
	}

	return out
}

// schemaOf returns the schema of a CRD's only version.
func schemaOf(t *testing.T, crd *apiextensions.CustomResourceDefinition) *apiextensions.JSONSchemaProps {
	validation, err := apiextensions.GetSchemaForVersion(crd, crd.Spec.Versions[0].Name)
	check.Error(t, err, "")

	return validation.OpenAPIV3Schema
}

// TestTheAPIServerTakesTheCRDs runs the API server's own checks of CRDs, including the estimated costs of rules.
func TestTheAPIServerTakesTheCRDs(t *testing.T) {
	for name, crd := range internalCRDs(t) {
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), crd) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheRulesOfTheCRDsLeaveRoomInTheBudgetOfTheAPIServer compares their estimated costs with half of the limits. It
// logs the cost of each CRD, and its most expensive rules.
func TestTheRulesOfTheCRDsLeaveRoomInTheBudgetOfTheAPIServer(t *testing.T) {
	for name, crd := range internalCRDs(t) {
		c := costs{T: t, env: environment.MustBaseEnvSet(rulesFrom)}
		schema := schemaOf(t, crd)
		c.add(schema, crdvalidation.RootCELContext(schema), "")
		t.Logf("%s: %d of %d", name, c.total, crdvalidation.StaticEstimatedCRDCostLimit)

		if c.total > crdvalidation.StaticEstimatedCRDCostLimit/share {
			t.Errorf("%s: the rules cost %d; they may cost %d", name, c.total,
				crdvalidation.StaticEstimatedCRDCostLimit/share)
		}
	}
}

// costs adds the estimated costs of rules.
type costs struct {
	*testing.T
	env   *environment.EnvSet
	total uint64
}

func (c *costs) add(schema *apiextensions.JSONSchemaProps, context *crdvalidation.CELSchemaContext, path string) {
	if len(schema.XValidations) > 0 {
		c.addRules(context, path)
	}

	for name, property := range schema.Properties {
		c.add(&property, context.ChildPropertyContext(&property, name), path+"."+name)
	}

	if schema.Items != nil {
		c.add(schema.Items.Schema, context.ChildItemsContext(schema.Items.Schema), path+"[]")
	}

	if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
		c.add(more.Schema, context.ChildAdditionalPropertiesContext(more.Schema), path+"{}")
	}
}

func (c *costs) addRules(context *crdvalidation.CELSchemaContext, path string) {
	info, err := context.TypeInfo()
	check.Error(c.T, err, "")

	results, err := cel.Compile(
		info.Schema, info.DeclType, celconfig.PerCallLimit, c.env, cel.NewExpressionsEnvLoader(),
	)
	check.Error(c.T, err, "")

	for i, result := range results {
		if result.Error != nil {
			c.Errorf("%s: %v", path, result.Error)
			continue
		}

		cardinality := result.MaxCardinality
		if context.MaxCardinality != nil {
			cardinality = *context.MaxCardinality
		}

		cost := result.MaxCost * cardinality
		c.total += cost

		switch what := fmt.Sprintf("%s: %d for %s", path, cost, info.Schema.XValidations[i].Rule); {
		case cost > crdvalidation.StaticEstimatedCostLimit/share:
			c.Errorf("%s; it may cost %d", what, crdvalidation.StaticEstimatedCostLimit/share)
		case cost > crdvalidation.StaticEstimatedCostLimit/20:
			c.Log(what)
		}
	}
}

// TestEveryPatternOfTheCRDsIsOneOfJSONSchema compiles the patterns by the rules of ECMA 262, like editors and checkers
// of manifests. Such tools would fail for every manifest on a pattern readable only by Go.
func TestEveryPatternOfTheCRDsIsOneOfJSONSchema(t *testing.T) {
	for name, crd := range internalCRDs(t) {
		checkPatterns(t, name, schemaOf(t, crd))
	}

	for _, pattern := range []string{
		`^[\x{0}-\x{FFFF}]*$`, `^(?i:a)$`, `^(?P<a>b)$`, `\Aa\z`, `^\Qa\E$`, `^[[:alpha:]]$`, `a++`,
	} {
		if isJSONSchemaPattern(pattern) {
			t.Errorf("%s was taken", pattern)
		}
	}
}

// TestWhatIsRefusedByItsFormIsToldWithTheRemedy allows no pattern in our own fields: the API server shows a pattern
// unchanged, without a remedy. A rule has a message.
func TestWhatIsRefusedByItsFormIsToldWithTheRemedy(t *testing.T) {
	for name, crd := range internalCRDs(t) {
		for part, schema := range schemaOf(t, crd).Properties {
			checkUnpatterned(t, name, part, &schema)
		}
	}
}

func checkUnpatterned(t *testing.T, crd, path string, schema *apiextensions.JSONSchemaProps) {
	if schema.Pattern != "" {
		t.Errorf("%s: %s has the pattern %s; write a rule with a message", crd, path, schema.Pattern)
	}

	if foreign.MatchString(path) {
		return
	}

	for name, property := range schema.Properties {
		checkUnpatterned(t, crd, path+"."+name, &property)
	}

	if schema.Items != nil && schema.Items.Schema.Type == "string" {
		checkUnpatterned(t, crd, path+"[]", schema.Items.Schema)
	} else if schema.Items != nil {
		checkUnpatterned(t, crd, path, schema.Items.Schema)
	}
}

// TestARuleAboutAWholeObjectAsksForTheStoredOne checks the rules at the top of the schemas. The API server evaluates
// them on each write, even of a label or a status: a stored object would fail forever. Other rules apply only to
// changed parts.
func TestARuleAboutAWholeObjectAsksForTheStoredOne(t *testing.T) {
	found := 0

	for name, crd := range internalCRDs(t) {
		for _, rule := range schemaOf(t, crd).XValidations {
			found++

			if !strings.Contains(rule.Rule, "oldSelf") {
				t.Errorf(
					"%s: the rule is for what is stored, too; begin it with oldSelf.hasValue() ||: %s", name, rule.Rule,
				)
			}
		}
	}

	check.Equal(t, "there are such rules", found > 3, true)
}

// isJSONSchemaPattern reports whether a pattern means the same to Go and to ECMA 262. It lists everything ECMA 262
// ignores: for example, \A is the letter A there.
func isJSONSchemaPattern(pattern string) bool {
	for _, goOnly := range []string{
		`\x{`, `\A`, `\z`, `\Q`, `\E`, `\C`, `\a`, `\p`, `\P`, `(?i`, `(?m`, `(?s`, `(?U`, `(?P`, `[:`,
	} {
		if strings.Contains(pattern, goOnly) {
			return false
		}
	}

	_, err := regexp2.Compile(pattern, regexp2.ECMAScript)

	return err == nil
}

func checkPatterns(t *testing.T, path string, schema *apiextensions.JSONSchemaProps) {
	if !isJSONSchemaPattern(schema.Pattern) {
		t.Errorf("%s: %s is no pattern of ECMA 262; write a rule with matches()", path, schema.Pattern)
	}

	for name, property := range schema.Properties {
		checkPatterns(t, path+"."+name, &property)
	}

	if schema.Items != nil {
		checkPatterns(t, path+"[]", schema.Items.Schema)
	}

	if more := schema.AdditionalProperties; more != nil && more.Schema != nil {
		checkPatterns(t, path+"{}", more.Schema)
	}
}
