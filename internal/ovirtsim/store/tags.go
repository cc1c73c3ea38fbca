package store

// TagLine returns the names of a tag and of its ancestors, without the root tag.
func (s *Store) TagLine(t *Tag) []string {
	var out []string
	for ; t != nil && t.ID != RootTagID; t = s.Tags.Get(t.Parent) {
		out = append(out, t.Name)
	}

	return out
}

// DropTag removes a tag and its descendants.
func (s *Store) DropTag(t *Tag) {
	for _, other := range s.Tags.Where(func(o *Tag) bool { return o.Parent == t.ID }, TagKey) {
		s.DropTag(other)
	}

	s.Tags.Drop(t.ID)
}
