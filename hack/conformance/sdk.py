"""Walks through an engine with oVirt's Python SDK, as scripts of administrators do. Each step is told when it fails."""
import json
import sys
import time

import ovirtsdk4 as sdk
from ovirtsdk4 import types

with open(sys.argv[1]) as file:
    settings = json.load(file)
connection = sdk.Connection(
    url=settings["url"] + "/api", username=settings["username"], password=settings["password"], ca_file=settings["ca_file"]
)
system = connection.system_service()
problems = []


def step(what, action):
    """Runs a step and returns what it returns; None where it failed."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - every failure is told, and the walk goes on
        problems.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
        return None


def stopped(kind, error, trace):
    """Tells what went wrong before something could not go on."""
    print("\n".join(problems), file=sys.stderr)
    sys.__excepthook__(kind, error, trace)


sys.excepthook = stopped


def refused(what, code, action):
    """Expects an engine to refuse, with that status code."""
    try:
        action()
    except sdk.Error as error:
        if getattr(error, "code", None) != code:
            problems.append(f"{what}: refused with {getattr(error, 'code', None)}, want {code}: {error}")
        return
    problems.append(f"{what}: accepted, want {code}")


def until(what, look):
    for _ in range(400):
        if look():
            return
        time.sleep(0.05)
    problems.append(f"{what}: waited in vain")


def gone(service):
    def look():
        try:
            service.get()
        except sdk.NotFoundError:
            return True
        return False

    return look


# Every collection that scripts list, with a search where there is one.
for name in """affinity_labels bookmarks clusters cluster_levels cpu_profiles data_centers disk_profiles disks domains events groups hosts icons
image_transfers instance_types jobs mac_pools network_filters networks operating_systems permissions roles scheduling_policies
storage_connections storage_domains tags templates users vm_pools vms vnic_profiles""".split():
    step("list " + name, lambda name=name: getattr(system, name + "_service")().list())
for name, search in {
    "clusters": "name=Default", "data_centers": "name=Default", "disks": "name=*", "events": "severity>normal", "hosts": "name=host-1",
    "networks": "name=ovirtmgmt", "storage_domains": "name=olvm-data", "templates": "name=ol9-k8s", "users": "usrname=admin@internal-authz",
    "vms": "name=x and status=up", "vms ": "cluster=Default sortby name",
}.items():
    step(f"search {name} {search}", lambda name=name, search=search: getattr(system, name.strip() + "_service")().list(search=search))
api = step("the entry", connection.system_service().get)
assert api and api.product_info.version.major == 4, api

cluster = step("a cluster", lambda: system.clusters_service().list(search="name=Default")[0])
template = step("a template", lambda: system.templates_service().list(search="name=ol9-k8s")[0])
domain = step("a storage domain", lambda: system.storage_domains_service().list(search="name=olvm-data")[0])
profile = step("a vNIC profile", lambda: next(p for p in system.vnic_profiles_service().list() if p.name == "ovirtmgmt"))

vms = system.vms_service()
vm = step("create a VM", lambda: vms.add(types.Vm(
    name="sdk", comment="made by the SDK", description="sdk", cluster=types.Cluster(id=cluster.id), template=types.Template(id=template.id),
    memory=2 << 30, memory_policy=types.MemoryPolicy(guaranteed=1 << 30, max=4 << 30), cpu=types.Cpu(topology=types.CpuTopology(cores=2, sockets=1, threads=1)),
    high_availability=types.HighAvailability(enabled=True, priority=50), delete_protected=False, type=types.VmType.SERVER,
    initialization=types.Initialization(host_name="sdk", custom_script="#cloud-config\n", nic_configurations=[
        types.NicConfiguration(name="eth0", on_boot=True, boot_protocol=types.BootProtocol.STATIC,
                               ip=types.Ip(address="10.0.0.7", netmask="255.255.255.0", gateway="10.0.0.1"))]),
)))
service = vms.vm_service(vm.id)
until("the VM is down", lambda: service.get().status == types.VmStatus.DOWN)
seen = step("read it all", lambda: service.get(all_content=True))
assert seen.high_availability.priority == 50 and seen.initialization.host_name == "sdk", seen
refused("a second VM of that name", 409, lambda: vms.add(types.Vm(name="sdk", cluster=types.Cluster(id=cluster.id), template=types.Template(id=template.id))))
refused("an unknown template", 404, lambda: vms.add(types.Vm(name="sdk2", cluster=types.Cluster(id=cluster.id), template=types.Template(name="nosuch"))))
step("change it", lambda: service.update(types.Vm(comment="changed", bios=types.Bios(boot_menu=types.BootMenu(enabled=True)))))
step("its links", lambda: connection.follow_link(service.get().nics))

nics = service.nics_service()
nic = step("add a NIC", lambda: nics.add(types.Nic(name="nic1", interface=types.NicInterface.VIRTIO, vnic_profile=types.VnicProfile(id=profile.id))))
step("change the NIC", lambda: nics.nic_service(nic.id).update(types.Nic(linked=False)))
step("its parameters", lambda: nics.nic_service(nic.id).network_filter_parameters_service().list())
attachments = service.disk_attachments_service()
disk = step("add a disk", lambda: attachments.add(types.DiskAttachment(
    interface=types.DiskInterface.VIRTIO_SCSI, bootable=False, active=True,
    disk=types.Disk(name="sdk-data", format=types.DiskFormat.COW, provisioned_size=1 << 30, storage_domains=[types.StorageDomain(id=domain.id)]))))
disks = system.disks_service()
until("the disk is there", lambda: disks.disk_service(disk.id).get().status == types.DiskStatus.OK)
step("grow the disk", lambda: attachments.attachment_service(disk.id).update(types.DiskAttachment(disk=types.Disk(provisioned_size=2 << 30))))
until("the disk has grown", lambda: disks.disk_service(disk.id).get().status == types.DiskStatus.OK)
refused("shrink the disk", 400, lambda: attachments.attachment_service(disk.id).update(types.DiskAttachment(disk=types.Disk(provisioned_size=1 << 30))))
step("statistics", lambda: [service.statistics_service().list(), disks.disk_service(disk.id).statistics_service().list(),
                            nics.nic_service(nic.id).statistics_service().list()])
for name in "applications cdroms graphics_consoles host_devices mediated_devices numa_nodes permissions reported_devices sessions snapshots tags watchdogs".split():
    attribute = {"host_devices": "host_devices_service", "mediated_devices": "mediated_devices_service"}.get(name, name + "_service")
    step("list " + name + " of a VM", lambda attribute=attribute: getattr(service, attribute)().list())

tag = step("a tag", lambda: system.tags_service().add(types.Tag(name="sdk", description="by the SDK")))
step("tag the VM", lambda: service.tags_service().add(types.Tag(id=tag.id)))
assert [found.name for found in vms.list(search="tag=sdk")] == ["sdk"]
label = step("a label", lambda: system.affinity_labels_service().add(types.AffinityLabel(name="sdk")))
step("label the VM", lambda: service.affinity_labels_service().add(types.AffinityLabel(id=label.id)))
groups = system.clusters_service().cluster_service(cluster.id).affinity_groups_service()
group = step("a group", lambda: groups.add(types.AffinityGroup(
    name="sdk", vms_rule=types.AffinityRule(enabled=True, enforcing=False, positive=False))))
members = groups.group_service(group.id).vms_service()
step("join the group", lambda: members.add(types.Vm(id=vm.id)))
refused("join it twice", 400, lambda: members.add(types.Vm(id=vm.id)))

snapshots = service.snapshots_service()
snapshot = step("a snapshot", lambda: snapshots.add(types.Snapshot(description="sdk", persist_memorystate=False)))
until("the snapshot is there", lambda: snapshots.snapshot_service(snapshot.id).get().snapshot_status == types.SnapshotStatus.OK)
step("start", lambda: service.start())
until("the VM is up", lambda: service.get().status == types.VmStatus.UP)
refused("start again", 409, lambda: service.start())
refused("preview while it runs", 409, lambda: service.preview_snapshot(snapshot=types.Snapshot(id=snapshot.id)))
step("a ticket", lambda: service.graphics_consoles_service().console_service(service.graphics_consoles_service().list(current=True)[0].id).ticket())
step("what waits", lambda: service.update(types.Vm(memory_policy=types.MemoryPolicy(max=8 << 30))))
assert service.get(next_run=True).memory_policy.max == 8 << 30
step("reboot", lambda: service.reboot())
until("the VM is up again", lambda: service.get().status == types.VmStatus.UP)
step("stop", lambda: service.stop())
until("the VM is down again", lambda: service.get().status == types.VmStatus.DOWN)
until("what waited is there", lambda: service.get().memory_policy.max == 8 << 30)
step("restore the snapshot", lambda: snapshots.snapshot_service(snapshot.id).restore())
until("the VM is restored", lambda: service.get().status == types.VmStatus.DOWN)
step("remove the snapshot", lambda: snapshots.snapshot_service(snapshot.id).remove())
until("the snapshot is gone", gone(snapshots.snapshot_service(snapshot.id)))
step("a watchdog", lambda: service.watchdogs_service().add(types.Watchdog(model=types.WatchdogModel.I6300ESB, action=types.WatchdogAction.RESET)))

made = step("a template of it", lambda: system.templates_service().add(types.Template(name="sdk-template", vm=types.Vm(id=vm.id))))
until("the template is there", lambda: system.templates_service().template_service(made.id).get().status == types.TemplateStatus.OK)
step("remove the template", lambda: system.templates_service().template_service(made.id).remove())

network = step("a network", lambda: system.networks_service().add(types.Network(
    name="sdk", data_center=types.DataCenter(id=cluster.data_center.id), usages=[types.NetworkUsage.VM], vlan=types.Vlan(id=77))))
step("change the network", lambda: system.networks_service().network_service(network.id).update(types.Network(comment="x", mtu=9000)))
own = step("a vNIC profile of it", lambda: system.vnic_profiles_service().add(types.VnicProfile(name="sdk-own", network=types.Network(id=network.id))))
step("change the profile", lambda: system.vnic_profiles_service().profile_service(own.id).update(types.VnicProfile(description="x")))
step("remove the profile", lambda: system.vnic_profiles_service().profile_service(own.id).remove())
step("remove the network", lambda: system.networks_service().network_service(network.id).remove())
second = step("a cluster", lambda: system.clusters_service().add(types.Cluster(
    name="sdk", data_center=types.DataCenter(id=cluster.data_center.id), cpu=types.Cpu(type="Intel Nehalem Family"))))
step("change the cluster", lambda: system.clusters_service().cluster_service(second.id).update(types.Cluster(description="x")))
step("remove the cluster", lambda: system.clusters_service().cluster_service(second.id).remove())

refused("a label in use", 409, lambda: system.affinity_labels_service().label_service(label.id).remove())
step("leave the group", lambda: members.vm_service(vm.id).remove())
step("unlabel the VM", lambda: service.affinity_labels_service().label_service(label.id).remove())
step("remove label, group and tag", lambda: [system.affinity_labels_service().label_service(label.id).remove(), groups.group_service(group.id).remove(),
                                             system.tags_service().tag_service(tag.id).remove()])
step("detach the disk", lambda: attachments.attachment_service(disk.id).remove(detach_only=True))
until("the disk can be removed", lambda: disks.disk_service(disk.id).get().status == types.DiskStatus.OK)
step("remove the disk", lambda: disks.disk_service(disk.id).remove())
step("remove the VM", lambda: service.remove())
until("the VM is gone", gone(service))
until("the disk is gone", gone(disks.disk_service(disk.id)))
step("its events", lambda: system.events_service().list(search="vms.name=sdk", max=5))
connection.close()
if problems:
    sys.exit("\n".join(problems))
