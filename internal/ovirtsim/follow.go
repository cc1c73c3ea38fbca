package ovirtsim

import (
	"net/http"
	"strings"
)

// This file has the parameter follow: links of an answer that are replaced by what they lead to.

// follow replaces links by what they lead to, as ?follow=nics,disk_attachments.disk asks.
func (c *call) follow(document *element) (*element, error) {
	for _, path := range strings.Split(c.query.Get("follow"), ",") {
		if path = strings.TrimSpace(path); path == "" {
			continue
		}
		targets := []*element{document}
		if document.attr("href") == "" { // a list: follow from each of its items
			targets = document.kids
		}
		if err := c.followPath(targets, strings.Split(path, ".")); err != nil {
			return nil, err
		}
	}
	return document, nil
}

func (c *call) followPath(targets []*element, path []string) error {
	for _, segment := range path {
		var next []*element
		for _, target := range targets {
			found, known, err := c.expand(target, segment)
			if err != nil {
				return err
			}
			if !known { // also where only one of many lacks it, such as a VM without a host
				return brokenPage()
			}
			next = append(next, found...)
		}
		targets = next
	}
	return nil
}

// expand replaces one link, or the references of one list, and returns what came instead, the items where it is a list.
func (c *call) expand(target *element, segment string) (found []*element, known bool, err error) {
	rel := strings.ReplaceAll(segment, "_", "")
	for i, kid := range target.kids { // what is in the document already goes before a link to the same
		if strings.ReplaceAll(kid.name, "_", "") != rel || kid.name == "link" {
			continue
		}
		if kid.attr("href") == "" {
			return kid.kids, true, nil // what a list refers to stays a reference
		}
		if len(kid.kids) == 0 {
			document, err := c.resolve(kid.attr("href"))
			if err != nil {
				return nil, true, err
			}
			document.name = kid.name
			target.kids[i] = document
			kid = document
		}
		return []*element{kid}, true, nil
	}
	for i, kid := range target.kids {
		if kid.name == "link" && kid.attr("rel") == rel {
			document, err := c.resolve(kid.attr("href"))
			if err != nil {
				return nil, true, err
			}
			target.kids[i] = document
			return document.kids, true, c.resolveItems(document)
		}
	}
	return nil, false, nil
}

// resolveItems puts objects in the place of those items of a list that only refer to them.
func (c *call) resolveItems(list *element) error {
	for i, item := range list.kids {
		if item.attr("href") == "" || len(item.kids) > 0 {
			continue
		}
		document, err := c.resolve(item.attr("href"))
		if err != nil {
			return err
		}
		document.item = true
		list.kids[i] = document
	}
	return nil
}

// resolve runs the GET of a link within this call, whose lock it holds.
func (c *call) resolve(path string) (*element, error) {
	r, err := http.NewRequestWithContext(c.r.Context(), http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	r.Header = c.r.Header
	inner := &call{Engine: c.Engine, r: r, user: c.user, filtered: c.filtered}
	if refused := inner.route(); refused != nil {
		return nil, refused
	}
	return inner.op(inner)
}
