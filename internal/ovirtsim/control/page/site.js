'use strict'
// The page gets the whole state whenever it has changed and makes the document like it.

// The kind of a state decides its colour and its shape.
const kinds = { up: 'ok', ok: 'ok', down: 'off', suspended: 'off', paused: 'off', maintenance: 'off', image_locked: 'lock', locked: 'lock',
  unknown: 'bad', not_responding: 'bad', non_responsive: 'bad', illegal: 'bad' }
function kind(status) { return kinds[status] || 'busy' }

const readiness = { True: ['ok', 'Ready'], False: ['bad', 'NotReady'] }
function ready(node) { return readiness[node.ready] || ['bad', 'Ready is ' + (node.ready || 'unknown').toLowerCase()] }

function makeVM() {
  const name = h('span.name'), state = badge(), node = h('div.node'), nodeName = h('span.mono'), nodeReady = badge(), role = h('span.role', 'control plane')
  const address = h('span.mono.muted'), error = h('div.error')
  node.append(h('span.muted', 'node'), nodeName, nodeReady, role)
  const body = h('div.body'), card = h('details.vm', h('summary', name, h('div.line', state, address), node, error), body)
  let latest, shown, before
  card.show = vm => {
    const now = JSON.stringify(vm)
    if (now === shown) return
    shown = now
    latest = vm
    card.id = 'vm-' + vm.id
    const look = vm.guestError ? 'bad' : kind(vm.status)
    attr(card, 'data-kind', look)
    text(name, vm.name)
    state.show([kind(vm.status), words(vm.status)])
    text(address, (vm.addresses || []).join(' '))
    show(address, !!vm.addresses)
    show(node, !!vm.node)
    if (vm.node) {
      text(nodeName, vm.node.name)
      show(nodeName, vm.node.name !== vm.name) // most have one name for both, which is there already
      nodeReady.show(ready(vm.node))
      show(role, vm.node.controlPlane)
    }
    text(error, vm.guestError ? 'The guest did not come up: ' + vm.guestError : '')
    show(error, !!vm.guestError)
    if (card.open) showBody(body, vm)
    if (before && before !== vm.status) flash(card)
    before = vm.status
  }
  card.ontoggle = () => { if (card.open) showBody(body, latest); bury() } // the details are made when somebody looks
  return card
}

function showBody(body, vm) {
  if (!body.firstChild) {
    body.facts = h('dl.facts')
    body.nics = h('ul.parts')
    body.disks = h('ul.parts')
    body.append(body.facts, h('h5', 'Network interfaces'), body.nics, h('h5', 'Disks'), body.disks)
  }
  facts(body.facts, [
    ['Status', vm.status], ['Comment', vm.comment], ['Memory', size(vm.memoryBytes)], ['CPUs', vm.cpus], ['Boots', vm.boots || 'none yet'],
    ['Tags', (vm.tags || []).join(', ')], ['Cluster', vm.cluster], ['Host', vm.host || 'none'],
    ['Node', vm.node && vm.node.name], ['Endpoint', vm.node && vm.node.endpoint], ['ID', vm.id],
  ])
  list(body.nics, vm.nics || [], n => n.name, () => {
    const title = h('div'), mac = h('div.mono'), addresses = h('div.mono'), node = h('li', title, mac, addresses)
    node.show = n => {
      text(title, n.name + (n.network ? ' on ' + n.network : ', not connected'))
      text(mac, n.mac)
      text(addresses, (n.addresses || []).join(' ') || 'no address reported')
    }
    return node
  })
  list(body.disks, vm.disks || [], d => d.id, makeDisk)
}

function makeDisk() {
  const title = h('span'), state = badge(), facts = h('div.muted'), sum = h('div.mono.muted'), node = h('li', h('div.head', title, state), facts, sum)
  node.show = d => {
    text(title, d.name)
    state.show([kind(d.status), words(d.status)])
    text(facts, [`${size(d.provisionedBytes)}, ${size(d.actualBytes)} taken`, d.format + (d.sparse ? ' sparse' : ' preallocated'), d.storageDomain && 'on ' + d.storageDomain, d.bootable && 'bootable'].filter(Boolean).join(', '))
    text(sum, d.sha256 ? 'sha256 ' + d.sha256 : '')
  }
  return node
}

// Beyond so many VMs a host shows those in trouble first and then the first by name; the rest is a filter away.
const most = 300
const cards = new Map() // of all VMs, by ID

function counts(node, vms) {
  const by = new Map()
  for (const vm of vms) by.set(vm.status, (by.get(vm.status) || 0) + 1)
  list(node, [...by].sort((a, b) => b[1] - a[1]), c => c[0], () => {
    const b = badge(), item = h('li', b)
    item.show = ([status, n]) => b.show([kind(status), number(n) + ' ' + words(status)])
    return item
  })
}

function inTrouble(vm) { return vm.guestError || kind(vm.status) === 'bad' || vm.node && vm.node.ready !== 'True' }

// box is what shows VMs: a host, or the place of those that run nowhere.
function box(nowhere) {
  const name = h('h4'), state = badge(), memory = meter('Memory of the host'), number_ = h('span.muted.small.end'), by = h('ul.counts'), vms = h('div.vms'), rest = h('p.empty')
  const node = h('section.host', h('div.head', name, state, number_), memory, by, rest, vms)
  node.classList.toggle('nowhere', nowhere)
  show(state, !nowhere)
  show(memory, !nowhere)
  node.show = ({ host, vms: all, matching }) => {
    text(name, host ? host.name : 'Running nowhere')
    attr(node, 'aria-label', host ? 'Host ' + host.name : 'VMs that run nowhere')
    if (host) {
      state.show([kind(host.status), words(host.status)])
      memory.show(host.usedBytes, host.memoryBytes)
    }
    text(number_, matching.length === all.length ? count(all.length, 'VM') : `${number(matching.length)} of ${count(all.length, 'VM')}`)
    let some = matching
    if (matching.length > most) {
      const first = new Set([...matching.filter(inTrouble), ...matching].slice(0, most))
      some = matching.filter(vm => first.has(vm)).slice(0, most)
    }
    show(by, all.length > 12)
    if (all.length > 12) counts(by, all)
    node.classList.toggle('wide', all.length > 12)
    text(rest, !all.length ? 'No VMs' : !matching.length ? 'None that match' : some.length < matching.length ? `Shown are ${number(some.length)} of ${number(matching.length)}, those in trouble first. The filter finds the others.` : '')
    show(rest, rest.textContent !== '')
    list(vms, some, vm => vm.id, makeVM, cards)
  }
  return node
}

function makeCluster() {
  const title = h('h3'), facts = h('span.muted.small'), hosts = h('div.hosts'), groups = h('ul.rows'), none = h('p.empty', 'No affinity groups.')
  const node = h('section.panel', h('div.head', title, facts), hosts, h('div', h('h3.groups', 'Affinity groups'), groups, none))
  node.lastChild.style.marginTop = '1rem'
  node.show = ({ cluster, vms, matches }) => {
    text(title, 'Cluster ' + cluster.name)
    attr(node, 'aria-label', 'Cluster ' + cluster.name)
    const on = new Map(cluster.hosts.map(h => [h.name, []])), nowhere = []
    for (const vm of vms) (on.get(vm.host) || nowhere).push(vm)
    text(facts, `${count(cluster.hosts.length, 'host')}, ${count(vms.length, 'VM')}`)
    const boxes = cluster.hosts.map(host => ({ host, vms: on.get(host.name), matching: on.get(host.name).filter(matches) }))
    if (nowhere.length) boxes.push({ vms: nowhere, matching: nowhere.filter(matches) })
    list(hosts, boxes, b => b.host ? 'host ' + b.host.name : 'nowhere', b => box(!b.host))
    const hostOf = new Map(vms.map(vm => [vm.name, vm]))
    show(none, !list(groups, cluster.affinityGroups, g => g.name, makeGroup(hostOf)))
    for (const g of groups.children) g.members(hostOf)
  }
  return node
}

function makeGroup(hostOf) {
  return () => {
    const name = h('strong'), rule = h('span.muted.small'), state = badge(), members = h('ul.chips'), node = h('li', h('div.head', name, rule, state), members)
    let group
    node.show = g => { group = g }
    node.members = hostOf => {
      text(name, group.name)
      text(rule, (group.positive ? 'keep together' : 'keep apart') + (group.enforcing ? ', hard' : ', soft'))
      const hosts = group.vms.map(vm => hostOf.get(vm)?.host).filter(Boolean), different = new Set(hosts).size
      const kept = group.positive ? different <= 1 : different === hosts.length
      state.show(hosts.length < 2 ? ['off', 'nothing to keep yet'] : kept ? ['ok', 'kept'] : group.enforcing ? ['bad', 'not kept'] : ['busy', 'not kept'])
      list(members, group.vms, vm => vm, plain('li.chip', vm => { const host = hostOf.get(vm)?.host; return host ? vm + ' on ' + host : vm }))
      for (const chip of members.children) chip.show(chip.key)
    }
    return node
  }
}

function makeCenter() {
  const title = h('h2'), clusters = h('div.center'), domains = h('ul.rows'), networks = h('ul.chips')
  const node = h('section.center', title, clusters, h('div.panel.columns', h('div', h('h3', 'Storage domains'), domains), h('div', h('h3', 'Networks'), networks)))
  node.show = ({ center, vms, matches }) => {
    text(title, 'Data center ' + center.name)
    attr(node, 'aria-label', 'Data center ' + center.name)
    list(clusters, center.clusters.map(cluster => ({ cluster, vms: vms.get(cluster) || [], matches })), c => c.cluster.name, makeCluster)
    list(domains, center.storageDomains, d => d.name, () => {
      const name = h('span'), bar = meter('Space of the storage domain'), node = h('li', name, bar)
      node.show = d => { text(name, d.name); bar.show(d.usedBytes, d.bytes) }
      return node
    })
    list(networks, center.networks, n => n, plain('li.chip'))
  }
  return node
}

// byCluster shares the VMs out. A VM names its cluster and its host; where two data centers have a cluster of one name, the
// host decides, else the first.
function byCluster(state) {
  const clusters = new Map(), out = new Map()
  for (const center of state.dataCenters)
    for (const cluster of center.clusters) {
      if (!clusters.has(cluster.name)) clusters.set(cluster.name, [])
      clusters.get(cluster.name).push({ cluster, hosts: new Set(cluster.hosts.map(h => h.name)) })
      out.set(cluster, [])
    }
  for (const vm of state.vms) {
    const candidates = clusters.get(vm.cluster)
    if (candidates) out.get((candidates.find(c => c.hosts.has(vm.host)) || candidates[0]).cluster).push(vm)
  }
  return out
}

function faultWords(f) {
  const when = f.guest ? (f.vm ? 'VMs like ' + f.vm : 'all VMs') : [f.method || 'any method', f.path ? 'on ' + f.path : 'on any path'].join(' ')
  const then = [f.delayMillis && `wait ${number(f.delayMillis)} ms`, f.guest && 'guest ' + f.guest.replaceAll('-', ' '), f.action && f.action.replaceAll('-', ' '),
    f.status && 'answer ' + f.status, f.reason || f.detail ? `“${[f.reason, f.detail].filter(Boolean).join(': ')}”` : ''].filter(Boolean).join(', ')
  const often = [f.nth > 1 && `from match ${f.nth} on`, f.count && `at most ${count(f.count, 'time')}`, f.probability && `with probability ${f.probability}`].filter(Boolean).join(', ')
  return [when, then, often]
}

function makeFault() {
  const id = h('strong'), when = h('span.mono'), then = h('div'), often = h('div.muted.small'), hits = badge(), node = h('li', h('div.head', id, when, hits), then, often)
  hits.classList.add('end')
  node.show = f => {
    const [w, t, o] = faultWords(f)
    text(id, '#' + f.id)
    text(when, w)
    text(then, t)
    text(often, o)
    hits.show([f.hits ? 'bad' : 'off', f.hits ? count(f.hits, 'hit') : 'no hits'])
  }
  return node
}

// Paths hold UUIDs, of which the beginning is enough for people; the name of the VM says more, also after it is gone.
const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g
const names = new Map() // of VMs, by ID

function makeRequest() {
  const time = h('time'), status = h('td'), path = h('span'), who = h('span.who'), fault = h('span.note.bad'), cells = [h('td', time), h('td'), h('td', path, ' ', who, ' ', fault), status, h('td')]
  const node = h('tr', ...cells)
  node.show = r => {
    time.dateTime = r.time
    text(time, clock(r.time))
    text(cells[1], r.method)
    node.classList.toggle('read', r.method === 'GET')
    let query = r.query || ''
    try { query = decodeURIComponent(query.replaceAll('+', ' ')) } catch { /* as it came */ }
    const whole = r.path + (query && '?' + query)
    if (path.title !== whole) {
      path.title = whole
      path.replaceChildren(...whole.replace(uuid, id => id.slice(0, 8) + '…').split(/(?=[/?&])/).flatMap(part => [document.createElement('wbr'), part]))
    }
    const name = (whole.match(uuid) || []).map(id => names.get(id)).find(Boolean)
    if (name) text(who, name)
    text(fault, r.fault ? 'fault #' + r.fault : '')
    show(fault, !!r.fault)
    text(status, r.status || 'none')
    status.className = !r.status || r.status >= 400 ? 'status-bad' : ''
    text(cells[4], number(r.millis))
  }
  return node
}

function makeEvent() {
  const time = h('time.muted'), severity = badge(), what = h('span'), node = h('li', h('div.head', time, severity), what)
  node.show = e => {
    time.dateTime = e.time
    text(time, clock(e.time))
    severity.show([{ error: 'bad', alert: 'bad', warning: 'busy' }[e.severity] || 'off', e.severity])
    show(severity, e.severity !== 'normal')
    text(what, e.description)
  }
  return node
}

function figures(state) {
  const s = state.summary, nodes = state.vms.filter(vm => vm.node), isReady = nodes.filter(vm => vm.node.ready === 'True').length
  const hosts = state.dataCenters.flatMap(d => d.clusters).flatMap(c => c.hosts)
  list($('figures'), [
    ['VMs', number(s.vms), true, state.vms], ['Nodes ready', `${number(isReady)} of ${number(nodes.length)}`, true], ['Hosts up', `${number(hosts.filter(h => h.status === 'up').length)} of ${number(hosts.length)}`, true],
    ['NICs', number(s.nics)], ['Disks', number(s.disks)], ['Templates', number(s.templates)], ['Affinity groups', number(s.affinityGroups)], ['Tags', number(s.tags)],
    ['Transfers', number(s.transfers)], ['Sessions', number(s.sessions)], ['Logins', number(s.logins)],
  ], f => f[0], item => {
    const node = figure(item), by = h('ul.counts'), write = node.show
    if (item[3]) node.append(h('dd', by))
    node.show = item => { write(item); if (item[3]) counts(by, item[3]) }
    return node
  })
}

function trouble(state) {
  const all = []
  for (const center of state.dataCenters)
    for (const cluster of center.clusters)
      for (const host of cluster.hosts)
        if (host.status !== 'up' && host.status !== 'maintenance') all.push(['host ' + host.name, `Host ${host.name}`, 'is ' + words(host.status)])
  for (const vm of state.vms) {
    if (vm.guestError) all.push(['guest ' + vm.id, vm.name, 'did not come up: ' + vm.guestError, '#vm-' + vm.id])
    else if (kind(vm.status) === 'bad') all.push(['vm ' + vm.id, vm.name, 'is ' + words(vm.status), '#vm-' + vm.id])
    else if (vm.node && vm.node.ready === 'Unknown') all.push(['node ' + vm.id, vm.name, 'is a node that is not heard of', '#vm-' + vm.id])
    else if (vm.node && vm.node.ready === 'False' && vm.status === 'up') all.push(['node ' + vm.id, vm.name, 'is a node that is not Ready', '#vm-' + vm.id])
  }
  return troubles(all)
}

function endpoints(state) {
  const by = new Map()
  for (const vm of state.vms) if (vm.node) (by.get(vm.node.endpoint) || by.set(vm.node.endpoint, []).get(vm.node.endpoint)).push(vm.node)
  show($('kubernetes'), by.size > 0)
  list($('endpoints'), [...by].sort(), e => e[0], () => {
    const address = h('strong.mono'), state = badge(), roles = h('span.muted.small'), node = h('li', h('div.head', address, state, roles))
    node.show = ([endpoint, nodes]) => {
      const isReady = nodes.filter(n => n.ready === 'True').length, planes = nodes.filter(n => n.controlPlane).length
      text(address, endpoint)
      state.show([isReady === nodes.length ? 'ok' : 'bad', `${number(isReady)} of ${count(nodes.length, 'node')} Ready`])
      text(roles, [planes && `${number(planes)} control plane`, nodes.length - planes && count(nodes.length - planes, 'worker')].filter(Boolean).join(', '))
    }
    return node
  })
}

// A VM of a pool carries the pool's tag, and once it is claimed a tag of its own; the comment says whose it is.
const claimTag = 'capolvm-claim-', isClaimed = vm => (vm.tags || []).some(t => t.startsWith(claimTag))
const claimant = vm => (/^capolvm owner=(\S+)/.exec(vm.comment || '') || [, 'nobody yet'])[1]

function pools(state) {
  const by = new Map()
  for (const vm of state.vms)
    for (const tag of vm.tags || [])
      if (!tag.startsWith('capolvm-')) (by.get(tag) || by.set(tag, []).get(tag)).push(vm)
  show($('pools'), by.size > 0)
  list($('pool-list'), [...by].sort(), p => p[0], () => {
    const name = h('strong'), state = badge(), claims = h('ul.parts.small'), node = h('li', h('div.head', name, state), claims)
    node.show = ([tag, vms]) => {
      const claimed = vms.filter(isClaimed)
      text(name, tag)
      state.show([claimed.length === vms.length ? 'busy' : 'ok', `${number(claimed.length)} of ${count(vms.length, 'VM')} claimed`])
      list(claims, claimed, vm => vm.id, () => {
        const link = h('a'), by = h('span.muted'), row = h('li', link, by)
        row.show = vm => { text(link, vm.name); attr(link, 'href', '#vm-' + vm.id); text(by, ' by ' + claimant(vm)) }
        return row
      })
    }
    return node
  })
}

// searched is what the filter looks at in a VM.
function searched(vm) {
  const n = vm.node || {}
  return [vm.name, vm.comment, words(vm.status), vm.status, vm.host, vm.cluster, vm.id, vm.guestError, n.name, n.endpoint, n.controlPlane && 'control plane', ...(vm.addresses || []), ...(vm.tags || []),
    ...(vm.nics || []).flatMap(i => [i.mac, i.network])]
}

function update(state) {
  const focused = document.activeElement
  const lets = filter(searched), matching = lets && new Set(state.vms.filter(lets))
  text($('version'), state.version)
  text($('url'), state.url)
  document.body.classList.toggle('compact', state.vms.length >= 100)
  figures(state)
  const wrong = trouble(state)
  document.title = `${wrong ? `(${number(wrong)}) ` : ''}ovirtsim: ${count(state.summary.vms, 'VM')}`
  endpoints(state)
  pools(state)
  const vms = byCluster(state)
  list($('centers'), state.dataCenters.map(center => ({ center, vms, matches: vm => !matching || matching.has(vm) })), c => c.center.name, makeCenter)
  show($('floating-none'), !list($('floating'), state.disks, d => d.id, makeDisk))
  show($('faults-none'), !list($('fault-list'), state.faults, f => String(f.id), makeFault))
  for (const vm of state.vms) names.set(vm.id, vm.name)
  list($('request-rows'), state.requests, r => String(r.seq), makeRequest)
  show($('events-none'), !list($('event-list'), state.events, e => e.time + e.description, makeEvent))
  text($('matches'), matching ? `${number(matching.size)} of ${count(state.vms.length, 'VM')}` : '')
  bury()
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }) // where there is no moveBefore
}

$('search').onsubmit = event => event.preventDefault()
$('filter').oninput = () => { if (current) later() }
onhashchange = () => {
  const target = $(decodeURIComponent(location.hash.slice(1)))
  if (target?.tagName === 'DETAILS') { target.open = true; target.firstElementChild.focus() }
}
connect()
