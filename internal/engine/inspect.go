package engine

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Appearance has the properties an engine shows without a login.
type Appearance struct {
	// CertificateEnds is the end of the certificate's validity.
	CertificateEnds time.Time
	// Ahead is how far the engine's clock is ahead of ours. It is negative if the clock is behind. Its resolution is
	// one second.
	Ahead time.Duration
}

// FetchAppearance reads the public properties of the engine without a login.
func (c *Client) FetchAppearance(ctx context.Context) (Appearance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+"/services/health", nil)
	if err != nil {
		return Appearance{}, fmt.Errorf("failed to build the request: %w", err)
	}

	asked := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		return Appearance{}, fmt.Errorf("failed to ask the engine: %w", err)
	}

	_ = response.Body.Close()
	if response.TLS == nil || len(response.TLS.PeerCertificates) == 0 {
		return Appearance{}, errors.New("the engine shows no certificate")
	}

	out := Appearance{CertificateEnds: response.TLS.PeerCertificates[0].NotAfter}

	told, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return out, fmt.Errorf("the engine does not tell its time: %w", err)
	}

	// The engine wrote the time of its answer between these two times, and truncated it to seconds.
	if now := time.Now(); told.After(now) {
		out.Ahead = told.Sub(now).Round(time.Second)
	} else if told.Add(time.Second).Before(asked) {
		out.Ahead = told.Sub(asked).Round(time.Second)
	}

	return out, nil
}

// Grant is a role granted to a user.
type Grant struct {
	// Role is the name of the role, such as SuperUser.
	Role string
	// On is the kind of object the role applies to, such as cluster. It is "" for the whole system, and for kinds that
	// do not matter for machines.
	On string
	// Permits are the role's permits, by the numbers the engine gives them.
	Permits []string
}

// permission is a role of a user on one of the possible objects.
type permission struct {
	Role       *Ref `xml:"role"`
	DataCenter *Ref `xml:"data_center"`
	Cluster    *Ref `xml:"cluster"`
	Template   *Ref `xml:"template"`
	Storage    *Ref `xml:"storage_domain"`
	Host       *Ref `xml:"host"`
	VM         *Ref `xml:"vm"`
	Disk       *Ref `xml:"disk"`
	Network    *Ref `xml:"network"`
	Profile    *Ref `xml:"vnic_profile"`
}

// objectKind returns the kind of the permission's object, or "" for the whole system.
func (p *permission) objectKind() string {
	for _, kind := range []struct {
		name string
		ref  *Ref
	}{
		{"data center", p.DataCenter}, {"cluster", p.Cluster}, {"template", p.Template}, {"storage domain", p.Storage},
		{"host", p.Host}, {"VM", p.VM}, {"disk", p.Disk}, {"network", p.Network}, {"vNIC profile", p.Profile},
	} {
		if kind.ref != nil {
			return kind.name
		}
	}

	return ""
}

// ListGrants returns the administrator roles of this session's user. No recording shows whether an engine also lists
// the roles of the user's groups.
func (c *Client) ListGrants(ctx context.Context) ([]Grant, error) {
	var root struct {
		XMLName xml.Name `xml:"api"`
		User    *Ref     `xml:"authenticated_user"`
	}
	if err := c.readRoot(ctx, &root); err != nil {
		return nil, fmt.Errorf("failed to ask the engine who its user is: %w", err)
	}

	if root.User == nil {
		return nil, errors.New("the engine does not say who its user is")
	}

	var roles struct {
		XMLName xml.Name `xml:"roles"`
		Items   []struct {
			ID             ID     `xml:"id,attr"`
			Name           string `xml:"name"`
			Administrative bool   `xml:"administrative"`
		} `xml:"role"`
	}
	if err := c.fetchInto(ctx, "/roles", nil, &roles); err != nil {
		return nil, fmt.Errorf("failed to list roles: %w", err)
	}

	var list struct {
		XMLName xml.Name     `xml:"permissions"`
		Items   []permission `xml:"permission"`
	}
	if err := c.fetchInto(ctx, "/users/"+root.User.ID.pathSegment()+"/permissions", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the permissions of the user: %w", err)
	}

	var out []Grant

	for i := range list.Items {
		for _, role := range roles.Items {
			if !role.Administrative || role.ID != RefID(list.Items[i].Role) {
				continue
			}

			permits, err := c.listPermits(ctx, role.ID)
			if err != nil {
				return nil, err
			}

			out = append(out, Grant{role.Name, list.Items[i].objectKind(), permits})
		}
	}

	return out, nil
}

// permitID is the ID of a permit. It is a number in every engine.
type permitID int

// listPermits lists the permits of a role.
func (c *Client) listPermits(ctx context.Context, role ID) ([]string, error) {
	var list struct {
		XMLName xml.Name `xml:"permits"`
		Items   []struct {
			ID permitID `xml:"id,attr"`
		} `xml:"permit"`
	}
	if err := c.fetchInto(ctx, "/roles/"+role.pathSegment()+"/permits", nil, &list); err != nil {
		return nil, fmt.Errorf("failed to list the permits of role %s: %w", role, err)
	}

	var out []string
	for _, permit := range list.Items {
		out = append(out, strconv.Itoa(int(permit.ID)))
	}

	return out, nil
}
