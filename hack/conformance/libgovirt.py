"""Uses libgovirt as a remote viewer does: look around, find a VM, run it, get a ticket for its screen."""
import json
import ssl
import sys
import time
import urllib.parse
import urllib.request

import gi

gi.require_version("GoVirt", "1.0")
from gi.repository import GoVirt  # noqa: E402

with open(sys.argv[1]) as file:
    connection = json.load(file)
name = sys.argv[2]



def reach(**login):
    # The library takes the host, and adds the path of the engine itself.
    proxy = GoVirt.Proxy.new(connection["url"].removeprefix("https://").removesuffix("/ovirt-engine"))
    proxy.set_property("ssl-ca-file", connection["ca_file"])
    proxy.set_property("admin", True)
    for key, value in login.items():
        proxy.set_property(key.replace("_", "-"), value)
    return proxy


proxy = reach(username=connection["username"], password=connection["password"])


def fetched(collection):
    collection.fetch(proxy)
    return collection.get_resources()


def refreshed(resource):
    resource.refresh(proxy)
    return resource


def state(vm):
    return refreshed(vm).get_property("state").value_nick


def wait(vm, wanted):
    for _ in range(200):
        if state(vm) == wanted:
            return
        time.sleep(0.05)
    sys.exit(f"the VM is {state(vm)}, not {wanted}")


api = proxy.fetch_api()
hosts, domains = fetched(api.get_hosts()), fetched(api.get_storage_domains())
assert len(hosts) == 3 and "host-1" in hosts, hosts
assert "olvm-data" in domains, domains
assert list(fetched(api.get_clusters())) == ["Default"]
assert list(fetched(api.search_clusters("name=Default"))) == ["Default"]
assert list(fetched(api.get_data_centers())) == ["Default"]
domain = domains["olvm-data"]
assert domain.get_property("available") > 0 and domain.get_property("state").value_nick == "active"
cluster = refreshed(hosts["host-1"].get_cluster())
center = refreshed(cluster.get_data_center())
assert cluster.get_property("name") == center.get_property("name") == "Default"
assert sorted(fetched(center.get_storage_domains())) == sorted(domains)
assert len(fetched(domain.get_disks())) > 0

assert name in fetched(api.get_vms())
found = api.search_vms("name=" + name)
assert list(fetched(found)) == [name]
vm = found.lookup_resource(name)
assert vm.get_property("state").value_nick == "down"
vm.start(proxy)
wait(vm, "up")
vm.get_ticket(proxy)
display = vm.get_property("display")
assert display.get_property("type").value_nick == "vnc"
assert display.get_property("address").startswith("host-") and display.get_property("port") > 0
assert display.get_property("ticket") and display.get_property("expiry") > 0
assert refreshed(vm.get_host()).get_property("name") in hosts
assert len(fetched(vm.get_cdroms())) == 1
vm.stop(proxy)
wait(vm, "down")
vm.delete(proxy)

# The other way to log in: the token of a session.
tls = ssl.create_default_context(cafile=connection["ca_file"])
form = {"grant_type": "password", "scope": "ovirt-app-api", "username": connection["username"], "password": connection["password"]}
# The engine answers this path to clients that ask for JSON only.
login = urllib.request.Request(
    connection["url"] + "/sso/oauth/token", urllib.parse.urlencode(form).encode(), {"Accept": "application/json"}
)
with urllib.request.urlopen(login, context=tls) as answer:
    token = json.load(answer)["access_token"]
assert reach(sso_token=token).fetch_api().get_hosts()
