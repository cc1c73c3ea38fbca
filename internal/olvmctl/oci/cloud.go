package oci

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oracle/oci-go-sdk/v65/common"
	"github.com/oracle/oci-go-sdk/v65/core"
	"github.com/oracle/oci-go-sdk/v65/identity"
	"github.com/oracle/oci-go-sdk/v65/objectstorage"
	"github.com/oracle/oci-go-sdk/v65/workrequests"
)

// Endpoints are URLs of services that replace the URLs of the region. An empty URL replaces nothing.
type Endpoints struct {
	Compute, Network, NetworkLoadBalancer, Identity, ObjectStorage, WorkRequests string
}

// Cloud accesses a region of OCI with an account.
type Cloud struct {
	tenancy  string
	identity identity.IdentityClient
	compute  core.ComputeClient
	storage  objectstorage.ObjectStorageClient
	work     workrequests.WorkRequestClient
}

// Connect returns a Cloud with its clients. It sends no requests.
func Connect(account *Account, at Endpoints) (*Cloud, error) {
	out := &Cloud{tenancy: account.Tenancy}
	var problems [4]error
	out.identity, problems[0] = identity.NewIdentityClientWithConfigurationProvider(account.provider)
	out.compute, problems[1] = core.NewComputeClientWithConfigurationProvider(account.provider)
	out.storage, problems[2] = objectstorage.NewObjectStorageClientWithConfigurationProvider(account.provider)
	out.work, problems[3] = workrequests.NewWorkRequestClientWithConfigurationProvider(account.provider)
	if err := errors.Join(problems[:]...); err != nil {
		return nil, fmt.Errorf("failed to create clients of OCI: %w", err)
	}

	retry := common.DefaultRetryPolicyWithoutEventualConsistency()

	for client, endpoint := range map[*common.BaseClient]string{
		&out.identity.BaseClient: at.Identity,
		&out.compute.BaseClient:  at.Compute,
		&out.storage.BaseClient:  at.ObjectStorage,
		&out.work.BaseClient:     at.WorkRequests,
	} {
		client.Configuration.RetryPolicy = &retry
		if endpoint != "" {
			client.Host = strings.TrimSuffix(endpoint, "/")
		}
	}

	return out, nil
}

// explainError shortens a multi-line error of the SDK to its cause.
func explainError(err error) error {
	if err == nil {
		return nil
	}

	refused, ok := common.IsServiceError(err)
	if !ok {
		return err
	}

	switch refused.GetHTTPStatusCode() {
	case 401:
		return fmt.Errorf("OCI rejects the user or the key (%s); correct the profile in the OCI configuration",
			refused.GetMessage())
	case 404:
		return fmt.Errorf("not found, or not visible to the user (%s)", refused.GetMessage())
	}

	return fmt.Errorf("OCI returned %d %s: %s", refused.GetHTTPStatusCode(), refused.GetCode(), refused.GetMessage())
}

// isNotFound reports whether OCI does not have the object, or hides it.
func isNotFound(err error) bool {
	refused, ok := common.IsServiceError(err)
	return ok && refused.GetHTTPStatusCode() == 404
}

// FindCompartment returns the OCID of a compartment. name is its OCID, or its path in the tenancy.
func (c *Cloud) FindCompartment(ctx context.Context, name string) (string, error) {
	if strings.HasPrefix(name, "ocid1.") {
		_, err := c.identity.GetCompartment(ctx, identity.GetCompartmentRequest{CompartmentId: &name})
		if err != nil {
			return "", fmt.Errorf("compartment %s: %w", name, explainError(err))
		}

		return name, nil
	}

	parent, parentName := c.tenancy, "the tenancy"

	for _, part := range strings.Split(strings.Trim(name, "/"), "/") {
		children, err := c.listCompartments(ctx, parent)
		if err != nil {
			return "", fmt.Errorf("failed to list the compartments of %s: %w", parentName, explainError(err))
		}

		at := slices.IndexFunc(children, func(child identity.Compartment) bool { return *child.Name == part })
		if at < 0 {
			return "", fmt.Errorf("no such compartment %q in %s; %s", part, parentName, namesOf(children))
		}

		parent, parentName = *children[at].Id, fmt.Sprintf("%q", part)
	}

	return parent, nil
}

// listCompartments returns the active compartments in a compartment.
func (c *Cloud) listCompartments(ctx context.Context, of string) ([]identity.Compartment, error) {
	var out []identity.Compartment
	request := identity.ListCompartmentsRequest{
		CompartmentId:  &of,
		LifecycleState: identity.CompartmentLifecycleStateActive,
	}

	for {
		response, err := c.identity.ListCompartments(ctx, request)
		if err != nil {
			return nil, err
		}

		out = append(out, response.Items...)
		if request.Page = response.OpcNextPage; request.Page == nil {
			return out, nil
		}
	}
}

func namesOf(compartments []identity.Compartment) string {
	var names []string
	for _, one := range compartments {
		names = append(names, *one.Name)
	}

	if len(names) == 0 {
		return "it has no compartments"
	}

	slices.Sort(names)

	return "existing compartments: " + strings.Join(names, ", ")
}
