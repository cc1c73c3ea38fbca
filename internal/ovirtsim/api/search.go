package api

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// fields maps the names of search fields to functions that return an object's values.
type fields[T any] map[string]func(T) []string

// query is a parsed search: alternatives, each a conjunction of conditions.
type query struct {
	any  [][]condition
	sort string
	desc bool
	page int
	// paged reports that the search names a page.
	paged bool
}

type condition struct {
	field    string // "" matches any field
	operator string
	value    string
	// pattern ignores case; exact does not.
	pattern, exact *regexp.Regexp
}

var searchToken = regexp.MustCompile(`"([^"]*)"|(!=|<=|>=|=|<|>)|[()]|[^\s=<>!"()]+`)

// errSearch reports a search that the parser does not understand. The client does not see this error, because the
// search finds nothing.
var errSearch = errors.New("the search is not understood")

// parseSearch parses the engine's language: FIELD OPERATOR VALUE, joined by "and" and "or". "and" binds tighter than
// "or" and is optional. Values may be quoted, and * is a wildcard. A single value matches any field. "sortby FIELD
// asc|desc" and "page N" come at the end. The parser does not support parentheses.
func parseSearch(text string) (*query, error) {
	if !utf8.ValidString(text) || strings.Count(text, `"`)%2 != 0 || strings.ContainsAny(text, "()':") {
		return nil, errSearch
	}

	p := &searchParser{tokens: searchToken.FindAllString(text, -1)}
	q := &query{any: [][]condition{nil}} // matches every object
	if word := p.peekWord(0); word != "" && word != "sortby" && word != "page" {
		var err error
		if q.any, err = p.parseAlternatives(); err != nil {
			return nil, err
		}
	}

	for p.peekWord(0) != "" {
		switch p.peekWord(0) {
		case "sortby":
			if q.sort = p.peekWord(1); q.sort == "" {
				return nil, errSearch
			}

			p.at += 2
			if order := p.peekWord(0); order == "asc" || order == "desc" {
				q.desc = order == "desc"
				p.at++
			}
		case "page":
			n, err := strconv.Atoi(p.peekWord(1))
			if err != nil || n < 0 || n > maxPage {
				return nil, errSearch
			}

			q.page, q.paged = n, true
			p.at += 2
		default:
			return nil, errSearch
		}
	}

	return q, nil
}

// searchParser parses conditions from left to right into alternatives.
type searchParser struct {
	tokens []string
	at     int
}

// peekWord returns the token at a distance from the current one, in lower case. It returns "" after the end.
func (p *searchParser) peekWord(distance int) string {
	if p.at+distance < len(p.tokens) {
		return strings.ToLower(p.tokens[p.at+distance])
	}

	return ""
}

// parseAlternatives parses conjunctions joined by "or".
func (p *searchParser) parseAlternatives() ([][]condition, error) {
	var out [][]condition

	for {
		conditions, err := p.parseConjunction()
		if err != nil {
			return nil, err
		}

		out = append(out, conditions)
		if p.peekWord(0) != "or" {
			return out, nil
		}

		p.at++
	}
}

// parseConjunction parses adjacent conditions and conditions joined by "and".
func (p *searchParser) parseConjunction() ([]condition, error) {
	var out []condition

	for {
		one, err := p.parseTerm()
		if err != nil {
			return nil, err
		}

		out = append(out, one)

		switch p.peekWord(0) {
		case "and":
			p.at++
		case "", "or", "sortby", "page":
			return out, nil
		}
	}
}

// parseTerm parses one condition.
func (p *searchParser) parseTerm() (condition, error) {
	switch p.peekWord(0) {
	case "", "and", "or", "sortby", "page", "=", "!=", "<", ">", "<=", ">=":
		return condition{}, errSearch
	}

	made := condition{operator: "=", value: p.tokens[p.at]}
	switch operator := p.peekWord(1); operator {
	case "=", "!=", "<", ">", "<=", ">=":
		if p.at+2 >= len(p.tokens) {
			return condition{}, errSearch
		}

		made = condition{field: p.peekWord(0), operator: operator, value: p.tokens[p.at+2]}
		p.at += 3
	default:
		p.at++
	}

	made.value = strings.Trim(made.value, `"`)
	made.pattern = regexp.MustCompile("^(?is:" + strings.ReplaceAll(regexp.QuoteMeta(made.value), `\*`, ".*") + ")$")
	made.exact = regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(made.value), `\*`, ".*") + ")$")

	return made, nil
}

func (c *condition) matchesValues(values []string) bool {
	switch c.operator {
	case "=":
		return slices.ContainsFunc(values, c.pattern.MatchString)
	case "!=":
		return !slices.ContainsFunc(values, c.pattern.MatchString)
	}

	want, _ := strconv.ParseFloat(c.value, 64)

	return slices.ContainsFunc(values, func(value string) bool {
		got, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
			return false
		case c.operator == "<":
			return got < want
		case c.operator == ">":
			return got > want
		case c.operator == "<=":
			return got <= want
		default:
			return got >= want
		}
	})
}

// pageSize is the number of objects on a page of the search language.
const pageSize = 100

// maxPage limits the page number.
const maxPage = 1 << 20

// firstPageIsOne is the engine's error for page 0 of VMs. As far as is known, other lists have the same error.
const firstPageIsOne = "statementcallback; sql [select * from ((select  vms.* from  vms  )  " +
	"order by vm name asc ) as t1 " +
	"offset (-2147483646 -1) limit 2147483647]; error: offset must not be negative; nested exception is " +
	"org.postgresql.util.psqlexception: error: offset must not be negative"

// applySearch filters, sorts and limits a list by a request's parameters search, case_sensitive and max. It finds
// nothing for a search with an unknown field, or one that the parser does not understand.
func applySearch[T any](c *call, items []T, of fields[T]) ([]T, error) {
	limit, err := c.parseLimit()
	if err != nil {
		return nil, err
	}

	if text := strings.TrimSpace(c.query.Get("search")); text != "" {
		q, err := parseSearch(text)
		if understood := err == nil && q.usesKnownFields(of); !understood {
			return nil, nil //nolint:nilerr // the engine says nothing of a search that it does not understand
		}

		if q.paged && q.page == 0 {
			return nil, wire.PlainFault(http.StatusBadRequest, "%s", firstPageIsOne)
		}

		if c.isTooEarly(text, q) {
			return nil, nil
		}

		if c.flagParam("case_sensitive") {
			q.matchCase()
		}

		items = applyQuery(q, items, of)
	}

	if limit >= 0 && len(items) > limit {
		items = items[:limit]
	}

	return items, nil
}

// searchMemory is the time during which the engine remembers that a search for a missing tag was empty.
const searchMemory = 24 * time.Hour

// isTooEarly reports whether a search is for a missing tag, or whether an equal search was within the last
// searchMemory. The engine remembers only searches for nothing but tags.
func (c *call) isTooEarly(text string, q *query) bool {
	if at, known := c.earlySearches[text]; known && c.now().Sub(at) < searchMemory {
		return true
	}

	for _, conditions := range q.any {
		if len(conditions) == 0 {
			return false
		}

		for _, one := range conditions {
			isTag := func(t *store.Tag) bool { return one.pattern.MatchString(t.Name) }
			if one.field != "tag" || one.operator != "=" || strings.Contains(one.value, "*") ||
				len(c.store.Tags.Where(isTag, store.TagKey)) > 0 {
				return false
			}
		}
	}

	if c.earlySearches == nil {
		c.earlySearches = map[string]time.Time{}
	}

	c.earlySearches[text] = c.now()

	return true
}

// usesKnownFields reports whether the objects have all fields of a query.
func (q *query) usesKnownFields(of interface{ has(field string) bool }) bool {
	for _, conditions := range q.any {
		for _, one := range conditions {
			if one.field != "" && !of.has(one.field) {
				return false
			}
		}
	}

	return q.sort == "" || of.has(q.sort)
}

func (f fields[T]) has(field string) bool { return f[field] != nil }

// matchCase makes a query case-sensitive.
func (q *query) matchCase() {
	for _, conditions := range q.any {
		for i := range conditions {
			conditions[i].pattern = conditions[i].exact
		}
	}
}

// anyField are the fields searched for a value without a field.
var anyField = []string{"name", "description", "comment", "status", "cluster", "datacenter", "host", "id"}

func applyQuery[T any](q *query, items []T, of fields[T]) []T {
	matches := func(item T, one *condition) bool {
		if one.field != "" {
			return one.matchesValues(of[one.field](item))
		}

		return slices.ContainsFunc(anyField, func(field string) bool {
			return of[field] != nil && one.matchesValues(of[field](item))
		})
	}

	out := make([]T, 0, len(items))
	for _, item := range items {
		if slices.ContainsFunc(q.any, func(conditions []condition) bool {
			return !slices.ContainsFunc(conditions, func(one condition) bool { return !matches(item, &one) })
		}) {
			out = append(out, item)
		}
	}

	if q.sort != "" {
		first := func(item T) string { return strings.Join(of[q.sort](item), " ") }
		slices.SortStableFunc(out, func(a, b T) int {
			order := strings.Compare(first(a), first(b))
			if q.desc {
				return -order
			}

			return order
		})
	}

	if q.page > 0 {
		from := min((q.page-1)*pageSize, len(out))
		out = out[from:min(from+pageSize, len(out))]
	}

	return out
}
