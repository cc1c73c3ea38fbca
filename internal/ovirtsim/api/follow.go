package api

import (
	"net/http"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file has the parameter follow: links of an answer that are replaced by what they lead to.

// follow replaces links by what they lead to, as ?follow=nics,disk_attachments.disk asks.
func (c *call) follow(document *wire.Element) (*wire.Element, error) {
	for _, path := range strings.Split(c.query.Get("follow"), ",") {
		if path = strings.TrimSpace(path); path == "" {
			continue
		}

		targets := []*wire.Element{document}
		if document.Attr("href") == "" { // a list: follow from each of its items
			targets = document.Kids
		}

		if err := c.followPath(targets, strings.Split(path, ".")); err != nil {
			return nil, err
		}
	}

	return document, nil
}

func (c *call) followPath(targets []*wire.Element, path []string) error {
	for _, segment := range path {
		var next []*wire.Element

		for _, target := range targets {
			found, known, err := c.expand(target, segment)
			if err != nil {
				return err
			}

			if !known { // also where only one of many lacks it, such as a VM without a host
				return wire.BrokenPage()
			}

			next = append(next, found...)
		}

		targets = next
	}

	return nil
}

// expand replaces one link, or the references of one list, and returns what came instead, the items where it is a list.
func (c *call) expand(target *wire.Element, segment string) (found []*wire.Element, known bool, err error) {
	rel := strings.ReplaceAll(segment, "_", "")
	for i, kid := range target.Kids { // what is in the document already goes before a link to the same
		if strings.ReplaceAll(kid.Name, "_", "") != rel || kid.Name == "link" {
			continue
		}

		if kid.Attr("href") == "" {
			return kid.Kids, true, nil // what a list refers to stays a reference
		}

		if len(kid.Kids) == 0 {
			document, err := c.resolve(kid.Attr("href"))
			if err != nil {
				return nil, true, err
			}

			document.Name = kid.Name
			target.Kids[i] = document
			kid = document
		}

		return []*wire.Element{kid}, true, nil
	}

	for i, kid := range target.Kids {
		if kid.Name == "link" && kid.Attr("rel") == rel {
			document, err := c.resolve(kid.Attr("href"))
			if err != nil {
				return nil, true, err
			}

			target.Kids[i] = document

			return document.Kids, true, c.resolveItems(document)
		}
	}

	return nil, false, nil
}

// resolveItems puts objects in the place of those items of a list that only refer to them.
func (c *call) resolveItems(list *wire.Element) error {
	for i, item := range list.Kids {
		if item.Attr("href") == "" || len(item.Kids) > 0 {
			continue
		}

		document, err := c.resolve(item.Attr("href"))
		if err != nil {
			return err
		}

		document.Item = true
		list.Kids[i] = document
	}

	return nil
}

// resolve runs the GET of a link within this call, whose lock it holds.
func (c *call) resolve(path string) (*wire.Element, error) {
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
