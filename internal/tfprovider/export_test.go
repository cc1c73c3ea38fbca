package tfprovider

// ImportParts returns the attributes in the import ID of a resource, in its order.
func ImportParts(typeName string) []string { return identities[typeName] }
