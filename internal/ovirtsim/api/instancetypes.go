package api

import (
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var instanceTypeRoutes = []route{
	{"GET", "/instancetypes", listInstanceTypes},
	{"GET", "/instancetypes/{id}", getInstanceType},
}

// instanceTypeDocument shows an instance type. An instance type has neither an operating system nor a cluster.
func instanceTypeDocument(_ *call, t *store.InstanceType) *wire.Element {
	out := wire.NewObject("instance_type", t.ID, "instancetypes", t.ID).Str("name", t.Name).
		Str("description", t.Name+" instance type").Str("creation_time", formatTime(t.Created))
	described := wire.El("instance_type")
	describeHardware(&t.Hardware, described, "", false)
	described.Get("cpu").Kids = slices.DeleteFunc(described.Get("cpu").Kids, func(e *wire.Element) bool {
		return e.Name == "architecture"
	})
	described.Get("os").Kids = slices.DeleteFunc(described.Get("os").Kids, func(e *wire.Element) bool {
		return e.Name == "type"
	})
	described.SetText("spice", "display", "type")

	for _, name := range []string{"cpu", "display", "high_availability", "io", "memory", "memory_policy", "migration",
		"migration_downtime", "os", "placement_policy", "usb"} {
		out.Add(described.Get(name))
	}

	return out
}

func listInstanceTypes(c *call) (*wire.Element, error) {
	of := fields[*store.InstanceType]{
		"name": singleValue(func(t *store.InstanceType) string { return t.Name }),
		"id":   singleValue(func(t *store.InstanceType) string { return t.ID }),
	}

	return answerList(c, "instance_types", c.store.InstanceTypes.Where(nil, func(t *store.InstanceType) string {
		return t.Name
	}), of, instanceTypeDocument)
}

func getInstanceType(c *call) (*wire.Element, error) {
	t, err := findRow(c.store.InstanceTypes, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return instanceTypeDocument(c, t), nil
}
