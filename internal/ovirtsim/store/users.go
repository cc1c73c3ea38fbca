package store

import (
	"strings"
)

// UserNamed returns the user with this name, or nil.
func (s *Store) UserNamed(name string) *User {
	for _, u := range s.Users.Rows {
		if u.Name == name {
			return u
		}
	}

	return nil
}

// HasProfile reports whether the engine has the authentication profile: internal, or the profile of a user. Profiles
// are case-sensitive.
func (s *Store) HasProfile(profile string) bool {
	return profile == "internal" || s.HasUserOf(profile)
}

// HasUserOf reports whether a user with the profile exists.
func (s *Store) HasUserOf(profile string) bool {
	for _, u := range s.Users.Rows {
		if at := strings.LastIndex(u.Name, "@"); at >= 0 && u.Name[at+1:] == profile {
			return true
		}
	}

	return false
}
