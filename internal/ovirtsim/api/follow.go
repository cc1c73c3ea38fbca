package api

import (
	"net/http"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the parameter follow. It replaces links in a response by the objects at their targets.

// followLinks replaces links in a document by their targets, as requested with ?follow=nics,disk_attachments.disk.
func (c *call) followLinks(document *wire.Element) (*wire.Element, error) {
	for _, path := range strings.Split(c.query.Get("follow"), ",") {
		if path = strings.TrimSpace(path); path == "" {
			continue
		}

		together := group{document}
		if document.Attr("href") == "" { // a list: follow from each of its items
			together = document.Kids
		}

		if err := c.followPath([]group{together}, strings.Split(path, ".")); err != nil {
			return nil, err
		}
	}

	return document, nil
}

// group holds the objects of one list. Equal references in a list share their target.
type group []*wire.Element

// followPath follows a path from the objects of all groups. The engine follows an object's links once, so a copy of the
// object in another list keeps its references.
func (c *call) followPath(groups []group, path []string) error {
	for _, segment := range path {
		seen := map[string]*wire.Element{}
		var next []group

		for _, together := range groups {
			var inGroup group
			shared := map[string]*wire.Element{}

			for _, target := range together {
				if first := seen[target.Attr("href")]; first != nil && first != target {
					continue
				}

				seen[target.Attr("href")] = target
				one, list, known, err := c.expandLink(target, segment, shared)

				switch {
				case err != nil:
					return err
				case !known: // an error even if only one of many objects lacks the link, such as a VM without a host
					return wire.BrokenPage()
				case one != nil:
					inGroup = append(inGroup, one)
				default:
					next = append(next, list)
				}
			}

			if len(inGroup) > 0 {
				next = append(next, inGroup)
			}
		}

		groups = next
	}

	return nil
}

// expandLink replaces one link, or the references in one list. It returns the new object, or the items of the list. The
// parameter shared maps links to targets already expanded for other objects of the group.
func (c *call) expandLink(
	target *wire.Element, segment string, shared map[string]*wire.Element,
) (one *wire.Element, list group, known bool, err error) {
	rel := strings.ReplaceAll(segment, "_", "")
	for i, kid := range target.Kids { // existing elements take precedence over a link
		if strings.ReplaceAll(kid.Name, "_", "") != rel || kid.Name == "link" {
			continue
		}

		href := kid.Attr("href")
		if href == "" {
			return nil, kid.Kids, true, nil // references in a list stay references
		}

		if len(kid.Kids) == 0 {
			if shared[href] == nil {
				document, err := c.resolveLink(href)
				if err != nil {
					return nil, nil, true, err
				}

				document.Name = kid.Name
				shared[href] = document
			}

			target.Kids[i] = shared[href]
		}

		return target.Kids[i], nil, true, nil
	}

	for i, kid := range target.Kids {
		if kid.Name == "link" && kid.Attr("rel") == rel {
			document, err := c.resolveLink(kid.Attr("href"))
			if err != nil {
				return nil, nil, true, err
			}

			target.Kids[i] = document

			return nil, document.Kids, true, c.resolveItems(document)
		}
	}

	return nil, nil, false, nil
}

// resolveItems replaces bare references in a list by their targets.
func (c *call) resolveItems(list *wire.Element) error {
	for i, item := range list.Kids {
		if item.Attr("href") == "" || len(item.Kids) > 0 {
			continue
		}

		document, err := c.resolveLink(item.Attr("href"))
		if err != nil {
			return err
		}

		document.Item = true
		list.Kids[i] = document
	}

	return nil
}

// resolveLink makes the GET request of a link as part of this call, under the same lock.
func (c *call) resolveLink(path string) (*wire.Element, error) {
	r, err := http.NewRequestWithContext(c.r.Context(), http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}

	r.Header = c.r.Header
	inner := &call{Engine: c.Engine, r: r, user: c.user, filtered: c.filtered}
	if refused := inner.routeRequest(); refused != nil {
		return nil, refused
	}

	return inner.op(inner)
}
