package ovirtsim

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fields are what the search language knows of a kind of object, with the values that an object has for each.
type fields[T any] map[string]func(T) []string

// query is a parsed search: alternatives of conditions that must all hold.
type query struct {
	any  [][]condition
	sort string
	desc bool
	page int
}

type condition struct {
	field    string // empty matches any field
	operator string
	value    string
	pattern  *regexp.Regexp
}

var searchToken = regexp.MustCompile(`"([^"]*)"|(!=|<=|>=|=|<|>)|[()]|[^\s=<>!"()]+`)

// parseSearch understands the engine's language: FIELD OPERATOR VALUE joined by "and" and "or", where "and" binds
// tighter and parentheses group; values in quotes; * as wildcard; a value alone matches any field; "sortby FIELD asc|desc" and "page N" at
// the end; and a leading "Vms:" as the web interface writes it.
func parseSearch(text string) (*query, error) {
	bad := func(why string) error { return invalid("The search query %q is not valid: %s", text, why) }
	rest := text
	if head, tail, ok := strings.Cut(text, ":"); ok && regexp.MustCompile(`^\s*[A-Za-z]+\s*$`).MatchString(head) && !strings.ContainsAny(head, "=<>") {
		rest = tail
	}
	if !utf8.ValidString(text) {
		return nil, bad("it is not UTF-8")
	}
	if strings.Count(rest, `"`)%2 != 0 {
		return nil, bad("a quote is not closed")
	}
	p := &searchParser{tokens: searchToken.FindAllString(rest, -1), bad: bad}
	q := &query{any: [][]condition{nil}} // which holds for everything
	if word := p.word(0); word != "" && word != "sortby" && word != "page" {
		var err error
		if q.any, err = p.alternatives(); err != nil {
			return nil, err
		}
	}
	for p.word(0) != "" {
		switch p.word(0) {
		case "sortby":
			if q.sort = p.word(1); q.sort == "" {
				return nil, bad("sortby names no field")
			}
			p.at += 2
			if order := p.word(0); order == "asc" || order == "desc" {
				q.desc = order == "desc"
				p.at++
			}
		case "page":
			n, err := strconv.Atoi(p.word(1))
			if err != nil || n < 1 || n > maxPage {
				return nil, bad("page needs a number")
			}
			q.page = n
			p.at += 2
		default:
			return nil, bad("there is no and or or before " + p.tokens[p.at])
		}
	}
	return q, nil
}

// maxAlternatives bounds what parentheses multiply.
const maxAlternatives = 1000

// searchParser reads conditions from left to right into alternatives.
type searchParser struct {
	tokens []string
	at     int
	bad    func(why string) error
}

// word is the token at a distance from the current one, in lower case; "" behind the end.
func (p *searchParser) word(distance int) string {
	if p.at+distance < len(p.tokens) {
		return strings.ToLower(p.tokens[p.at+distance])
	}
	return ""
}

// alternatives are joined by "or".
func (p *searchParser) alternatives() ([][]condition, error) {
	out, err := p.conjunction()
	for err == nil && p.word(0) == "or" {
		p.at++
		var more [][]condition
		more, err = p.conjunction()
		out = append(out, more...)
	}
	return out, err
}

// conjunction is what "and" joins. Each alternative of one side goes with each of the other.
func (p *searchParser) conjunction() ([][]condition, error) {
	out, err := p.term()
	for err == nil && p.word(0) == "and" {
		p.at++
		var more, both [][]condition
		if more, err = p.term(); err != nil {
			break
		}
		for _, left := range out {
			for _, right := range more {
				if both = append(both, slices.Concat(left, right)); len(both) > maxAlternatives {
					return nil, p.bad("it has too many alternatives")
				}
			}
		}
		out = both
	}
	return out, err
}

// term is a condition, or alternatives in parentheses.
func (p *searchParser) term() ([][]condition, error) {
	switch word := p.word(0); word {
	case "":
		return nil, p.bad("it ends in the middle")
	case "and", "or", "sortby", "page", ")", "=", "!=", "<", ">", "<=", ">=":
		return nil, p.bad(word + " stands at the wrong place")
	case "(":
		p.at++
		inside, err := p.alternatives()
		if err == nil && p.word(0) != ")" {
			err = p.bad("a parenthesis is not closed")
		}
		p.at++
		return inside, err
	}
	made := condition{operator: "=", value: p.tokens[p.at]}
	switch operator := p.word(1); operator {
	case "=", "!=", "<", ">", "<=", ">=":
		if p.at+2 >= len(p.tokens) {
			return nil, p.bad("there is nothing behind " + operator)
		}
		made = condition{field: p.word(0), operator: operator, value: p.tokens[p.at+2]}
		p.at += 3
	default:
		p.at++
	}
	made.value = strings.Trim(made.value, `"`)
	if strings.ContainsAny(made.operator, "<>") {
		if _, err := strconv.ParseFloat(made.value, 64); err != nil {
			return nil, p.bad(made.value + " is not a number")
		}
	}
	made.pattern = regexp.MustCompile("^(?is:" + strings.ReplaceAll(regexp.QuoteMeta(made.value), `\*`, ".*") + ")$")
	return [][]condition{{made}}, nil
}

func (c *condition) holds(values []string) bool {
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

// pageSize is how many objects a page of the search language has.
const pageSize = 100

// maxPage bounds the number of a page.
const maxPage = 1 << 20

// find filters, sorts and limits a list as the parameters search and max of a request ask.
func find[T any](c *call, items []T, of fields[T]) ([]T, error) {
	limit, err := c.max()
	if err != nil {
		return nil, err
	}
	if text := strings.TrimSpace(c.query.Get("search")); text != "" {
		q, err := parseSearch(text)
		if err != nil {
			return nil, err
		}
		if items, err = applyQuery(q, items, of, text); err != nil {
			return nil, err
		}
	}
	if limit >= 0 && len(items) > limit {
		items = items[:limit]
	}
	return items, nil
}

// anyField are looked at for a value without a field.
var anyField = []string{"name", "description", "comment", "status", "cluster", "datacenter", "host", "id"}

func applyQuery[T any](q *query, items []T, of fields[T], text string) ([]T, error) {
	check := func(field string) error {
		if of[field] == nil {
			return invalid("The search query %q is not valid: there is no field %s, but %s", text, field, strings.Join(sortedKeys(of), ", "))
		}
		return nil
	}
	for _, conditions := range q.any {
		for _, one := range conditions {
			if one.field != "" {
				if err := check(one.field); err != nil {
					return nil, err
				}
			}
		}
	}
	matches := func(item T, one *condition) bool {
		if one.field != "" {
			return one.holds(of[one.field](item))
		}
		return slices.ContainsFunc(anyField, func(field string) bool {
			return of[field] != nil && one.holds(of[field](item))
		})
	}
	out := make([]T, 0, len(items))
	for _, item := range items {
		for _, conditions := range q.any {
			all := true
			for i := range conditions {
				if all = matches(item, &conditions[i]); !all {
					break
				}
			}
			if all {
				out = append(out, item)
				break
			}
		}
	}
	if q.sort != "" {
		if err := check(q.sort); err != nil {
			return nil, err
		}
		first := func(item T) string {
			return strings.Join(of[q.sort](item), " ")
		}
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
	return out, nil
}
