package tfprovider

// ImportParts returns the attributes of a resource that its import ID has, in its order.
func ImportParts(typeName string) []string { return identities[typeName] }
