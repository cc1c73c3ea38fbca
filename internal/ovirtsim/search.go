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

var searchToken = regexp.MustCompile(`"([^"]*)"|(!=|<=|>=|=|<|>)|[^\s=<>!"]+`)

// parseSearch understands the engine's language: FIELD OPERATOR VALUE joined by "and" and "or", where "and" binds
// tighter; values in quotes; * as wildcard; a value alone matches any field; "sortby FIELD asc|desc" and "page N" at
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
	tokens := searchToken.FindAllString(rest, -1)
	q := &query{any: [][]condition{nil}}
	word := func(i int) string {
		if i < len(tokens) {
			return strings.ToLower(tokens[i])
		}
		return ""
	}
	joined := true // whether a condition may follow
	for i := 0; i < len(tokens); {
		switch word(i) {
		case "sortby":
			if q.sort = word(i + 1); q.sort == "" {
				return nil, bad("sortby names no field")
			}
			i += 2
			if word(i) == "asc" || word(i) == "desc" {
				q.desc = word(i) == "desc"
				i++
			}
			continue
		case "page":
			n, err := strconv.Atoi(word(i + 1))
			if err != nil || n < 1 {
				return nil, bad("page needs a number")
			}
			q.page = n
			i += 2
			continue
		case "and", "or":
			if joined {
				return nil, bad(word(i) + " stands at the wrong place")
			}
			if word(i) == "or" {
				q.any = append(q.any, nil)
			}
			joined = true
			i++
			continue
		}
		if !joined {
			return nil, bad("there is no and or or before " + tokens[i])
		}
		made := condition{operator: "=", value: tokens[i]}
		switch operator := word(i + 1); operator {
		case "=", "!=", "<", ">", "<=", ">=":
			if i+2 >= len(tokens) {
				return nil, bad("there is nothing behind " + operator)
			}
			made = condition{field: word(i), operator: operator, value: tokens[i+2]}
			i += 3
		default:
			i++
		}
		made.value = strings.Trim(made.value, `"`)
		if strings.ContainsAny(made.operator, "<>") {
			if _, err := strconv.ParseFloat(made.value, 64); err != nil {
				return nil, bad(made.value + " is not a number")
			}
		}
		made.pattern = regexp.MustCompile("^(?is:" + strings.ReplaceAll(regexp.QuoteMeta(made.value), `\*`, ".*") + ")$")
		q.any[len(q.any)-1] = append(q.any[len(q.any)-1], made)
		joined = false
	}
	if len(q.any) > 1 && joined || len(q.any) == 1 && joined && len(q.any[0]) > 0 {
		return nil, bad("it ends in the middle")
	}
	return q, nil
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
